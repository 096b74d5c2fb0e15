"""A stream that is being made from an archive: a store, and what its stream begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.jetstream import errors, headers
from midge.jetstream.archive.entries import ArchiveError
from midge.jetstream.config.consumer_rules import WorkQueue
from midge.jetstream.errors import JetStreamError
from midge.jetstream.headers import INVALID, parse_ttl
from midge.jetstream.json.times import SECOND_NS
from midge.jetstream.store.store import Store
from midge.jetstream.stream import admission
from midge.jetstream.stream import incoming as names
from midge.protocol.errors import quote

if TYPE_CHECKING:
    from midge.jetstream.config.consumer_config import Allowance
    from midge.jetstream.config.stream import StreamConfig
    from midge.jetstream.consumer.stored_state import StoredState
    from midge.jetstream.stream.contents import Usage


_MESSAGE_BYTES = 34  # that a stored message counts beside its parts, at most

_CONSUMERS_MAX_BYTES = 64 << 20
"""States of 100,000 idle consumers, or of some with a million pending messages together."""


class RestoredStream:
    """A store that is being filled, and what its stream needs to know of it.

    `ids` and `ttls` hold what a stream looks up by sequence when it starts.
    """

    def __init__(
        self,
        config: StreamConfig,
        store: Store,
        now_ns: int,
        max_payload: int,
        allowed: Allowance,
        usage: Usage,
    ) -> None:
        self.config = config
        self.store = store
        self.created_ns = now_ns
        self.consumers: list[tuple[bytes, StoredState]] = []
        self.ids: list[tuple[bytes, int, int]] = []
        self.ttls: list[tuple[int, int, int]] = []
        self._now_ns = now_ns
        self.max_payload = max_payload
        self._allowed = allowed
        self._work_queue = WorkQueue()
        self._usage = usage
        self._used_bytes = 0
        self._consumer_bytes = 0
        self._consumer_names: set[bytes] = set()

    def begin(self, first_seq: int) -> None:
        """Set the sequence of the first message."""
        if first_seq > 1:
            self.store.skip_to(first_seq - 1)

    def add(self, subject: bytes, time_ns: int, seq: int, block: bytes, payload: bytes) -> None:
        """Store a message, unless it has outlived its own TTL.

        Raises:
            ArchiveError: it does not fit the stream.
            StoreError: the store does not take it.
        """
        if problem := admission.message_problem(subject, block):
            raise ArchiveError(f"message sequence {seq}: {problem}")
        size = len(block) + len(payload)
        if size > self.max_payload:
            raise ArchiveError(f"message sequence {seq} exceeds maximum payload size")
        if 0 <= self.config.max_msg_size < size:
            raise ArchiveError(f"message sequence {seq} exceeds maximum message size")
        if seq <= self.store.last_seq:
            raise ArchiveError(f"message sequence {seq} out of order")
        ttl_s = parse_ttl(headers.find(block, names.TTL) or b"") if block else 0
        if ttl_s == INVALID:
            raise ArchiveError("failed to parse message TTL: invalid per-message TTL (10165)")
        if ttl_s > 0 and self._now_ns > time_ns + ttl_s * SECOND_NS:
            self.store.skip_to(seq)
            return
        self._check_room(len(subject) + size + _MESSAGE_BYTES)
        msg_id = self._id_of(block, time_ns) if block else None
        self.store.append(subject, block, payload, time_ns, seq, ttl_s, msg_id)
        self.account()
        if msg_id:
            self.ids.append((msg_id, seq, time_ns))
        if ttl_s:
            self.ttls.append((seq, time_ns, ttl_s))

    def account(self) -> None:
        """Count the bytes stored so far towards the account's and the server's."""
        self._usage.add(self.store.bytes - self._used_bytes)
        self._used_bytes = self.store.bytes

    def release(self) -> None:
        """Count nothing any more, because the stream does from now on, or nothing is left."""
        self._usage.add(-self._used_bytes)
        self._used_bytes = 0

    def _check_room(self, size: int) -> None:
        """Refuse a message that account or server have no room for; raises ArchiveError."""
        error = None
        if self._usage.would_exceed_account(size):
            error = errors.ACCOUNT_RESOURCES_EXCEEDED
        elif self._usage.is_exceeded(size):
            error = errors.INSUFFICIENT_RESOURCES
        if error is not None:
            raise ArchiveError(f"{error.description} ({error.err_code})")

    def spend_on_consumers(self, size: int) -> None:
        """Count bytes that describe consumers, which are in memory until the end.

        Raises:
            ArchiveError: they are too many.
        """
        self._consumer_bytes += size
        if self._consumer_bytes > _CONSUMERS_MAX_BYTES:
            raise ArchiveError("the states of the consumers are larger than allowed")

    def add_consumer(self, name: bytes, stored: StoredState) -> None:
        """Take a consumer, which is made when all messages are stored.

        Raises:
            ArchiveError: a request for such a consumer would be refused.
        """
        shown = quote(name)
        if name in self._consumer_names:
            raise ArchiveError(f"consumer {shown} comes twice")
        config = stored.config
        try:
            if 0 < self._consumers_max() <= len(self.consumers):
                raise errors.MAXIMUM_CONSUMERS_LIMIT.error()
            admission.check_consumer(name, config, self.config, self._allowed, self._work_queue)
        except JetStreamError as error:
            said = f"{error.api.description} ({error.api.err_code})"
            raise ArchiveError(f"error adding consumer {shown}: {said}") from None
        if not (config.direct or config.sourcing):
            self._work_queue.add(config.filters())
        self._consumer_names.add(name)
        self.consumers.append((name, stored))

    def _consumers_max(self) -> int:
        """Return how many consumers stream and account allow; 0 or less means no limit."""
        limits = (self.config.max_consumers, self._allowed.max_consumers)
        return min((one for one in limits if one > 0), default=0)

    def _id_of(self, block: bytes, time_ns: int) -> bytes | None:
        """Return a message's id if its window is still open."""
        if time_ns + self.config.duplicate_window_ns < self._now_ns:
            return None
        return headers.find(block, names.MSG_ID) or None

    def end(self, last_seq: int) -> None:
        """Set the last sequence, even if the last message has a lower one."""
        self.account()
        self.store.skip_to(last_seq)
