"""The link between two workers of a server: messages of all accounts, in the dialect of routes.

It is not a route. The other worker is the same server, so authorization, permissions and mappings
are not applied a second time, and a message from the link never goes on to another worker.

Most messages have no headers. A message for a single subscription, without a reply, crosses in
blocks of MSG lines, see protocol/link.py. Any other PUB for plain subscriptions crosses
unchanged, in the account that an A+ has announced. CPU of both workers for a message of mixed
subjects, where one process takes 94 ns: 147 in blocks, 215 unchanged, 245 as an RMSG.
"""

from typing import TYPE_CHECKING, Any

from midge.protocol import lines, memory
from midge.protocol.frame import Frame, compose
from midge.protocol.link import NOBODY, WORKER, BlockHandler, LinkParser
from midge.server.broker.message_trace import TRACING_PROTOCOL
from midge.server.peers.link import Branch, Link
from midge.server.peers.link_commands import LinkCommands
from midge.server.peers.worker_interest import HARMLESS
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.passage import BOTH, DIRECT, STREAM, passes
from midge.server.routing.role import LAST_CHOICE, Role
from midge.server.routing.slow_path import BEHIND
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist.subscription import RemoteSubscription, Subscription

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker

_WORKER = int(Role.WORKER)
_NOTHING = bytearray()
_UNLIMITED = 1 << 62
_LINE_MAX_BYTES = 1 << 16
_PUB_BYTES = 4  # with its blank
_CARRIED = b"\0"  # before the name of an account: what imports have carried there
_HARMLESS = HARMLESS  # a C number where this is compiled


def worker_link(
    broker: "Broker",
    cid: int,
    index: int,
    end: Any,
    receivers: dict[int, RoutedSubscription],
) -> Link:
    """Return a new link to worker `index`, which is the port of its peer's address.

    `receivers` are the subscriptions here that the other worker knows by their numbers.
    """
    commands = WorkerCommands(receivers)
    parser = LinkParser(
        commands,
        WORKER,
        max_control_line=_LINE_MAX_BYTES,
        max_payload=-1,
        blocks=Blocks(commands),
    )
    interval_s = broker.options.keepalive.ping_interval_s
    link = Link(broker, cid, ("worker", index), end, _WORKER, parser, interval_s)
    link.announced.max_size = _UNLIMITED
    link.peer_protocol = TRACING_PROTOCOL
    link.takes_headers(True)
    return link


class WorkerCommands(LinkCommands):
    """Takes the lines that come over the link to another worker."""

    def __init__(self, receivers: dict[int, RoutedSubscription]) -> None:
        LinkCommands.__init__(self, maps=False)
        self._receivers = receivers

    def lost(self) -> None:
        """Drop all references: the transport is gone."""
        self.link.parser.blocks = NOBODY
        self.link.parser.taker = None
        LinkCommands.lost(self)

    def make_branch(self, name: bytes) -> "WorkerBranch":
        """Return a new branch for the account called `name`.

        With `_CARRIED` before it, that is the branch for what imports have carried to the account.
        """
        if name[:1] == _CARRIED:
            return WorkerBranch(self, self.branch(name[1:]).account, name, STREAM)
        return WorkerBranch(self, self.link.broker.account(name.decode()), name, DIRECT)

    def present(self) -> "WorkerBranch":
        """Return the branch of the account that the current line names."""
        here: WorkerBranch = self.named(self.link.parser.account)
        return here

    def source_of(self, frame: Frame) -> "WorkerBranch":
        """Return the branch of the account that `frame` belongs to; a PUB names none itself.

        Where it has come in pieces, its verb has been consumed before, and its subject is first.
        """
        is_pub = frame.subject_start <= _PUB_BYTES
        parser = self.link.parser
        here: WorkerBranch = self.named(parser.announced if is_pub else parser.account)
        return here

    # From the other worker.

    def on_link_subscribe(self, subject: bytes, queue: bytes | None, weight: int) -> None:
        """Note that there is interest, or that a queue group has another weight."""
        branch = self.present()
        from_where = self.link.parser.origin.decode()
        is_last_choice = from_where.endswith(LAST_CHOICE)
        remote = RemoteSubscription(subject, queue, branch, weight, from_where, is_last_choice)
        if queue is None:
            self._note_plain(branch, remote)
        else:
            self.link.announced.begin(self.link, branch, remote)

    def take_numbered(self, subject: bytes, number: int, sid: bytes) -> None:
        """Note that there is interest, of one subscription."""
        branch = self.present()
        self._note_plain(branch, NumberedSubscription(subject, branch, number, sid))

    def _note_plain(self, branch: "WorkerBranch", remote: RemoteSubscription) -> None:
        """Record plain interest, in place of the previous one for its subject."""
        known = self.link.announced.known(self.link, branch, remote.subject, None, "")
        if known is None:
            self.link.announced.begin(self.link, branch, remote)
            return
        sublist = branch.account.sublist
        sublist.remove_remote(known)
        sublist.insert_remote(remote)
        remote.place = known.place
        branch.interest[remote.place] = remote

    def on_link_unsubscribe(self, subject: bytes, queue: bytes | None) -> None:
        """Forget interest."""
        branch = self.present()
        from_where = self.link.parser.origin.decode()
        self.link.announced.end(self.link, branch, subject, queue, from_where)

    def account_of_lines(self) -> Account:
        """Return the account that the last A+ has named."""
        branch: WorkerBranch = self.named(self.link.parser.announced)
        return branch.account

    def goes_only_to(self, branch: "WorkerBranch", subscription: Subscription) -> bool:
        """Return whether PUBs like the current message can go straight to `subscription`."""
        sublist = branch.account.sublist
        view = self._view
        return (
            view is not None
            and view.lone is subscription
            and self._view_of is sublist
            and self._generation == sublist.generation
            and not self._is_unusual
            and self.link.router.observer is None
        )

    def take_block(
        self, data: bytearray, start: int, end: int, number: int, count: int, size: int
    ) -> None:
        """Pass MSG lines on to the subscription `number`, if that is still valid.

        Otherwise each message is routed on its own: the client has unsubscribed or set a maximum,
        there is another matching subscription, or an observer sees messages.
        """
        subscription = self._receivers.get(number)
        client = None if subscription is None else subscription.client
        if subscription is None or client is None or not self._takes_block(subscription, client):
            self._take_one_by_one(data, start, end)
            return
        self.link.in_messages += count
        self.link.in_bytes += size
        client.outbound.append_parts(_NOTHING, 0, data, start, end - 2)
        client.out_messages += count
        client.out_bytes += size
        subscription.delivered += count
        self.link.router.touch(client)
        if client.outbound.behind:
            client.flushed()
        self.link.spend(end - start)

    def _takes_block(self, subscription: RoutedSubscription, client: Client) -> bool:
        """Return whether `client` gets all messages of a block for `subscription`, as they are."""
        if subscription.max_messages or self.link.router.observer is not None:
            return False
        checks = client.deliver_checks & ~_HARMLESS
        return checks == 0 and (not client.deliver_checks & BEHIND or client.has_room(self.link))

    def _take_one_by_one(self, data: bytearray, start: int, end: int) -> None:
        """Route each message of a block by its subject."""
        branch: WorkerBranch = self.named(self.link.parser.announced)
        block = memory.take(data, start, end)
        at = 0
        while at < len(block):
            body = block.index(b"\n", at) + 1
            _, subject, _, size = block[at:body].split()
            at = body + int(size)
            self.take(branch, compose(subject, block[body:at]))
            at += 2


class Blocks(BlockHandler):
    """Passes the events that only a worker's parser has on to `commands`."""

    def __init__(self, commands: WorkerCommands) -> None:
        self._commands = commands

    def take_block(
        self, data: bytearray, start: int, end: int, number: int, count: int, size: int
    ) -> None:
        """See `WorkerCommands.take_block`."""
        self._commands.take_block(data, start, end, number, count, size)

    def take_numbered(self, subject: bytes, number: int, sid: bytes) -> None:
        """See `WorkerCommands.take_numbered`."""
        self._commands.take_numbered(subject, number, sid)


class WorkerBranch(Branch):
    """One account's branch of a link between workers.

    With a `border`, it is the way of what imports have carried to the account.
    """

    def __init__(
        self, commands: WorkerCommands, account: Account, name: bytes, border: int
    ) -> None:
        Branch.__init__(self, commands.link, account, name)
        self._commands = commands
        self.announcement = b"A+ %b\r\n" % name
        self._border = border

    def reaches(self, link: Any, origin: str) -> bool:
        """Return whether a message from the other worker may go on over `link`: not to a third.

        What an import has carried goes to no server that has the import.
        """
        return passes(self.role, link.role, self._border) == BOTH

    def carried(self) -> "WorkerBranch":
        """Return the way over this link for what an import has carried to the account."""
        branch: WorkerBranch = self._commands.branch(_CARRIED + self.name)
        return branch

    def forward(self, publisher: Client | None, frame: Frame, queues: list[bytes] | None) -> bool:
        """Send `frame` to the other worker; return whether it goes."""
        link = self.link
        if queues or not _is_plain_publish(frame):
            return link.send_message(publisher, frame, self.heads, queues)
        if link.deliver_checks and link.sendable(publisher, frame) is None:
            return False
        self._send_as_they_lie(frame, 1)
        return True

    def forward_run(self, frame: Frame, count: int, queues: list[bytes] | None) -> None:
        """Send `count` messages, `frame` the first, that differ in their payloads only."""
        if queues or not _is_plain_publish(frame):
            self.link.send_run(frame, self.heads, count, queues)
        else:
            self._send_as_they_lie(frame, count)

    def _send_as_they_lie(self, frame: Frame, count: int) -> None:
        """Send `count` PUBs, `frame` the first, one behind the other."""
        link = self.link
        link.link_outbound.announce(self.announcement)
        link.link_outbound.append_as_it_lies(frame, count)
        link.note_sent(count, count * frame.size)

    def lines_to(self, subscription: Subscription) -> Link | None:
        """Return the link, if the current message is a PUB for `subscription` only, else None."""
        return self.link if self._commands.goes_only_to(self, subscription) else None


class Numbered(Client):
    """The subscription `number` of the other worker, called `sid` by its client, as a receiver.

    What it alone is to get crosses as the client gets it; all else goes through `branch`.
    """

    def __init__(self, branch: WorkerBranch, number: int, sid: bytes) -> None:
        Client.__init__(self, branch.cid, branch.account, branch.link.broker.chunks)
        self.role = _WORKER
        self.branch = branch
        self.link = branch.link
        self.number = number
        self.sid = sid
        self.cluster = ""

    def carried(self) -> Client:
        """Return this branch: a message for a single client goes to no other link."""
        return self

    def forward(self, publisher: Client | None, frame: Frame, queues: list[bytes] | None) -> bool:
        """Send `frame` to the other worker; return whether it goes."""
        link = self.link
        if queues or not _is_bare(frame):
            return self.branch.forward(publisher, frame, queues)
        if link.deliver_checks and link.sendable(publisher, frame) is None:
            return False
        self._send_in_block(frame, 1)
        return True

    def forward_parts(self, subject: bytes, payload: bytes) -> bool:
        """See `Client.forward_parts`; not while something has to be looked at first."""
        link = self.link
        if link.deliver_checks:
            return False
        link.link_outbound.announce(self.branch.announcement)
        link.link_outbound.append_parts_in_block(self.number, self.sid, subject, payload)
        link.note_sent(1, len(payload))
        return True

    def takes_run(self, publisher: Client | None, frame: Frame) -> bool:
        """Return whether nothing but the subject decides."""
        return self.link.sends_run(frame)

    def forward_run(self, frame: Frame, count: int, queues: list[bytes] | None) -> None:
        """Send `count` messages, `frame` the first, that differ in their payloads only."""
        if queues or not _is_bare(frame):
            self.branch.forward_run(frame, count, queues)
        else:
            self._send_in_block(frame, count)

    def _send_in_block(self, frame: Frame, count: int) -> None:
        """Send `count` messages, `frame` the first, one behind the other."""
        link = self.link
        link.link_outbound.announce(self.branch.announcement)
        base = frame.base
        for _ in range(count):
            link.link_outbound.append_in_block(frame, self.number, self.sid)
            frame.base += frame.end
        frame.base = base
        link.note_sent(count, count * frame.size)


class NumberedSubscription(RemoteSubscription):
    """Interest of one subscription of the other worker, which it knows as `number`."""

    def __init__(self, subject: bytes, branch: WorkerBranch, number: int, sid: bytes) -> None:
        RemoteSubscription.__init__(self, subject, None, branch, 1, "", False)
        self._branch = branch
        self._number = number
        self._sid = sid
        self._receiver: Numbered | None = None  # made when the first message is for it: 264 bytes

    def only_receiver(self) -> object:
        """Return the subscription itself, where nothing else matches that its worker has."""
        if self._receiver is None:
            self._receiver = Numbered(self._branch, self._number, self._sid)
        return self._receiver


def _is_bare(frame: Frame) -> bool:
    """Return whether `frame` has neither reply nor headers."""
    return frame.header_size < 0 and frame.reply_end == frame.reply_start


def _is_plain_publish(frame: Frame) -> bool:
    """Return whether `frame` is a PUB, in the usual form, without headers."""
    return (
        frame.subject_start == _PUB_BYTES
        and frame.header_size < 0
        and lines.is_publish(frame.data, frame.base)
    )
