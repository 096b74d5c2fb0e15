"""What all streams of an account share: the outside, time, chance, and the limits of batches."""

from __future__ import annotations

from random import Random

from midge.jetstream.clock import Clock
from midge.jetstream.json.times import SECOND_NS
from midge.jetstream.sink import Sink

_ID_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Surroundings:
    """What streams share: the outside, time, chance, and the limits of the account.

    `domain` is empty without one. `max_payload` is the server's limit of a message.
    """

    def __init__(
        self, sink: Sink, clock: Clock, random: Random, domain: str = "", max_payload: int = 1 << 20
    ) -> None:
        self.sink = sink
        self.clock = clock
        self.random = random
        self.domain = domain
        self.max_payload = max_payload
        self.batch_limits = BatchLimits()

    def new_id(self) -> str:
        """Return a unique identifier of 22 letters and digits."""
        return "".join(self.random.choices(_ID_LETTERS, k=22))


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
