"""What the links between accounts share, and what they note of the message that crosses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from midge.protocol.frame import Frame
from midge.server.routing.over_links import CarriedGroup
from midge.server.routing.role import Role

if TYPE_CHECKING:
    from random import Random

    from midge.server.clock import Clock
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client
    from midge.server.routing.subscription import RoutedSubscription
    from midge.sublist.result import SubListResult

RouteFrame = Callable[["Account", "SubListResult", Frame, "Client | None"], int]
"""Routes a frame of `publisher` to the subscriptions in a result."""

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
        self.request_info: dict[str, Any] = {}
        """The requester's fields that a service on the current request's way has received."""

    def delivered_by(self, frame: Frame) -> bytes | None:
        """Return the subject by which JetStream delivers `frame`; None for any other message."""
        delivery = self.delivery
        return None if delivery is None or delivery[0] is not frame else delivery[1]


def is_from_worker(publisher: Client | None) -> bool:
    """Tell whether a message of `publisher` comes from another worker of this server."""
    return publisher is not None and publisher.role == Role.WORKER
