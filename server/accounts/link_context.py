"""What the links between accounts share, and what they note of the message that crosses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from midge.protocol.frame import Frame
from midge.server.routing.passage import BOTH, crosses, passes
from midge.server.routing.receivers import CarriedGroup
from midge.server.routing.role import BEHIND_ROUTES, Role
from midge.sublist.result import QueueGroup, Remotes, SubListResult

if TYPE_CHECKING:
    from random import Random

    from midge.server.clock import Clock
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client
    from midge.server.routing.subscription import RoutedSubscription

RouteFrame = Callable[["Account", "SubListResult", Frame, "Client | None", "Frame | None"], int]
"""Routes a frame of `publisher` to the subscriptions in a result; the last argument is the form of
the frame on links, where that differs."""

Carry = Callable[[CarriedGroup], object]
"""Takes a queue group that a message has reached, for the router to choose a member."""

Describe = Callable[["Client | None"], dict[str, Any]]
"""Returns the fields about a requesting client that a sharing import passes on."""


class LinkContext:
    """What all links of one server use; they deliver with `route` and `carry`."""

    def __init__(
        self, route: RouteFrame, carry: Carry, clock: Clock, random: Random, describe: Describe
    ) -> None:
        self.route = route
        self.carry = carry
        self.clock = clock
        self.random = random
        self.describe = describe
        self.max_payload = -1  # most bytes of headers and payload of a request; -1: no limit
        self.evicted_requests = 0  # unanswered requests that a further one evicted
        self.carrying: type[RoutedSubscription] | None = None
        """The kind of link that the current message has crossed. Only requests may cross further
        links, and only of services: a message of an imported stream is for that importer alone, and
        streams do not export the requests to a service.
        """
        self.delivery: tuple[Frame, bytes] | None = None
        """The message that JetStream delivers, and the subject by which it does. It shows another
        one and its ack subject, and both stay as they are across links.
        """
        self.trace: Any = None
        """The trace that the current message's link continues in the other account, or None."""
        self.request_info: dict[str, Any] = {}
        """The requester's fields that a service on the current request's way has received."""

    def delivered_by(self, frame: Frame) -> bytes | None:
        """Return the subject by which JetStream delivers `frame`; None for any other message."""
        delivery = self.delivery
        return None if delivery is None or delivery[0] is not frame else delivery[1]


def may_cross(publisher: Client | None, border: int) -> bool:
    """Return whether a message of `publisher` may go through an import here."""
    return publisher is None or crosses(publisher.role, border)


def across(result: SubListResult, publisher: Client | None, border: int) -> SubListResult:
    """Return `result` without the links that a message may not go over, now it crossed `border`."""
    remotes = result.remotes
    if remotes is None:
        return result
    origin = Role.CLIENT if publisher is None else publisher.role

    def may_go(link: Any, place: str) -> bool:
        target = Role.ROUTE if place.startswith(BEHIND_ROUTES) else link.role
        return passes(origin, target, border) == BOTH

    plain = tuple([link for link in remotes.plain if may_go(link, "")])
    groups: list[QueueGroup] = []
    for group in remotes.queues:
        far: tuple[Any, ...] = group.members
        members = tuple([one for one in far if may_go(one.remote, one.origin)])
        if members:
            groups.append(QueueGroup(group.name, members, group.turn))
    kept = Remotes(plain, tuple(groups)) if plain or groups else None
    return SubListResult(result.plain, result.queues, kept)
