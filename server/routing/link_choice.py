"""Which link a message to a queue group goes over, where the group has members behind links."""

from random import Random
from typing import Any

from midge.server.routing.client import Client
from midge.server.routing.role import Role
from midge.sublist.result import QueueGroup

_ROUTE = int(Role.ROUTE)


def pick_link(
    group: QueueGroup, publisher: Client | None, chooser: Random | None, here: int = 0
) -> Client | None:
    """Choose a link for a message to `group`, each as often as its members there weigh.

    In turn, or at random with a `chooser`. The `here` members of this server count like those
    behind links, and None says that one of them is to get the message, or that there is no member
    that it may go to. Members of last choice count only where there is no other.
    """
    members: tuple[Any, ...] = group.members
    total = here
    last = 0
    for member in members:
        if publisher is None or publisher.reaches(member.remote, member.origin):
            if member.is_last_choice:
                last += member.weight
            else:
                total += member.weight
    if total == here and here > 0:
        return None
    is_last = total == 0
    if is_last:
        total = last
    if total <= 0:
        return None
    if chooser is None:
        group.turn += 1
        place = group.turn % total
    else:
        place = chooser.randrange(total)
    place -= here
    if place < 0:
        return None
    for member in members:
        if member.is_last_choice == is_last and (
            publisher is None or publisher.reaches(member.remote, member.origin)
        ):
            place -= member.weight
            if place < 0:
                link: Client = member.remote
                return link
    return None


def pick_instead(
    group: QueueGroup, publisher: Client | None, chooser: Random | None, has_members: bool
) -> Client | None:
    """Choose a link for a message to `group` that no member here takes; None if there is none.

    What came over a route goes on over another one then, as nats-server's does: the members that
    it was sent here for have just left. It goes back over the same route only without
    `has_members` here, for two servers whose members all refuse would pass it to and fro.
    """
    chosen = pick_link(group, publisher, chooser, 0)
    if chosen is not None or publisher is None or publisher.role != _ROUTE:
        return chosen
    back: Client | None = None
    members: tuple[Any, ...] = group.members
    for member in members:
        link: Client = member.remote
        if link.role == _ROUTE:
            if link is not publisher:
                return link
            back = link
    return None if has_members else back
