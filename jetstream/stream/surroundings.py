"""What all streams of an account share: the outside, time, chance, and the limits of batches."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from midge.jetstream.clock import Clock
from midge.jetstream.config.names import short_hash
from midge.jetstream.json.times import SECOND_NS
from midge.jetstream.sink import Sink

if TYPE_CHECKING:
    from midge.jetstream.consumer.consumer import Consumer

_TURN_BYTES = 1 << 20
_ID_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Surroundings:
    """The outside of an account's streams.

    `domain` is empty without one, `account_hash` names the account in acks; `max_payload` is the
    server's limit of a message. `ready` is asked for a turn for a consumer that has something to
    deliver.
    """

    def __init__(
        self,
        sink: Sink,
        clock: Clock,
        random: Random,
        domain: str = "",
        max_payload: int = 1 << 20,
        *,
        account: str = "$G",
        ready: Callable[[Consumer], object] | None = None,
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
        self.batch_limits = BatchLimits()

    def new_id(self) -> str:
        """Return a unique identifier of 22 letters and digits."""
        return "".join(self.random.choices(_ID_LETTERS, k=22))


def _deliver_at_once(consumer: Consumer) -> None:
    """Deliver without waiting for a turn, where nothing else wants one."""
    consumer.deliver(_TURN_BYTES)


class BatchLimits:
    """How many batches may be open, and how large they may be.

    `atomic_open` and `fast_open` count those of the whole server.
    """

    def __init__(self) -> None:
        self.atomic_per_stream = 50
        self.atomic_total = 1000
        self.atomic_size = 1000
        self.fast_per_stream = 1000
        self.fast_total = 50_000
        self.timeout_ns = 10 * SECOND_NS
        self.atomic_open = 0
        self.fast_open = 0
