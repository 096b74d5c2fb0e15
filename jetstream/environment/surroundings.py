"""What the streams and consumers of an account share: sink, clock, random numbers, limits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import NamedTuple, Protocol

from midge.jetstream.config.names import short_hash
from midge.jetstream.environment.clock import NanosecondClock
from midge.jetstream.environment.sink import Sink
from midge.jetstream.json.times import SECOND_NS
from midge.jetstream.store.turns import Turns

_TURN_BYTES = 1 << 20
_ID_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class ReadyConsumer(Protocol):
    """A consumer that has something to deliver; see `consumer.deliverer.Deliverer`."""

    asks_for_one: bool

    def deliver(self, budget: int) -> int:
        """Deliver what takes about `budget` bytes of a turn; return what it took."""


class Surroundings:
    """The outside of an account's streams.

    `domain` is empty without one, `account_hash` names the account in acks; `max_payload` is the
    server's limit of a message. `ready` is asked for a turn for a consumer that has something to
    deliver. `bounds` and `turns` are what all accounts of a server share; `origin_notes` is for the
    operator. `is_republishing` is set while a stored message is published again.
    """

    def __init__(
        self,
        sink: Sink,
        clock: NanosecondClock,
        random: Random,
        domain: str = "",
        max_payload: int = 1 << 20,
        *,
        account: str = "$G",
        ready: Callable[[ReadyConsumer], object] | None = None,
        has_second_acks: bool = False,
    ) -> None:
        self.sink = sink
        self.clock = clock
        self.random = random
        self.domain = domain
        self.max_payload = max_payload
        self.account = account
        self.account_hash = short_hash(account)
        self.ready = ready or _deliver_at_once
        self.has_second_acks = has_second_acks
        self.turns = Turns(partial(clock.call_later, 0))
        self.is_republishing = False
        self.bounds = Bounds(BatchLimits(), BacklogLimits())
        self.origin_notes = OriginNotes()

    def new_id(self) -> str:
        """Return a unique identifier of 22 letters and digits."""
        return "".join(self.random.choices(_ID_LETTERS, k=22))


class OriginNotes:
    """Notices to the operator about the origins in other domains; this class logs nothing."""

    def gap(self, stream: str, origin: str, first_seq: int, last_seq: int) -> None:
        """Report that a mirror lacks messages, which the origin no longer has."""

    def recreated(self, stream: str, origin: str) -> None:
        """Report that an origin has been recreated; all of its messages are taken."""

    def refused(self, stream: str, origin: str, error: str) -> None:
        """Report that an origin refuses a consumer."""


def _deliver_at_once(consumer: ReadyConsumer) -> None:
    """Deliver without waiting for a turn, where nothing else wants one."""
    consumer.deliver(_TURN_BYTES)


class BacklogLimits(NamedTuple):
    """How much of one stream may wait for the disk; the size is nats-server's.

    Publishers are held at 6 MiB of records while as many are written, which together stay under
    16 MiB. Those are up to 233,000 messages of 72 bytes: with nats-server's 100,000, small ones
    without acks would be dropped.
    """

    messages: int = 400_000
    size: int = 128 * 1024 * 1024


class BatchQuota:
    """How many batches may be open in a stream and in the server, and how many are in all."""

    def __init__(self, per_stream: int, total: int) -> None:
        self.per_stream = per_stream
        self.total = total
        self.open = 0


class BatchLimits:
    """How many batches may be open, how large an atomic one may be, and how long idle."""

    def __init__(
        self,
        atomic_per_stream: int = 50,
        atomic_total: int = 1000,
        atomic_size: int = 1000,
        timeout_ns: int = 10 * SECOND_NS,
    ) -> None:
        self.atomic = BatchQuota(atomic_per_stream, atomic_total)
        self.fast = BatchQuota(1000, 50_000)
        self.atomic_size = atomic_size
        self.timeout_ns = timeout_ns

    def change(self, other: BatchLimits) -> None:
        """Adopt the limits of `other`; open batches stay counted."""
        self.atomic.per_stream = other.atomic.per_stream
        self.atomic.total = other.atomic.total
        self.atomic_size = other.atomic_size
        self.timeout_ns = other.timeout_ns


class Bounds(NamedTuple):
    """The limits of batches, and of the messages that wait for the disk.

    `overloaded` is called for every message that `backlog` refuses.
    """

    batches: BatchLimits
    backlog: BacklogLimits
    overloaded: Callable[[], object] = lambda: None
