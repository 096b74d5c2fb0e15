"""A stream's subjects as subscriptions: from the router into the stream, without a copy between."""

from __future__ import annotations

from midge.jetstream.store.published import PublishedLines
from midge.jetstream.stream.stream import Stream
from midge.protocol.frame import Frame
from midge.protocol.stream_parser import LineTaker, StreamParser
from midge.server.channels.channel import ChannelOwner
from midge.server.channels.charges import WORK_BYTES
from midge.server.channels.gate import Gate
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist.sublist import SubList

_PUB_BYTES = 4  # with its blank
_WORK_BYTES = WORK_BYTES  # a C number where this is compiled
_LEAST_WORK = 100  # 1 us: what a message costs at least is charged by its verb


def charge(publisher: Client | None, work: int) -> None:
    """Charge the sender of a message for what a store looked at for it."""
    if isinstance(publisher, ChannelOwner):
        owner: ChannelOwner = publisher
        owner.spend(work * _WORK_BYTES)


class StreamSubscription(RoutedSubscription):
    """One subject of `stream`. Equal lines go into it one after the other, as a run.

    While `gate` is shut, publishers are held, whether they ask for acks or not, but for those that
    it lets pass. A client whose messages ask for none, and are for the stream alone, has `lines`
    take them from then on.
    """

    def __init__(self, subject: bytes, stream: Stream, gate: Gate | None = None) -> None:
        RoutedSubscription.__init__(self, subject)
        self.stream = stream
        self.gate = gate
        self.lines: StreamLines | None = None  # a stream may have thousands of subjects

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        """Store a message; the stream answers its publisher by itself."""
        store = self.stream.store
        before = store.work
        self.stream.publish_frame(frame)
        if store.work - before > _LEAST_WORK:
            charge(publisher, store.work - before)
        gate = self.gate
        if (
            gate is not None
            and gate.is_shut
            and publisher is not None
            and not gate.admits(publisher, frame.end)
        ):
            publisher.pause_for(gate)
        if (
            frame.reply_end == frame.reply_start
            and frame.header_size <= 0
            and publisher is not None
            and frame.subject_start == _PUB_BYTES
        ):
            self._offer_lines(publisher, frame)
        return True

    def _offer_lines(self, publisher: Client, frame: Frame) -> None:
        """Accept the next lines of `publisher` in batches, as long as they resemble this one."""
        handler = publisher.lines_to(self) if self.stream.takes_lines() else None
        if isinstance(handler, ChannelOwner):
            owner: ChannelOwner = handler
            if self.lines is None:
                self.lines = StreamLines(self.stream)
            self.lines.learn(self, publisher.account.sublist, frame)
            owner.channel.parser.taker = self.lines

    def trace_events(self, frame: Frame) -> list[dict[str, str]]:
        """Return the trace event that names the stream of `frame`."""
        subject = frame.subject_bytes().decode(errors="replace")
        return [{"type": "js", "stream": self.stream.config.name, "subject": subject}]

    def takes_runs(self) -> bool:
        """Return True: one `receive_run` may replace several calls of `receive`."""
        return True


class StreamLines(LineTaker):
    """Stores lines of any client in `stream` if their subjects are known to match only it.

    A subject becomes known when a message with it takes the ordinary way. All subjects are
    forgotten when the interest in the account changes.
    """

    def __init__(self, stream: Stream) -> None:
        LineTaker.__init__(self)
        self._stream = stream
        self._subscription: StreamSubscription | None = None
        self._sublist: SubList | None = None
        self._generation = 0
        self._epoch = 0
        self._lines = PublishedLines()

    def learn(self, subscription: StreamSubscription, sublist: SubList, frame: Frame) -> None:
        """Record that the subject of `frame` matches only `subscription` at present."""
        store = self._stream.store
        if self._sublist is not sublist or self._generation != sublist.generation:
            self._subscription = subscription
            self._sublist = sublist
            self._generation = sublist.generation
            self._epoch = store.begin_epoch()
        start, end = frame.base + frame.subject_start, frame.base + frame.subject_end
        store.remember_subject(frame.data, start, end, self._epoch)

    def take_lines(
        self, parser: StreamParser, data: bytearray, start: int, end: int, max_control_line: int
    ) -> int:
        """See `LineTaker.take_lines`."""
        owner = parser.handler.sender()
        assert isinstance(owner, ChannelOwner), "no others are offered"
        account = owner.account_of_lines()
        self.taken = 0
        if (
            account is None
            or self._sublist is not account.sublist
            or self._generation != account.sublist.generation
            or owner.router.observer is not None
        ):
            parser.taker = None
            return start
        lines = self._lines
        position = start
        payload_bytes = 0
        while lines.find(data, position, end, max_control_line, parser.max_payload):
            found = lines.count
            count = self._stream.publish_lines(lines, self._epoch)
            position = lines.after
            payload_bytes += lines.payload_bytes
            self.taken += count
            if count < found:
                break
        if self.taken > 0:
            self._settle(owner, account, payload_bytes, position - start)
        return position

    def _settle(
        self, owner: ChannelOwner, account: Account, payload_bytes: int, line_bytes: int
    ) -> None:
        """Count the stored lines, and pause their publisher if the disk does not keep up."""
        subscription = self._subscription
        assert subscription is not None, "it came with the epoch"
        subscription.delivered += self.taken
        owner.count_lines(account, self.taken, payload_bytes, line_bytes)
        gate = subscription.gate
        if gate is not None and gate.is_shut and not gate.admits(owner, line_bytes):
            owner.pause_for(gate)
