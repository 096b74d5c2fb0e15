"""Direct gets: messages read without the JSON of the API, one, by subject or in batches.

A batch reads one message after the other, and copies no others. Large batches, and searches of
large streams by patterns, are done in pieces. A request for a message that is only on the disk is
answered when the message has been fetched, perhaps after later requests.
"""

from __future__ import annotations

from midge.jetstream.config.names import to_bytes
from midge.jetstream.json import structure
from midge.jetstream.json.times import format_time
from midge.jetstream.store.interface import MessageView
from midge.jetstream.stream import searching
from midge.jetstream.stream.pieces import (
    PendingFetch,
    Pieces,
    WaitingPieces,
    in_turns,
    until_cached,
)
from midge.jetstream.stream.searching import GET, GetRequest
from midge.jetstream.stream.stream_host import StreamHost
from midge.protocol import digits, memory
from midge.sublist.subjects import is_literal

_SUBJECTS_MAX = 1024
"""Most subjects of one request for the newest message of each, as in nats-server."""

PIECE_BYTES = 1 << 20
"""Sent of a batch in one piece: 3 ms."""

_MESSAGE_COST = 512
"""Fixed cost of sending a message, beside its bytes: 1.3 us, while a MiB takes some 3 ms."""

# Work, in items of 10 ns; see `Store.work`.
_MESSAGE_WORK = 130
_BYTES_PER_WORK = 3
_BODY_MAX_BYTES = 256 * 1024
"""The largest body of a get: a batch of the last messages of 1,024 subjects."""

_SECOND_NS = 1_000_000_000

_HEAD = b"NATS/1.0\r\n"
_PENDING = b"Nats-Num-Pending: "
_LAST = b"\r\nNats-Last-Sequence: "
_SEQUENCE = b"\r\nNats-Sequence: "
_TIME = b"\r\nNats-Time-Stamp: "
_END = b"\r\n"
_LOCATION_BYTES = 192  # the names of the fields but the first, three numbers, a time and two ends
_CR = 0x0D
_LF = 0x0A
_POINT = 0x2E
_ZERO = 0x30
_UTC = 0x5A

_EMPTY_REQUEST = b"NATS/1.0 408 Empty Request\r\n\r\n"
_MALFORMED_REQUEST = b"NATS/1.0 408 Malformed Request\r\n\r\n"
_BAD_REQUEST = b"NATS/1.0 408 Bad Request\r\n\r\n"
_NOT_FOUND = b"NATS/1.0 404 Message Not Found\r\n\r\n"
_NO_RESULTS = b"NATS/1.0 404 No Results\r\n\r\n"
_TOO_MANY = b"NATS/1.0 413 Too Many Results\r\n\r\n"

_NOTHING_MORE = GetRequest()  # what a request without a body says; never changed


class DirectGet:
    """Answers the direct requests of one stream. Only visible messages are shown.

    `max_bytes` ends a batch that names no limit itself, as the server's limit of what may wait for
    a client does.
    """

    def __init__(self, stream: StreamHost, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._stream: StreamHost | None = stream
        self._store = stream.store
        self._sink = stream.sink
        self._max_bytes = max_bytes
        self._view = MessageView()
        self._fetch = PendingFetch()  # for the next message that is not in memory
        self._names = b"Nats-Stream: %b\r\nNats-Subject: " % stream.name
        self._block = bytearray(512)
        self._second = 0
        self._second_text = b"1970-01-01T00:00:00"

    def release(self) -> None:
        """Drop the stream, which has been deleted: nothing is found any more."""
        self._stream = None

    def get(self, reply: bytes, body: bytes) -> None:
        """Answer a request that is described in JSON."""
        if not body:
            self._status(reply, _EMPTY_REQUEST)
            return
        request = _read(body)
        if request is None:
            self._status(reply, _MALFORMED_REQUEST)
        elif request.asks_nothing():
            self._status(reply, _EMPTY_REQUEST)
        elif request.is_contradictory():
            self._status(reply, _BAD_REQUEST)
        else:
            self._answer(reply, request)

    def get_last(self, reply: bytes, subject: bytes, body: bytes) -> None:
        """Answer a request for the newest message of the subject that it was sent to."""
        request = _read(body) if body else _NOTHING_MORE
        if request is None:
            self._status(reply, _MALFORMED_REQUEST)
            return
        if not subject or (body and request.says_more_than_headers()):
            self._status(reply, _BAD_REQUEST)
            return
        self._answer_last(reply, request, subject)

    def _answer(self, reply: bytes, request: GetRequest) -> None:
        if request.multi_last:
            self._in_turns(reply, self._answer_newest(reply, request))
        elif request.batch:  # a negative one gets nothing but the end, as from nats-server
            self._in_turns(reply, self._answer_batch(reply, request))
        elif request.next_by_subj:
            self._in_turns(reply, self._answer_next(reply, request))
        elif request.start_time is not None:
            self._in_turns(reply, self._answer_from(reply, request))
        elif request.seq:
            self._answer_one(reply, request, request.seq)
        else:
            self._answer_last(reply, request, to_bytes(request.last_by_subj))

    def _in_turns(self, reply: bytes, pieces: WaitingPieces[None]) -> None:
        """Do the first piece now, if there is time; it is nearly always all of them."""
        if self._stream is None:
            self._status(reply, _NOT_FOUND)
            return
        in_turns(
            self._stream,
            pieces,
            _ignore,
            lambda _: self._status(reply, _NOT_FOUND),
            is_wanted=lambda: self._sink.has_interest(reply),
        )

    def _answer_one(self, reply: bytes, request: GetRequest, seq: int) -> None:
        """Answer with the message of a sequence, as soon as it is in memory."""
        if 0 < seq <= self._store.visible_seq and not self._store.is_cached(seq, self._fetch):
            fetch, self._fetch = self._fetch, PendingFetch()
            self._in_turns(reply, self._answer_later(reply, request, seq, fetch))
        else:
            self._answer_now(reply, request, seq)

    def _answer_later(
        self, reply: bytes, request: GetRequest, seq: int, fetch: PendingFetch
    ) -> WaitingPieces[None]:
        """Answer with a message that is being fetched."""
        yield from until_cached(self._store, seq, fetch)
        self._answer_now(reply, request, seq)

    def _answer_now(self, reply: bytes, request: GetRequest, seq: int) -> None:
        """Answer with a message that is in memory."""
        if self._show(seq):
            self._send(reply, 0 if request.no_hdr else self._put_headers())
        else:
            self._status(reply, _NOT_FOUND)

    def _answer_from(self, reply: bytes, request: GetRequest) -> WaitingPieces[None]:
        """Answer with the first message from a time on."""
        seq = yield from self._start(request)
        self._answer_one(reply, request, seq)

    def _answer_next(self, reply: bytes, request: GetRequest) -> WaitingPieces[None]:
        """Answer with the first message of a subject from a sequence on."""
        store = self._store
        start = yield from self._start(request)
        start, visible = max(start, 1), store.visible_seq
        subject = to_bytes(request.next_by_subj)
        seq = 0
        if start <= visible:
            seq = yield from searching.next_matching(store, subject, start, visible)
        self._answer_one(reply, request, seq)

    def _answer_last(self, reply: bytes, request: GetRequest, subject: bytes) -> None:
        """Answer with the newest message of a subject."""
        visible = self._store.visible_seq
        if not visible:
            self._answer_one(reply, request, 0)
        elif is_literal(subject):
            self._answer_one(reply, request, self._store.last_matching(subject, visible))
        else:
            self._in_turns(reply, self._search_last(reply, request, subject))

    def _search_last(self, reply: bytes, request: GetRequest, subject: bytes) -> Pieces[None]:
        """Answer with the newest message that matches a pattern."""
        store = self._store
        seq = yield from searching.last_matching(store, subject, store.visible_seq)
        self._answer_one(reply, request, seq)

    def _start(self, request: GetRequest) -> WaitingPieces[int]:
        """Return the first sequence that may be answered with."""
        if request.start_time is not None:
            return (yield from searching.seq_at_time(self._store, request.start_time.ns))
        return request.seq

    def _filters(self, request: GetRequest) -> tuple[bytes, ...]:
        return (to_bytes(request.next_by_subj),) if request.next_by_subj else ()

    def _answer_batch(self, reply: bytes, request: GetRequest) -> WaitingPieces[None]:
        """Answer with several messages and what ends them."""
        store = self._store
        filters = self._filters(request)
        seq = yield from self._start(request)
        if not searching.is_quick(store, filters):
            yield from searching.compare(store, filters)
        visible = store.visible_seq
        pending = store.count_pending(filters, seq, False, visible) if visible else 0
        most_bytes = request.max_bytes or self._max_bytes
        last = sent = 0
        fetch = PendingFetch()
        room = PIECE_BYTES
        for i in range(request.batch):
            if room <= 0:
                room = PIECE_BYTES
                yield None
            while (found := self._try_next(filters, seq, fetch)) < 0:
                yield fetch
            if not found:
                if i == 0 or request.batch == 1:
                    self._status(reply, _NOT_FOUND)
                    return
                break
            head_end = 0
            if not request.no_hdr:  # without headers nats-server does not count down either
                pending = max(pending - 1, 0)
                head_end = self._put_batch_headers(pending, last)
            last = self._view.seq
            seq = last + 1
            size = self._view.size()
            self._send(reply, head_end)
            sent += size
            room -= size + _MESSAGE_COST
            store.work += _MESSAGE_WORK + size // _BYTES_PER_WORK
            if sent >= most_bytes:
                break
        self._status(
            reply,
            b"NATS/1.0 204 EOB\r\nNats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n\r\n"
            % (pending, last),
        )

    def _answer_newest(self, reply: bytes, request: GetRequest) -> WaitingPieces[None]:
        """Answer with the newest message of each subject that matches."""
        store = self._store
        upto = request.up_to_seq
        if request.up_to_time is not None:
            upto = yield from searching.seq_at_time(store, request.up_to_time.ns)
            if upto <= store.first_seq:
                self._status(reply, _NO_RESULTS)
                return
            upto -= 1
        upto = upto or store.visible_seq
        filters = tuple(to_bytes(one) for one in request.multi_last)
        limit = min(upto, store.visible_seq)
        found: list[int] = []
        if limit:
            found = yield from searching.newest(store, filters, limit, _SUBJECTS_MAX)
        if not 0 < len(found) <= _SUBJECTS_MAX:
            self._status(reply, _TOO_MANY if found else _NO_RESULTS)
            return
        most_bytes = request.max_bytes or self._max_bytes
        pending = len(found)
        last = sent = count = 0
        room = PIECE_BYTES
        for seq in found:
            pending -= 1
            if room <= 0:
                room = PIECE_BYTES
                yield None
            if seq < request.seq:
                continue
            yield from until_cached(store, seq)
            if not self._show(seq):
                continue
            head_end = self._put_batch_headers(pending, last)
            last = seq
            size = self._view.size()
            sent += size
            self._send(reply, head_end)
            store.work += _MESSAGE_WORK + size // _BYTES_PER_WORK
            room -= size + _MESSAGE_COST
            count += 1
            if sent >= most_bytes or (0 < request.batch <= count):
                break
        self._status(
            reply,
            b"NATS/1.0 204 EOB\r\nNats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n"
            b"Nats-UpTo-Sequence: %d\r\n\r\n" % (pending, last, upto),
        )

    def _try_next(self, filters: tuple[bytes, ...], seq: int, fetch: PendingFetch) -> int:
        """Set the view to the first message from a sequence on that matches.

        Returns 1, 0 if there is none, and -1 for one that is being fetched for `fetch`.
        """
        store = self._store
        visible = store.visible_seq
        if seq > visible:
            return 0
        return store.try_next(filters, max(seq, 1), visible, self._view, fetch)

    def _show(self, seq: int) -> bool:
        """Set the view to the message of a sequence; False if it is not there, or not visible."""
        store = self._store
        return 0 < seq <= store.visible_seq and store.show(seq, self._view)

    def _put_headers(self) -> int:
        """Put the headers of the message in view into the block; return where they end."""
        end = self._locate()
        memory.copy_bytes(self._block, end, _END)
        return end + len(_END)

    def _put_batch_headers(self, pending: int, last: int) -> int:
        """Put the headers of one message of several into the block; return where they end."""
        at = self._locate()
        block = self._block
        memory.copy_bytes(block, at, _PENDING)
        at = digits.write_number(block, at + len(_PENDING), pending)
        memory.copy_bytes(block, at, _LAST)
        at = digits.write_number(block, at + len(_LAST), last)
        memory.copy_bytes(block, at, _END)
        memory.copy_bytes(block, at + len(_END), _END)
        return at + 2 * len(_END)

    def _locate(self) -> int:
        """Put the headers of the message in view, and where it is stored, but for the end.

        Return where they end. One after the other by `%` took 3,000 instructions more.
        """
        view = self._view
        own_size = view.payload_start - view.headers_start
        names = self._names
        subject_size = view.subject_end - view.subject_start
        size = own_size + len(_HEAD) + len(names) + subject_size + _LOCATION_BYTES
        if len(self._block) < size:
            self._block = bytearray(size)
        block = self._block
        if own_size:
            at = own_size - len(_END)
            memory.copy(block, 0, view.body, view.headers_start, view.headers_start + at)
        else:
            memory.copy_bytes(block, 0, _HEAD)
            at = len(_HEAD)
        memory.copy_bytes(block, at, names)
        at += len(names)
        memory.copy(block, at, view.subject, view.subject_start, view.subject_end)
        at += subject_size
        memory.copy_bytes(block, at, _SEQUENCE)
        at = digits.write_number(block, at + len(_SEQUENCE), view.seq)
        memory.copy_bytes(block, at, _TIME)
        at = self._put_time(block, at + len(_TIME), view.time_ns)
        block[at] = _CR
        block[at + 1] = _LF
        return at + 2

    def _put_time(self, block: bytearray, at: int, time_ns: int) -> int:
        """Put a moment as `format_time` does; return where it ends.

        Its second is often the one that was asked for last.
        """
        second = time_ns // _SECOND_NS
        rest = time_ns - second * _SECOND_NS
        if second != self._second:
            self._second = second
            self._second_text = format_time(second * _SECOND_NS).encode()[:-1]
        memory.copy_bytes(block, at, self._second_text)
        at += len(self._second_text)
        if rest:
            block[at] = _POINT
            at = digits.write_nine(block, at + 1, rest)
            while block[at - 1] == _ZERO:
                at -= 1
        block[at] = _UTC
        return at + 1

    def _send(self, reply: bytes, head_end: int) -> None:
        """Send the payload of the message in view, with what the block holds for headers."""
        self._sink.send_stored(reply, self._block, head_end, self._view)

    def _status(self, reply: bytes, block: bytes) -> None:
        self._sink.send(reply, b"", block, b"")


def _ignore(_: None) -> None:
    """Called when all is done."""


def _read(body: bytes) -> GetRequest | None:
    """Return the request that `body` is, None when it is malformed."""
    if len(body) > _BODY_MAX_BYTES:
        return None
    request = GetRequest()
    try:
        structure.decode_lenient(body, GET, request)
    except structure.JsonProblem:
        return None
    return request
