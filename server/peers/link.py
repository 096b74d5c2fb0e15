"""One link to another server, whatever its dialect: its life, what it sends, and its branches.

Which of the two servers has connected makes a difference to the handshake and to what happens on a
violation, and that is the business of `end`. The announcer (announcer.py) sends this server's
interest to the other one. `commands` takes the lines of the other server: link_commands.py, and for
each dialect route.py and worker.py.
"""

from typing import TYPE_CHECKING, Any, cast

from midge.protocol.frame import Frame, without_headers
from midge.protocol.link import LinkParser
from midge.server.auth.permissions import Permissions
from midge.server.channels.back_pressure import WriteRule
from midge.server.channels.channel import Channel, ChannelOwner
from midge.server.channels.channel_state import ChannelState
from midge.server.clients.closed_clients import SUBSCRIPTIONS_KEPT
from midge.server.peers.announced import Announced
from midge.server.peers.outbound import Heads, LinkOutbound
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.passage import BOTH, passes
from midge.server.routing.role import Role
from midge.server.routing.slow_path import (
    BEHIND,
    CLOSED,
    DENIED_SUBJECTS,
    NO_HEADERS,
    OVERSIZED,
    REPLY_GRANTS,
)
from midge.sublist.subscription import RemoteSubscription

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.broker.broker import Broker

DOCUMENT_MAX_BYTES = 1 << 20
"""Longest CONNECT or INFO of another server: lists of permissions and of addresses are in it."""

_CONNECTED = int(ChannelState.CONNECTED)
_ROUTE = int(Role.ROUTE)
_WORKER = int(Role.WORKER)
_PING = b"PING\r\n"


class Link(ChannelOwner):
    """A link to another server; `name` is that server's.

    `send_rules` limit the messages sent over the link and `take_rules` the messages accepted from
    it; None means no limit.
    `peer_max_payload` is the largest message that the other side accepts, `announced` the interest
    that it has announced, and `peer_protocol` its protocol version. With `names_origins` it reads
    which leaf node cluster a line comes from. `commands` is None once the transport is lost.

    It has a Branch for each account that it carries: one on a leaf node link, which has come up at
    `joined_at`, in seconds since the epoch, and all of them on a route or between workers. A route
    that `is_dedicated` carries one account, which no line names. `cluster` is the cluster of a leaf
    node.
    """

    def __init__(
        self,
        broker: "Broker",
        cid: int,
        peer: tuple[str, int],
        end: Any,
        role: int,
        parser: LinkParser,
        ping_interval_s: float,
    ) -> None:
        ChannelOwner.__init__(self, cid, broker.global_account, broker.chunks, broker.router)
        self.broker = broker
        self.role = role
        self.end = end
        self.parser = parser
        self.commands = cast("Any", parser.handler)
        self.commands.link = self
        self.link_outbound = LinkOutbound(broker.chunks)
        self.outbound = self.link_outbound
        self.channel = Channel(broker, self, parser, peer, ping_interval_s=ping_interval_s)
        self.is_ready = False
        self.name = ""
        self.announced = Announced()
        self.peer_protocol = 0
        self.send_rules: Permissions | None = None
        self.take_rules: Permissions | None = None
        self.peer_max_payload = 0
        self.names_origins = False
        self.is_dedicated = False
        self.cluster = ""
        self.remote_account = ""
        self.joined_at = 0.0
        self._last_interest: list[RemoteSubscription] = []
        self._asked: list[Callable[[], None] | None] = []

    # Come and gone.

    def opened(self) -> None:
        """Begin the handshake."""
        self.end.opened(self)

    def closed(self) -> None:
        """Remove the other server's interest; the last lines have been appended.

        The interest goes first, because `end` reports to observers that the link is gone.
        """
        self._last_interest = self.list_interest(SUBSCRIPTIONS_KEPT)
        if self.reason is not None:
            self.broker.link_closed(self.role, self.reason)
        self.announced.drop_all(self)
        self.end.closed(self)

    def transport_failed(self, error: Exception) -> None:
        """Note why the transport is about to be lost."""
        self.end.transport_failed(self, error)

    def lost(self) -> None:
        """Release everything after the transport is lost."""
        commands, self.commands = self.commands, None
        commands.lost()
        self.end.lost(self)

    def list_interest(self, most: int) -> list[RemoteSubscription]:
        """List up to `most` of what the other server announces, or had announced at the end."""
        if self.reason is not None and self._last_interest:
            return self._last_interest[:most]
        found: list[RemoteSubscription] = []
        branches = () if self.commands is None else self.commands.branches.values()
        for branch in branches:
            found += branch.interest[: most - len(found)]
        return found

    def write_rule(self) -> WriteRule:
        """Return the rule of this kind of link; by default a slow one stays."""
        options = self.broker.options
        if self.role == _WORKER:
            return ChannelOwner.write_rule(self)
        table = options.cluster if self.role == _ROUTE else options.leafnodes
        deadline_s = table.write_deadline_s or options.limits.write_deadline_s
        return WriteRule(deadline_s, table.write_timeout_policy != "close")

    # PING, and whether the other server has taken everything.

    def send_ping(self) -> None:
        """Send PING, to see whether the other server is there."""
        self.ask_taken(None)

    def ask_taken(self, taken: "Callable[[], None] | None") -> None:
        """Send PING, and call `taken` when the other server has taken everything, or is gone."""
        self._asked.append(taken)
        self.send(_PING)

    def answered(self) -> None:
        """Take the answer to the first PING that has none yet."""
        self.channel.keepalive.pong()
        self.end.answered(self)
        taken = self._asked.pop(0) if self._asked else None
        if taken is not None:
            taken()

    def release_asked(self) -> None:
        """Call everything that waits for an answer: the link has ended."""
        asked, self._asked = self._asked, []
        for taken in asked:
            if taken is not None:
                taken()

    # What it may carry.

    def start(self) -> None:
        """Take and send messages from now on."""
        self.is_ready = True
        self.channel.become(_CONNECTED)
        self.channel.keepalive.connected()

    def limit(
        self, send_rules: Permissions | None, take_rules: Permissions | None, max_payload: int
    ) -> None:
        """Limit the link by these rules, and by the other side's largest message."""
        self.send_rules = send_rules
        self.take_rules = take_rules
        self.peer_max_payload = max_payload
        own = self.parser.max_payload
        is_smaller = max_payload > 0 and (own < 0 or max_payload < own)
        grants = take_rules is not None and take_rules.allows_responses
        self._check(DENIED_SUBJECTS, send_rules is not None and send_rules.has_publish_rules)
        self._check(OVERSIZED, is_smaller)
        self._check(REPLY_GRANTS, grants)

    def takes_headers(self, takes: bool) -> None:
        """Note whether the other side can read headers."""
        self.parser.headers = takes
        self._check(NO_HEADERS, not takes)

    def _check(self, bit: int, on: bool) -> None:
        self.deliver_checks = self.deliver_checks | bit if on else self.deliver_checks & ~bit

    def pass_as(self, role: int) -> None:
        """Be a link of this role: Role.LEAF where the other server is a leaf, Role.HUB at a hub."""
        self.role = role

    def dedicate(self, account: str) -> None:
        """Carry only `account` from now on, as a route that names it in no line."""
        self.is_dedicated = True
        self.parser.dedicate(account.encode())

    # Messages.

    def account_of_lines(self) -> Account | None:
        """Return the account of the next PUBs, or None if each of them must be checked."""
        account: Account | None = self.commands.account_of_lines()
        return account

    def send_message(
        self, publisher: Client | None, frame: Frame, heads: Heads, queues: list[bytes] | None
    ) -> bool:
        """Send `frame` over the link; return whether it goes."""
        if self.deliver_checks:
            allowed = self.sendable(publisher, frame)
            if allowed is None:
                return False
            frame = allowed
        if queues:
            self.link_outbound.append_with_queues(frame, heads, queues)
        else:
            self.link_outbound.append_plain(frame, heads)
        self.note_sent(1, frame.size)
        return True

    def sends_run(self, frame: Frame) -> bool:
        """Return whether nothing but the subject decides, and that is allowed."""
        checks = self.deliver_checks
        if checks & BEHIND and self.channel.has_room(None):
            checks &= ~BEHIND
        if checks == NO_HEADERS and frame.header_size < 0:
            return True
        return not checks

    def send_run(self, frame: Frame, heads: Heads, count: int, queues: list[bytes] | None) -> None:
        """Send `count` messages, `frame` the first, that differ in their payloads only."""
        self.link_outbound.append_run_over(frame, heads, count, queues)
        self.note_sent(count, count * frame.size)

    def note_sent(self, count: int, size: int) -> None:
        """Schedule the write of `count` appended messages of `size` bytes together.

        It also checks whether the socket keeps up.
        """
        self.out_messages += count
        self.out_bytes += size
        self.router.touch(self)
        if self.outbound.behind and not self.deliver_checks & BEHIND:
            self.flushed()  # it has filled a chunk that its socket did not take

    def sendable(self, publisher: Client | None, frame: Frame) -> Frame | None:
        """Return what may be sent of `frame`, or None; called if `deliver_checks` is not 0."""
        checks = self.deliver_checks
        if checks & CLOSED:
            return None
        if checks & OVERSIZED and frame.size > self.peer_max_payload:
            self.end.refuse_oversized(self)
            return None
        if checks & DENIED_SUBJECTS and self.send_rules is not None:
            subject = frame.subject_bytes()
            if not self.send_rules.may_publish(subject):
                return None
        if checks & BEHIND and not self.channel.has_room(publisher):
            return None
        if checks & REPLY_GRANTS and self.take_rules is not None:
            reply = frame.reply_bytes()
            if reply is not None:
                self.take_rules.grant_response(reply, self.broker.clock.monotonic())
        if checks & NO_HEADERS and frame.header_size > 0:
            frame = without_headers(frame)
        return frame


class Branch(Client):
    """The branch of `link` for `account`, which is called `name` on the wire; a leaf's has none.

    Messages of that account go over it and come in. The other server has announced `interest`, and
    gets this server's interest by `announcer`. `cluster` is the cluster of the leaf node behind the
    link, and `origin` the cluster of the leaf node that has sent the current message of a route.
    Messages go to no link of the cluster that they come from. `account_word` names the account in
    a line, with a blank behind it; it is empty where the link carries one account.
    """

    def __init__(self, link: Link, account: Account, name: bytes) -> None:
        Client.__init__(self, link.cid, account, link.broker.chunks)
        self.role = link.role
        self.link = link
        self.name = name
        self.cluster = link.cluster
        self.origin = ""
        self.announcer: Any = None
        self.interest: list[RemoteSubscription] = []
        self.account_word = b"" if link.is_dedicated or not name else name + b" "
        verb = b"RMSG " if name else b"LMSG "
        self.heads = Heads(verb + self.account_word, b"HMSG " + self.account_word)

    def send(self, piece: bytes) -> None:
        """Send a line."""
        self.link.send(piece)

    # As a publisher.

    def names_group(self, name: bytes) -> bool:
        """Return whether the current line is for the queue group `name`."""
        commands = self.link.commands
        names: bool = commands is not None and commands.names_group(name)
        return names

    def reaches(self, link: Any, origin: str) -> bool:
        """Return whether a message from this branch may go over `link`, to interest of `origin`."""
        if link is self or passes(self.role, link.role) != BOTH:
            return False
        own = self.origin or self.cluster
        return not own or (link.cluster != own and origin != own)

    def run_goes_on(self, generation: int) -> bool:
        """Return whether nothing has halted the parser, and the next message is for the same."""
        return not self.link.parser.halted and self.account.sublist.generation == generation

    def pause_for(self, receiver: Client) -> None:
        """Pause reading after the current batch, because `receiver` is far behind."""
        self.link.pause_for(receiver)

    # As a receiver.

    def forward(self, publisher: Client | None, frame: Frame, queues: list[bytes] | None) -> bool:
        """Send `frame` over the link; return whether it goes."""
        return self.link.send_message(publisher, frame, self.heads, queues)

    def takes_run(self, publisher: Client | None, frame: Frame) -> bool:
        """Return whether nothing but the subject decides, and that is allowed."""
        return self.link.sends_run(frame)

    def forward_run(self, frame: Frame, count: int, queues: list[bytes] | None) -> None:
        """Send `count` messages, `frame` the first, that differ in their payloads only."""
        self.link.send_run(frame, self.heads, count, queues)
