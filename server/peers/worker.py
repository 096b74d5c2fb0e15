"""The link between two workers of a server: messages of all accounts, in the dialect of routes.

It is not a route. The other worker is the same server, so authorization, permissions and mappings
are not applied a second time, and a message from the link never goes on to another worker.

Most messages have no headers. A message for a single subscription, without a reply, crosses in
blocks of MSG lines, see protocol/worker.py. Any other PUB for plain subscriptions crosses
unchanged, in the account that an A+ has announced. CPU of both workers for a message of mixed
subjects, where one process takes 94 ns: 147 in blocks, 215 unchanged, 245 as an RMSG.
"""

from typing import TYPE_CHECKING, Any

from midge.protocol import lines, memory
from midge.protocol.frame import Frame, compose
from midge.protocol.worker import NOBODY, BlockHandler, WorkerParser
from midge.server.broker.message_trace import TRACING_PROTOCOL
from midge.server.peers.link import Link
from midge.server.peers.part import Part
from midge.server.peers.worker_interest import HARMLESS
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.passage import BOTH, DIRECT, STREAM, passes
from midge.server.routing.role import LAST_CHOICE, Role
from midge.server.routing.slow_path import BEHIND
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist.subscription import RemoteSubscription, Subscription

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.broker.broker import Broker

_WORKER = int(Role.WORKER)
_NOTHING = bytearray()
_UNLIMITED = 1 << 62
_LINE_MAX_BYTES = 1 << 16
_PUB_BYTES = 4  # with its blank
_CARRIED = b"\0"  # before the name of an account: what imports have carried there
_HARMLESS = HARMLESS  # a C number where this is compiled


class WorkerLink(Link):
    """The link to worker `index`; `side` handles its end.

    `receivers` are the subscriptions here that the other worker knows by their numbers.
    """

    def __init__(
        self,
        broker: "Broker",
        cid: int,
        index: int,
        side: Any,
        receivers: dict[int, RoutedSubscription],
    ) -> None:
        parser = WorkerParser(self, Blocks(self), _LINE_MAX_BYTES)
        self._lines = parser
        interval_s = broker.options.keepalive.ping_interval_s
        Link.__init__(
            self, broker, cid, ("worker", index), side, _WORKER, parser, interval_s, False
        )
        self.index = index
        self.announced.max_size = _UNLIMITED
        self.peer_protocol = TRACING_PROTOCOL
        self.takes_headers(True)
        self._parts: dict[bytes, WorkerPart] = {}
        self._account: bytes | None = None
        self._part: WorkerPart | None = None
        self._announced: WorkerPart | None = None
        self._asked: list[Callable[[], None] | None] = []
        self._receivers = receivers

    def lost(self) -> None:
        """Release everything after the transport is lost."""
        self._lines.blocks = NOBODY
        self._lines.taker = None
        Link.lost(self)

    def part_of(self, name: bytes) -> "WorkerPart":
        """Return what the link is to the account called `name`.

        With `_CARRIED` before it, that is the part for what imports have carried to the account.
        """
        part = self._parts.get(name)
        if part is None:
            if name[:1] == _CARRIED:
                part = WorkerPart(self, self.part_of(name[1:]).account, name, STREAM)
            else:
                part = WorkerPart(self, self.broker.account(name.decode()), name, DIRECT)
            self._parts[name] = part
        return part

    def parts(self) -> "list[WorkerPart]":
        """List what the link is to the accounts that it has carried so far."""
        return list(self._parts.values())

    def present(self) -> "WorkerPart":
        """Return the part of the account that the current line names."""
        return self._named(self.parser.account)

    def source_of(self, frame: Frame) -> "WorkerPart":
        """Return the part of the account that `frame` belongs to; a PUB names none itself.

        Where it has come in pieces, its verb has been consumed before, and its subject is first.
        """
        is_pub = frame.subject_start <= _PUB_BYTES
        return self._named(self._lines.announced if is_pub else self.parser.account)

    def _named(self, account: bytes) -> "WorkerPart":
        if account is not self._account or self._part is None:
            self._account = account
            self._part = self.part_of(account)
        return self._part

    # Asked whether it has taken everything.

    def ask_taken(self, taken: "Callable[[], None]") -> None:
        """Call `taken` when the other worker has taken everything, or is gone."""
        self._ask(taken)

    def send_ping(self) -> None:
        """Send PING, to see whether the other worker is there."""
        self._ask(None)

    def _ask(self, taken: "Callable[[], None] | None") -> None:
        self._asked.append(taken)
        self.send(b"PING\r\n")

    def on_pong(self) -> None:
        """Take the answer to the first PING that has none yet."""
        Link.on_pong(self)
        taken = self._asked.pop(0) if self._asked else None
        if taken is not None:
            taken()

    def release_asked(self) -> None:
        """Release the rounds that wait for this link."""
        asked, self._asked = self._asked, []
        for taken in asked:
            if taken is not None:
                taken()

    # From the other worker.

    def on_link_subscribe(self, subject: bytes, queue: bytes | None, weight: int) -> None:
        """Note that there is interest, or that a queue group has another weight."""
        part = self.present()
        from_where = self.parser.origin.decode()
        is_last_choice = from_where.endswith(LAST_CHOICE)
        told = RemoteSubscription(subject, queue, part, weight, from_where, is_last_choice)
        if queue is None:
            self._note_plain(part, told)
        else:
            self.announced.begin(self, part, part.interest, told)

    def take_numbered(self, subject: bytes, number: int, sid: bytes) -> None:
        """Note that there is interest, of one subscription."""
        part = self.present()
        self._note_plain(part, NumberedSubscription(subject, part, number, sid))

    def _note_plain(self, part: "WorkerPart", told: RemoteSubscription) -> None:
        """Record plain interest, in place of the previous one for its subject."""
        known = self.announced.known(self, part, told.subject, None, "")
        if known is None:
            self.announced.begin(self, part, part.interest, told)
            return
        sublist = part.account.sublist
        sublist.remove_remote(known)
        sublist.insert_remote(told)
        told.place = known.place
        part.interest[told.place] = told

    def on_link_unsubscribe(self, subject: bytes, queue: bytes | None) -> None:
        """Forget interest."""
        part = self.present()
        from_where = self.parser.origin.decode()
        self.announced.end(self, part, part.interest, subject, queue, from_where)

    def account_of_lines(self) -> Account:
        """Return the account that the last A+ has named."""
        return self._named(self._lines.announced).account

    def sends_only_to(self, part: "WorkerPart", subscription: Subscription) -> bool:
        """Return whether PUBs like the current message can go straight to `subscription`."""
        sublist = part.account.sublist
        view = self._view
        return (
            view is not None
            and view.lone is subscription
            and self._view_of is sublist
            and self._generation == sublist.generation
            and not self._is_unusual
            and self.router.observer is None
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
        self.in_messages += count
        self.in_bytes += size
        client.outbound.append_parts(_NOTHING, 0, data, start, end - 2)
        client.out_messages += count
        client.out_bytes += size
        subscription.delivered += count
        self.router.touch(client)
        if client.outbound.behind:
            client.flushed()
        self.spend(end - start)

    def _takes_block(self, subscription: RoutedSubscription, client: Client) -> bool:
        """Return whether `client` gets all messages of a block for `subscription`, as they are."""
        if subscription.max_messages or self.router.observer is not None:
            return False
        checks = client.deliver_checks & ~_HARMLESS
        return checks == 0 and (not client.deliver_checks & BEHIND or client.has_room(self))

    def _take_one_by_one(self, data: bytearray, start: int, end: int) -> None:
        """Route each message of a block by its subject."""
        part = self._named(self._lines.announced)
        block = memory.take(data, start, end)
        at = 0
        while at < len(block):
            body = block.index(b"\n", at) + 1
            _, subject, _, size = block[at:body].split()
            at = body + int(size)
            self.take(part, compose(subject, block[body:at]))
            at += 2

    # To the other worker.

    def send_in_block(self, receiver: "Numbered", frame: Frame, count: int) -> None:
        """Send `count` messages, `frame` the first, one behind the other, for one subscription."""
        self._announce(receiver.part)
        base = frame.base
        for _ in range(count):
            self.link_outbound.append_in_block(frame, receiver.number, receiver.sid)
            frame.base += frame.end
        frame.base = base
        self.note_sent(count, count * frame.size)

    def send_parts_in_block(self, receiver: "Numbered", subject: bytes, payload: bytes) -> None:
        """Send a message without reply or headers, for one subscription."""
        self._announce(receiver.part)
        self.link_outbound.append_parts_in_block(receiver.number, receiver.sid, subject, payload)
        self.note_sent(1, len(payload))

    def send_as_they_lie(self, part: "WorkerPart", frame: Frame, count: int) -> None:
        """Send `count` PUBs of the account of `part`, `frame` the first, one behind the other."""
        self._announce(part)
        self.link_outbound.append_as_it_lies(frame, count)
        self.note_sent(count, count * frame.size)

    def _announce(self, part: "WorkerPart") -> None:
        """Announce that further PUBs and blocks are in the account of `part`."""
        if self._announced is not part:
            self._announced = part
            self.link_outbound.append(part.announcement)


class Blocks(BlockHandler):
    """Passes the events that only a worker's parser has on to `link`."""

    def __init__(self, link: WorkerLink) -> None:
        self._link = link

    def take_block(
        self, data: bytearray, start: int, end: int, number: int, count: int, size: int
    ) -> None:
        """See `WorkerLink.take_block`."""
        self._link.take_block(data, start, end, number, count, size)

    def take_numbered(self, subject: bytes, number: int, sid: bytes) -> None:
        """See `WorkerLink.take_numbered`."""
        self._link.take_numbered(subject, number, sid)


class WorkerPart(Part):
    """One account's part of a link between workers.

    With a `border`, it is the way of what imports have carried to the account.
    """

    def __init__(self, link: WorkerLink, account: Account, name: bytes, border: int) -> None:
        Part.__init__(self, link, account, name)
        self.worker = link
        self.announcement = b"A+ %b\r\n" % name
        self._border = border

    def reaches(self, link: Any, origin: str) -> bool:
        """Return whether a message from the other worker may go on over `link`: not to a third.

        What an import has carried goes to no server that has the import.
        """
        return passes(self.role, link.role, self._border) == BOTH

    def carried(self) -> "WorkerPart":
        """Return the way over this link for what an import has carried to the account."""
        return self.worker.part_of(_CARRIED + self.name)

    def forward(self, publisher: Client | None, frame: Frame, queues: list[bytes] | None) -> bool:
        """Send `frame` to the other worker, and tell whether it goes."""
        link = self.worker
        if queues or not _is_plain_publish(frame):
            return link.send_message(publisher, frame, self.heads, queues)
        if link.deliver_checks and link.sendable(publisher, frame) is None:
            return False
        link.send_as_they_lie(self, frame, 1)
        return True

    def forward_run(self, frame: Frame, count: int, queues: list[bytes] | None) -> None:
        """Send `count` messages, `frame` the first, that differ in their payloads only."""
        if queues or not _is_plain_publish(frame):
            self.link.send_run(frame, self.heads, count, queues)
        else:
            self.worker.send_as_they_lie(self, frame, count)

    def lines_to(self, subscription: Subscription) -> "WorkerLink | None":
        """Return the link, if the current message is a PUB for `subscription` only, else None."""
        return self.worker if self.worker.sends_only_to(self, subscription) else None


class Numbered(Client):
    """The subscription `number` of the other worker, called `sid` by its client, as a receiver.

    What it alone is to get crosses as the client gets it; all else goes through `part`.
    """

    def __init__(self, part: WorkerPart, number: int, sid: bytes) -> None:
        Client.__init__(self, part.cid, part.account, part.link.broker.chunks)
        self.role = _WORKER
        self.part = part
        self.link = part.worker
        self.number = number
        self.sid = sid
        self.cluster = ""

    def carried(self) -> Client:
        """Return this part: a message for a single client goes to no other link."""
        return self

    def forward(self, publisher: Client | None, frame: Frame, queues: list[bytes] | None) -> bool:
        """Send `frame` to the other worker, and tell whether it goes."""
        link = self.link
        if queues or not _is_bare(frame):
            return self.part.forward(publisher, frame, queues)
        if link.deliver_checks and link.sendable(publisher, frame) is None:
            return False
        link.send_in_block(self, frame, 1)
        return True

    def forward_parts(self, subject: bytes, payload: bytes) -> bool:
        """See `Client.forward_parts`; not while something has to be looked at first."""
        if self.link.deliver_checks:
            return False
        self.link.send_parts_in_block(self, subject, payload)
        return True

    def takes_run(self, publisher: Client | None, frame: Frame) -> bool:
        """Return whether nothing but the subject decides."""
        return self.link.sends_run(frame)

    def forward_run(self, frame: Frame, count: int, queues: list[bytes] | None) -> None:
        """Send `count` messages, `frame` the first, that differ in their payloads only."""
        if queues or not _is_bare(frame):
            self.part.forward_run(frame, count, queues)
        else:
            self.link.send_in_block(self, frame, count)


class NumberedSubscription(RemoteSubscription):
    """Interest of one subscription of the other worker, which it knows as `number`."""

    def __init__(self, subject: bytes, part: WorkerPart, number: int, sid: bytes) -> None:
        RemoteSubscription.__init__(self, subject, None, part, 1, "", False)
        self._part = part
        self._number = number
        self._sid = sid
        self._receiver: Numbered | None = None  # made when the first message is for it: 264 bytes

    def only_receiver(self) -> object:
        """Return the subscription itself, where nothing else matches that its worker has."""
        if self._receiver is None:
            self._receiver = Numbered(self._part, self._number, self._sid)
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
