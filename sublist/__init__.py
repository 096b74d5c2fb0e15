"""Subjects, subscriptions and the SubList that matches subjects to subscriptions.

Rules about subjects belong here: validity, overlaps, matching and transforms. The delivery to the
subscriptions that match belongs into `server/routing`.
"""

from midge.sublist.result import EMPTY_RESULT, QueueGroup, Remotes, SubListResult
from midge.sublist.sublist import SubList, SubListError, SubListStats
from midge.sublist.subscription import OwnedSubscription, RemoteSubscription, Subscription

__all__ = [
    "EMPTY_RESULT",
    "OwnedSubscription",
    "QueueGroup",
    "RemoteSubscription",
    "Remotes",
    "SubList",
    "SubListError",
    "SubListResult",
    "SubListStats",
    "Subscription",
]
