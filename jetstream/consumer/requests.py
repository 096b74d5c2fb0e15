"""Pull requests: what their bodies say, and the queue in which they wait."""

from __future__ import annotations

from collections.abc import Iterator

from midge.jetstream.environment.sink import Receiver
from midge.jetstream.json import structure
from midge.jetstream.json.structure import Boolean, Field, Integer, Structure, Text
from midge.protocol.errors import MidgeError

_BLANKS = b" \t\r\n\f\v"
_REMEMBERED = 128  # clients send the same few bodies again and again; reading one takes 30 us
_REMEMBERED_SIZE = 256
_INT64_MAX = (1 << 63) - 1

_LEAST_BATCH = -(1 << 62)
"""A lower number is taken for this one, so that it can be counted down. Either gets one message."""

_DIGITS_MAX = 4000  # Python reads no more at once
_UNPRIORITIZED = 1 << 31


class BadRequestError(MidgeError):
    """The body of a pull request cannot be read; the message is what its status says."""


class RequestBody:
    """The parsed body of a pull request; `has_options` is False for a bare number."""

    __slots__ = (
        "batch",
        "expires_ns",
        "group",
        "has_options",
        "heartbeat_ns",
        "max_bytes",
        "min_ack_pending",
        "min_pending",
        "no_wait",
        "pin_id",
        "priority",
    )

    def __init__(self, batch: int = 1) -> None:
        self.batch = batch
        self.expires_ns = 0
        self.max_bytes = 0
        self.no_wait = False
        self.heartbeat_ns = 0
        self.group = ""
        self.min_pending = 0
        self.min_ack_pending = 0
        self.pin_id = ""
        self.priority = 0
        self.has_options = False


_BODY = Structure(
    "",  # nats-server reads it into a struct that has no name
    RequestBody,
    [
        Field("expires", Integer("time.Duration"), "expires_ns"),
        Field("batch", Integer("int")),
        Field("max_bytes", Integer("int")),
        Field("no_wait", Boolean()),
        Field("idle_heartbeat", Integer("time.Duration"), "heartbeat_ns"),
        Field("group", Text()),
        Field("min_pending", Integer("int64")),
        Field("min_ack_pending", Integer("int64")),
        Field("id", Text(), "pin_id"),
        Field("priority", Integer("int")),
    ],
)

_BODY_MAX_BYTES = 4096
"""The largest body of a pull request: clients write up to 200 bytes."""

_read_bodies: dict[bytes, RequestBody] = {}


def read_body(body: bytes) -> RequestBody:
    """Return what a request asks for; it is shared, so it must not be changed.

    Raises:
        BadRequestError: it is an object that cannot be read.
    """
    if len(body) > _BODY_MAX_BYTES:
        raise BadRequestError(f"a body of {len(body)} bytes is larger than {_BODY_MAX_BYTES}")
    known = _read_bodies.get(body)
    if known is not None:
        return known
    made = _read(body.strip(_BLANKS))
    if len(body) <= _REMEMBERED_SIZE:
        if len(_read_bodies) >= _REMEMBERED:
            _read_bodies.clear()
        _read_bodies[body] = made
    return made


def _read(body: bytes) -> RequestBody:
    made = RequestBody()
    if not body.startswith(b"{"):
        digits = body[1:] if body[:1] in {b"+", b"-"} else body
        if digits.isdigit() and len(digits) <= _DIGITS_MAX and int(digits) <= _INT64_MAX:
            made.batch = max(int(body), _LEAST_BATCH)
        return made
    made.batch = 0
    try:
        structure.decode_lenient(body, _BODY, made)
    except structure.JsonProblem as problem:
        raise BadRequestError(str(problem)) from None
    made.has_options = True
    made.batch = max(made.batch, _LEAST_BATCH)
    if made.heartbeat_ns > 0 and made.heartbeat_ns > made.expires_ns // 2:
        raise BadRequestError("heartbeat value too large")
    return made


class PullRequest:
    """A request that waits: `left` messages and `bytes_left` bytes, 0 for any number, are to come.

    Times are on the monotonic clock; 0 for never. A request that would have ended after
    `awaited_after` messages waits until all up to `awaited_seq` are on the disk; -1 for none that
    has.
    """

    __slots__ = (
        "awaited_after",
        "awaited_seq",
        "bytes_left",
        "checked_turn",
        "delivered",
        "expires_ns",
        "group",
        "heartbeat_due_ns",
        "heartbeat_ns",
        "left",
        "min_ack_pending",
        "min_pending",
        "next",
        "no_wait",
        "pin_id",
        "priority",
        "receiver",
        "receiver_turn",
        "reply",
    )

    def __init__(self) -> None:
        self.delivered = 0
        self.awaited_after = -1
        self.awaited_seq = 0
        self.checked_turn = 0
        self.receiver: Receiver | None = None
        self.receiver_turn = 0
        self.next: PullRequest | None = None

    def ask(self, reply: bytes, body: RequestBody, now_ns: int) -> None:
        """Ask for what `body` says, from now on; `__init__` would take 700 instructions more."""
        self.reply = reply
        self.left = body.batch
        self.bytes_left = body.max_bytes
        self.no_wait = body.no_wait
        self.expires_ns = 0
        if body.expires_ns:  # the longest wait, 292 years, ends with the clock
            self.expires_ns = now_ns + min(body.expires_ns, _INT64_MAX - now_ns)
        self.heartbeat_ns = body.heartbeat_ns
        self.heartbeat_due_ns = now_ns + body.heartbeat_ns if body.heartbeat_ns > 0 else 0
        self.group = body.group
        self.pin_id = body.pin_id
        self.min_pending = body.min_pending
        self.min_ack_pending = body.min_ack_pending
        self.priority = body.priority if body.has_options else _UNPRIORITIZED


class RequestQueue:
    """The requests that wait, at most `limit`; the `first` is served next."""

    __slots__ = ("_count", "first", "is_prioritized", "last", "limit")

    def __init__(self, limit: int, *, is_prioritized: bool = False) -> None:
        self.limit = limit
        self.is_prioritized = is_prioritized
        self.first: PullRequest | None = None
        self.last: PullRequest | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[PullRequest]:
        request = self.first
        while request is not None:
            yield request
            request = request.next

    def is_full(self) -> bool:
        """Return whether no further request may wait."""
        return self._count >= self.limit

    def add(self, request: PullRequest) -> None:
        """Add a request: at the end, or behind the last of its priority."""
        before = self.last
        if self.is_prioritized and before is not None and before.priority > request.priority:
            before = None
            current = self.first
            while current is not None and current.priority <= request.priority:
                before = current
                current = current.next
        self._insert_after(before, request)

    def rotate(self) -> None:
        """Put the first request at the end."""
        request = self.first
        if request is not None:
            self.remove_after(None)
            self._insert_after(self.last, request)

    def serve_first(self) -> PullRequest | None:
        """Count a message for the first request, and let the next one have its turn."""
        request = self.first
        if request is None:
            return None
        request.delivered += 1
        request.left -= 1
        if request.left <= 0:
            self.remove_after(None)
        elif self._count > 1:
            self.remove_after(None)
            self.add(request)
        return request

    def restore(self, request: PullRequest) -> None:
        """Take back that a message was counted for `request`, which did not get it."""
        request.delivered -= 1
        request.left += 1
        current = self.first
        while current is not None and current is not request:
            current = current.next
        if current is None:
            self._insert_after(None, request)

    def remove_after(self, before: PullRequest | None) -> None:
        """Remove the request behind `before`, the first one for None."""
        request = self.first if before is None else before.next
        if request is None:
            return
        if before is None:
            self.first = request.next
        else:
            before.next = request.next
        if request is self.last:
            self.last = before
        request.next = None
        self._count -= 1

    def clear(self) -> None:
        """Forget all requests."""
        self.first = None
        self.last = None
        self._count = 0

    def _insert_after(self, before: PullRequest | None, request: PullRequest) -> None:
        """Put a request behind `before`, or first for None."""
        if before is None:
            request.next = self.first
            self.first = request
        else:
            request.next = before.next
            before.next = request
        if request.next is None:
            self.last = request
        self._count += 1
