"""One route: a link between two servers of a cluster, which carries every account.

What it is to one account is a RouteBranch: messages of that account go over it and come from it,
and it has the interest that the other server has announced in it. A message that came over a route
goes to clients and leaf nodes here. It goes over another route only for a queue group whose members
here have left.
"""

from typing import TYPE_CHECKING, Any

from midge.protocol.errors import UNKNOWN_OPERATION, ProtocolError
from midge.protocol.frame import Frame
from midge.protocol.link import ROUTE, LinkParser
from midge.server.peers.link import DOCUMENT_MAX_BYTES, Branch, Link
from midge.server.peers.link_commands import LinkCommands
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.role import Role
from midge.sublist.subscription import RemoteSubscription

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.broker.broker import Broker

_ROUTE = int(Role.ROUTE)
_SUBJECT_MIN = len(b"RMSG ")  # a PUB has its subject before that


def route_link(
    broker: "Broker", cid: int, peer: tuple[str, int], end: Any, ping_interval_s: float
) -> Link:
    """Return a new link to another server of the cluster."""
    parser = LinkParser(
        RouteCommands(maps=False),
        ROUTE,
        max_control_line=DOCUMENT_MAX_BYTES,
        max_payload=broker.options.limits.max_payload_bytes,
    )
    return Link(broker, cid, peer, end, _ROUTE, parser, ping_interval_s)


class RouteCommands(LinkCommands):
    """Takes the lines that come over a route; `branches` has a branch for each account."""

    def make_branch(self, name: bytes) -> "RouteBranch | None":
        """Return a new branch for the account called `name`, or None."""
        account = self.link.end.cluster.account_of(name, len(self.branches))
        return None if account is None else RouteBranch(self.link, account, name)

    def present(self) -> "RouteBranch | None":
        """Return the branch of the account that the current line names."""
        here: RouteBranch | None = self.named(self.link.parser.account)
        if here is not None:
            origin = self.link.parser.origin
            here.origin = origin.decode(errors="replace") if origin else ""
        return here

    def drop_refused(self, takes: "Callable[[bytes], bool]") -> None:
        """Remove the announced interest that `takes` refuses."""
        for branch in self.branches.values():
            before, branch.interest = branch.interest, []
            refused: list[RemoteSubscription] = []
            for one in before:
                kept = branch.interest if takes(one.subject) else refused
                one.place = len(kept)
                kept.append(one)
            for one in refused:
                self.link.announced.forget_size(one)
            self.link.announced.drop(self.link, branch, refused)

    # What the other server sends.

    def source_of(self, frame: Frame) -> "RouteBranch | None":
        """Return the branch of the account that a message is of.

        Raises:
            ProtocolError: it is a client's line, which names none.
        """
        if frame.subject_start < _SUBJECT_MIN:
            raise ProtocolError(UNKNOWN_OPERATION, "a client's line on a route")
        return self.present()


class RouteBranch(Branch):
    """One account's branch of a route."""

    def leave_account(self, account: Account) -> None:
        """Move to `account`, which has been made since, but not yet the interest announced so far.

        The caller adds that, and each piece is a change of its own.
        """
        before, self.account = self.account, account
        for remote in self.interest:
            before.sublist.remove_remote(remote)

    def forward(self, publisher: Client | None, frame: Frame, queues: list[bytes] | None) -> bool:
        """Send `frame` over the route; return whether it goes."""
        if publisher is not None and self.link.names_origins:
            origin = _origin_of(publisher)
            if origin:
                head = b"LMSG %b %b" % (origin.encode(), self.account_word)
                return self._send_from_leaf(publisher, frame, head, queues)
        return self.link.send_message(publisher, frame, self.heads, queues)

    def _send_from_leaf(
        self, publisher: Client | None, frame: Frame, head: bytes, queues: list[bytes] | None
    ) -> bool:
        """Send a message that a leaf node has brought; `head` names its cluster and the account."""
        link = self.link
        if link.deliver_checks:
            allowed = link.sendable(publisher, frame)
            if allowed is None:
                return False
            frame = allowed
        link.link_outbound.append_from_leaf(frame, head, queues)
        link.note_sent(1, frame.size)
        return True

    def takes_run(self, publisher: Client | None, frame: Frame) -> bool:
        """Return whether nothing but the subject decides, and that is allowed."""
        if publisher is not None and self.link.names_origins and _origin_of(publisher):
            return False
        return self.link.sends_run(frame)


def _origin_of(publisher: Any) -> str:
    """Return the cluster of the leaf node that a message of `publisher` comes from, or ""."""
    if not isinstance(publisher, Branch):
        return ""
    branch: Branch = publisher
    return branch.origin or branch.cluster
