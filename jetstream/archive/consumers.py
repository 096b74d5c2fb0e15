"""A consumer in nats-server's JSON: its configuration and its state.

`Pending` and its fields have no names of their own in nats-server's source, so that they are
written as they are there.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from midge.jetstream.archive.entries import ArchiveError
from midge.jetstream.config import consumer as configuration
from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.consumer.state import StoredState
from midge.jetstream.json import structure
from midge.jetstream.json.encode import encode

if TYPE_CHECKING:
    from midge.jetstream.consumer.consumer import Consumer


class ConsumerCut:
    """A copy of a consumer's state at one moment, taken before it is written."""

    def __init__(self, consumer: Consumer) -> None:
        to_wall_ns = consumer.clock.wall_ns() - consumer.clock.monotonic_ns()
        self.name = consumer.name
        self.config = consumer.config
        self.delivered = (consumer.delivered_consumer_seq, consumer.delivered_seq)
        if not consumer.delivered_consumer_seq:
            self.delivered = (0, max(consumer.next_seq, 1) - 1)
        self.floor = (consumer.shown_floor_consumer_seq, consumer.shown_floor_seq)
        self.pending = [
            (one.seq, one.consumer_seq, max(one.sent_ns + to_wall_ns, 0))
            for one in consumer.pending.entries.values()
        ]
        self.redelivered = dict(consumer.redelivered)

    def encode(self) -> bytes:
        """Return it as JSON."""
        state: dict[str, Any] = {
            "delivered": _pair(self.delivered),
            "ack_floor": _pair(self.floor),
        }
        if self.pending:
            state["pending"] = {
                str(seq): {"Sequence": consumer_seq, "Timestamp": sent_ns}
                for seq, consumer_seq, sent_ns in self.pending
            }
        counts = {str(seq): count for seq, count in self.redelivered.items() if count > 0}
        if counts:
            state["redelivered"] = counts
        config = configuration.fields(self.config, with_versions=False)
        if not self.config.durable_name:
            config = {"name": self.name.decode("utf-8", "surrogateescape"), **config}
        return encode({"config": config, "state": state})


def _pair(numbers: tuple[int, int]) -> dict[str, int]:
    return {"consumer_seq": numbers[0], "stream_seq": numbers[1]}


def read(name: str, data: bytes) -> StoredState:
    """Read a consumer.

    Raises:
        ArchiveError: it cannot be read.
    """
    try:
        found = json.loads(data)
        config, state = found.get("config"), found.get("state")
        if config is None or state is None:
            missing = "config" if config is None else "state"
            raise ArchiveError(f"consumer {json.dumps(name)} is missing {missing}")
        stored = StoredState()
        stored.config = structure.decode_lenient(
            encode(config), configuration.STRUCTURE, ConsumerConfig()
        )
        return take_state(stored, state)
    except (ValueError, KeyError, TypeError, AttributeError, structure.JsonProblem) as error:
        raise ArchiveError(f"failed to decode consumer {json.dumps(name)} state: {error}") from None


def take_state(stored: StoredState, state: dict[str, Any]) -> StoredState:
    """Enter what nats-server's JSON says of positions and pending messages."""
    delivered_consumer, delivered = _numbers(state["delivered"])
    floor_consumer, floor = _numbers(state["ack_floor"])
    if stored.config.ack_policy == "none":
        floor_consumer, floor = delivered_consumer, delivered
    stored.positions = (
        delivered + 1,
        delivered_consumer + 1,
        *(floor, floor_consumer),
        *(floor, floor_consumer),
        *(delivered, delivered_consumer),
        *(0, 0, 0),
    )
    for seq, one in (state.get("pending") or {}).items():
        stored.pending[int(seq)] = (int(one["Sequence"]), int(one["Timestamp"]))
    for seq, count in (state.get("redelivered") or {}).items():
        stored.redelivered[int(seq)] = int(count)
    return stored


def _numbers(pair: dict[str, Any]) -> tuple[int, int]:
    return int(pair["consumer_seq"]), int(pair["stream_seq"])
