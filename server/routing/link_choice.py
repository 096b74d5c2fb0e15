"""Which link a message to a queue group goes over, where all of the group's members are remote."""

from random import Random
from typing import Any

from midge.server.routing.client import Client
from midge.sublist.result import QueueGroup


def pick_link(group: QueueGroup, publisher: Client | None, chooser: Random | None) -> Client | None:
    """Choose a link for a message to `group`, each as often as its members there weigh.

    In turn, or at random with a `chooser`. None when there are members nowhere but behind
    `publisher`, the link that the message comes from.
    """
    members: tuple[Any, ...] = group.members
    total = 0
    for member in members:
        if member.remote is not publisher:
            total += member.weight
    if total <= 0:
        return None
    if chooser is None:
        group.turn += 1
        place = group.turn % total
    else:
        place = chooser.randrange(total)
    for member in members:
        if member.remote is not publisher:
            place -= member.weight
            if place < 0:
                link: Client = member.remote
                return link
    return None
