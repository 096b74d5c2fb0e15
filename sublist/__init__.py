"""Subjects, subscriptions and the SubList that matches one against the other."""

from midge.sublist.result import EMPTY_RESULT, QueueGroup, SubListResult
from midge.sublist.sublist import SubList, SubListError, SubListStats
from midge.sublist.subscription import Subscription

__all__ = [
    "EMPTY_RESULT",
    "QueueGroup",
    "SubList",
    "SubListError",
    "SubListResult",
    "SubListStats",
    "Subscription",
]
