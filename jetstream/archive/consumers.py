"""A consumer in nats-server's JSON: its configuration and its state.

`Pending` and its fields have no names of their own in nats-server's source, so that they are
written as they are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from midge.jetstream.archive.entries import ArchiveError
from midge.jetstream.config import consumer as configuration
from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.config.names import SEQ_MAX
from midge.jetstream.consumer.stored_state import StoredState
from midge.jetstream.json import structure
from midge.jetstream.json.encode import encode
from midge.protocol.errors import quote

if TYPE_CHECKING:
    from midge.jetstream.consumer.consumer import Consumer


class ConsumerCut:
    """A copy of a consumer's state at one moment, taken before it is written."""

    def __init__(self, consumer: Consumer) -> None:
        acks = consumer.acks
        to_wall_ns = consumer.host.clock.wall_ns() - consumer.host.clock.monotonic_ns()
        self.name = acks.name
        self.config = acks.config
        self.delivered = (acks.delivered_consumer_seq, acks.delivered_seq)
        if not acks.delivered_consumer_seq:
            self.delivered = (0, max(acks.next_seq, 1) - 1)
        self.floor = (acks.shown_floor_consumer_seq, acks.shown_floor_seq)
        self.pending = [
            (one.seq, one.consumer_seq, max(one.sent_ns + to_wall_ns, 0))
            for one in acks.pending.entries.values()
        ]
        self.redelivered = dict(acks.redelivered)

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


_Number = Annotated[int, msgspec.Meta(ge=0, le=SEQ_MAX - 1)]


class _Positions(msgspec.Struct):
    """A pair of sequences."""

    consumer_seq: _Number
    stream_seq: _Number


class _Pending(msgspec.Struct):
    """A message that has been delivered and not acknowledged."""

    Sequence: _Number
    Timestamp: _Number


class _ConsumerState(msgspec.Struct):
    """The state of a consumer."""

    delivered: _Positions
    ack_floor: _Positions
    pending: dict[_Number, _Pending] | None = None
    redelivered: dict[_Number, _Number] | None = None


class _Archived(msgspec.Struct):
    """A consumer as archives hold it; `config` is read by Go's rules."""

    config: msgspec.Raw = msgspec.Raw()
    state: _ConsumerState | None = None


_CONFIG_MAX_BYTES = 512 << 10
"""A request may have up to `max_payload`, 1 MiB; of that, metadata may take 128 KiB."""

_DECODER = msgspec.json.Decoder(_Archived)


def read(name: str, data: bytes) -> StoredState:
    """Read a consumer.

    Raises:
        ArchiveError: it cannot be read, or a number in it is none that a consumer can have.
    """
    shown = quote(name.encode("utf-8", "surrogatepass"))
    try:
        found = _DECODER.decode(data)
        has_config = bytes(found.config) not in (b"", b"null")
        if not has_config or found.state is None:
            missing = "state" if has_config else "config"
            raise ArchiveError(f"consumer {shown} is missing {missing}")
        if len(found.config) > _CONFIG_MAX_BYTES:
            raise ArchiveError(f"the configuration of consumer {shown} is larger than allowed")
        stored = StoredState()
        stored.config = structure.decode_lenient(
            bytes(found.config), configuration.STRUCTURE, ConsumerConfig()
        )
    except RecursionError:
        raise ArchiveError(f"failed to decode consumer {shown} state: too deep") from None
    except (msgspec.MsgspecError, ValueError, structure.JsonProblem) as error:
        raise ArchiveError(f"failed to decode consumer {shown} state: {error}") from None
    _take_state(stored, found.state)
    return stored


def _take_state(stored: StoredState, state: _ConsumerState) -> None:
    """Enter positions and pending messages."""
    delivered_consumer, delivered = state.delivered.consumer_seq, state.delivered.stream_seq
    floor_consumer, floor = state.ack_floor.consumer_seq, state.ack_floor.stream_seq
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
    for seq, one in (state.pending or {}).items():
        stored.pending[seq] = (one.Sequence, one.Timestamp)
    stored.redelivered = state.redelivered or {}
