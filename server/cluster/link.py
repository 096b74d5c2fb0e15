"""One route: a link between two servers of a cluster, which carries every account.

What it is to one account is a RouteBranch: messages of that account go over it and come from it,
and it has the interest that the other server has told in it. A message that came over a route goes
to clients and leaf nodes here. It goes over another route only for a queue group whose members
here have left.
"""

from typing import TYPE_CHECKING, Any

from midge.protocol.errors import UNKNOWN_OPERATION, ProtocolError
from midge.protocol.frame import Frame
from midge.protocol.route import RouteParser
from midge.server.links.link import DOCUMENT_MAX_BYTES, Link
from midge.server.links.outbound import Heads
from midge.server.peers.passage import BOTH, passes
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.role import Role
from midge.sublist.subscription import RemoteSubscription

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.broker.broker import Broker

_LEAF, _HUB = int(Role.LEAF), int(Role.HUB)
_SUBJECT_MIN = len(b"RMSG A ")  # a PUB has its subject before that
_NO_CHUNKS = ChunkPool()  # nothing is written to a branch


class RouteLink(Link):
    """A link to another server of the cluster; `role` is Role.ROUTE for a route.

    `branches` are its parts, by the name of their account. `names_origins` says that the other
    server reads which leaf node cluster a line comes from.
    """

    def __init__(
        self,
        broker: "Broker",
        cid: int,
        peer: tuple[str, int],
        side: Any,
        role: int,
        ping_interval_s: float,
    ) -> None:
        parser = RouteParser(
            self,
            max_control_line=DOCUMENT_MAX_BYTES,
            max_payload=broker.options.limits.max_payload_bytes,
        )
        Link.__init__(self, broker, cid, peer, side, role, parser, ping_interval_s, maps=False)
        self.branches: dict[bytes, RouteBranch] = {}
        self.names_origins = False
        self._here: RouteBranch | None = None
        self._here_name = b""

    def branch(self, name: bytes) -> "RouteBranch | None":
        """Return the part of the account called `name`, made now if necessary.

        None, if the other server names too many accounts that are not here.
        """
        found = self.branches.get(name)
        if found is None:
            account = self.side.account_of(name, len(self.branches))
            if account is None:
                return None
            found = RouteBranch(self, account, name)
            self.branches[name] = found
        return found

    def _at_hand(self) -> "RouteBranch | None":
        """Return the part of the account that the line at hand names."""
        name = self.parser.account
        if name is not self._here_name or self._here is None:
            self._here = self.branch(name)
            self._here_name = name
        here = self._here
        if here is not None:
            origin = self.parser.origin
            here.origin = origin.decode(errors="replace") if origin else ""
        return here

    def drop_interest(self) -> None:
        """Remove all that the other server has told."""
        for branch in list(self.branches.values()):
            left, branch.interest = branch.interest, {}
            self.drop(branch, left)

    def drop_refused(self, takes: "Callable[[bytes], bool]") -> None:
        """Remove what the other server has told that `takes` refuses."""
        for branch in list(self.branches.values()):
            refused = [key for key in branch.interest if not takes(key[0])]
            left = {key: branch.interest.pop(key) for key in refused}
            for told in left.values():
                self.forget_size(told)
            self.drop(branch, left)

    def lost(self) -> None:
        """Release everything after the transport is lost."""
        Link.lost(self)
        self._here = None
        self.branches.clear()

    # What the other server sends.

    def on_link_subscribe(self, subject: bytes, queue: bytes | None, weight: int) -> None:
        """Note the other server's interest, or that a queue group has another weight."""
        here = self._at_hand()
        if here is None or not self.is_ready:
            return
        origin = here.origin
        told = RemoteSubscription(subject, queue, here, weight, origin, bool(origin))
        self.begin_interest(here, here.interest, (subject, queue, origin), told)

    def on_link_unsubscribe(self, subject: bytes, queue: bytes | None) -> None:
        """Forget interest of the other server."""
        here = self._at_hand()
        if here is not None:
            self.end_interest(here, here.interest, (subject, queue, here.origin))

    def on_publish(self, frame: Frame) -> None:
        """Route a message to plain subscriptions here."""
        if frame.subject_start < _SUBJECT_MIN:
            raise ProtocolError(UNKNOWN_OPERATION, "a client's line on a route")
        here = self._at_hand()
        if here is not None:
            self.take(here, frame)

    def on_publish_run(self, frame: Frame, count: int) -> int:
        """Route messages that differ in their payloads only; return how many."""
        if frame.subject_start < _SUBJECT_MIN:
            raise ProtocolError(UNKNOWN_OPERATION, "a client's line on a route")
        here = self._at_hand()
        return count if here is None else self.take_run(here, frame, count)

    def on_link_message(self, frame: Frame, queues: list[bytes]) -> None:
        """Route a message that is for a member of each of `queues` too."""
        here = self._at_hand()
        if here is not None:
            self.take_for(here, frame, queues)

    def send_from_leaf(
        self,
        publisher: Client | None,
        frame: Frame,
        head: bytes,
        queues: list[bytes] | None,
    ) -> bool:
        """Send a message that a leaf node has brought; `head` names its cluster and the account."""
        if self.deliver_checks:
            allowed = self.sendable(publisher, frame)
            if allowed is None:
                return False
            frame = allowed
        self.link_outbound.append_from_leaf(frame, head, queues)
        self.note_sent(1, frame.size)
        return True


class RouteBranch(Client):
    """One account's part of a route; messages of that account go over it and come from it.

    `interest` is the interest that the other server has told, by subject, queue group and origin;
    `told` is the interest that it is told. `origin` is the cluster of the leaf node that the
    message at hand comes from.
    """

    def __init__(self, link: RouteLink, account: Account, name: bytes) -> None:
        Client.__init__(self, link.cid, account, _NO_CHUNKS)
        self.role = link.role
        self.link = link
        self.name = name
        self.cluster = ""
        self.origin = ""
        self.told: Any = None
        self.interest: dict[tuple[bytes, bytes | None, str], RemoteSubscription] = {}
        self._heads = Heads(b"RMSG %b " % name, b"HMSG %b " % name)

    def send(self, piece: bytes) -> None:
        """Send a line."""
        self.link.send(piece)

    def move_to(self, account: Account) -> None:
        """Move the interest announced so far to `account`, which has been made since."""
        before, self.account = self.account, account
        for told in self.interest.values():
            before.sublist.remove_remote(told)
            account.sublist.insert_remote(told)

    # As a publisher.

    def reaches(self, link: Any, origin: str) -> bool:
        """Return whether a message from this branch may go over `link`, to interest of `origin`."""
        if passes(self.role, link.role) != BOTH:
            return False
        own = self.origin
        return not own or (link.cluster != own and origin != own)

    def names_group(self, name: bytes) -> bool:
        """Return whether the line at hand names the queue group `name`."""
        return self.link.names_group(name)

    def run_goes_on(self, generation: int) -> bool:
        """Return whether nothing has halted the parser, and the next message is for the same."""
        halted = self.link.parser.halted
        return not halted and self.account.sublist.generation == generation

    def hold_for(self, receiver: Client) -> None:
        """Read no further for a moment after the batch at hand: `receiver` is far behind."""
        self.link.hold_for(receiver)

    # As a receiver.

    def forward(self, publisher: Client | None, frame: Frame, queues: list[bytes] | None) -> bool:
        """Send `frame` over the route, and tell whether it goes."""
        if publisher is not None and self.link.names_origins:
            origin = _origin_of(publisher)
            if origin:
                head = b"LMSG %b %b " % (origin.encode(), self.name)
                return self.link.send_from_leaf(publisher, frame, head, queues)
        return self.link.send_message(publisher, frame, self._heads, queues)

    def takes_run(self, publisher: Client | None, frame: Frame) -> bool:
        """Return whether nothing but the subject decides, and that is allowed."""
        if publisher is not None and self.link.names_origins and _origin_of(publisher):
            return False
        return self.link.sends_run(frame)

    def forward_run(self, frame: Frame, count: int, queues: list[bytes] | None) -> None:
        """Send `count` messages, `frame` the first, that differ in their payloads only."""
        self.link.send_run(frame, self._heads, count, queues)


def _origin_of(publisher: Any) -> str:
    """Return the cluster of the leaf node that a message of `publisher` comes from, or ""."""
    if isinstance(publisher, RouteBranch):
        return publisher.origin
    if publisher.role == _LEAF or publisher.role == _HUB:
        cluster: str = publisher.cluster
        return cluster
    return ""
