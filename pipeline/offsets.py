"""Where a query stands in a stream: offsets, where reading starts and ends, how far behind it is.

An offset is the next stream sequence to read together with the stream's creation time. A stream
that is deleted and made again counts from 1 again; the creation time distinguishes them.
Nothing here uses Spark or a socket.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from midge.client.errors import DataLossError, OptionError
from midge.client.jetstream import StreamSummary

EARLIEST = "earliest"
LATEST = "latest"
_KAFKA_LATEST, _KAFKA_EARLIEST = -1, -2


@dataclass(frozen=True)
class Offset:
    """The next sequence to read of the stream that was created at `created`."""

    stream: str
    created: str
    seq: int

    def to_dict(self) -> dict[str, Any]:
        """Return what Spark writes to its checkpoint."""
        return {"stream": self.stream, "created": self.created, "seq": self.seq}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "Offset":
        """Read back what `to_dict` wrote.

        Raises:
            OptionError: the checkpoint holds something else.

        """
        try:
            stream, created, seq = value["stream"], value["created"], value["seq"]
        except (KeyError, TypeError):
            stream, created, seq = None, None, None
        if not (isinstance(stream, str) and isinstance(created, str) and type(seq) is int):
            raise OptionError(
                f"checkpoint: expected an offset of the nats source, got {json.dumps(value)}"
            )
        return cls(stream, created, seq)


@dataclass(frozen=True)
class Loss:
    """Messages that should be read but have been removed."""

    text: str

    def raise_or_warn(self, *, fail: bool, warn: Any) -> None:
        """Raise `DataLossError`, or call `warn` with the text when the user said to go on."""
        if fail:
            raise DataLossError(
                f"{self.text}. Set failOnDataLoss to false to go on with what is there"
            )
        warn("data loss accepted by failOnDataLoss=false: %s", self.text)


def starting_seq(starting: str, state: StreamSummary, option: str = "startingOffsets") -> int:
    """Return the sequence for `earliest`, `latest` or `{"STREAM": sequence}`.

    As in Spark's Kafka source, -2 and -1 in the JSON form mean earliest and latest.

    Raises:
        OptionError: it has another form, or names another stream.

    """
    text = starting.strip()
    if text.lower() == EARLIEST:
        return state.first_seq
    if text.lower() == LATEST:
        return state.end_seq
    seq = _seq_from_json(text, state.name, option)
    return {_KAFKA_EARLIEST: state.first_seq, _KAFKA_LATEST: state.end_seq}.get(seq, seq)


def check_offsets_option(text: str, stream: str, option: str) -> None:
    """Raise `OptionError` unless `text` is something that `starting_seq` understands."""
    if text.strip().lower() not in (EARLIEST, LATEST):
        _seq_from_json(text, stream, option)


def _seq_from_json(text: str, stream: str, option: str) -> int:
    expected = f'{option}: expected earliest, latest or {{"{stream}": <sequence>}}, got {text!r}'
    try:
        value = json.loads(text)
    except ValueError as error:
        raise OptionError(expected) from error
    if isinstance(value, dict) and set(value) == {"stream", "created", "seq"}:
        value = {value["stream"]: value["seq"]}
    if not isinstance(value, dict) or list(value) != [stream] or type(value[stream]) is not int:
        raise OptionError(expected)
    seq: int = value[stream]
    if seq == 0 or seq < _KAFKA_EARLIEST:
        raise OptionError(f"{expected}; sequences count from 1, -2 is earliest and -1 is latest")
    return seq


def find_loss(start: Offset, state: StreamSummary) -> Loss | None:
    """Return the loss between `start` and the present state of the stream, None without one."""
    if start.created != state.created:
        return Loss(
            f"stream {state.name} was recreated: the checkpoint knows the one of {start.created} "
            f"up to sequence {start.seq - 1}, this one is of {state.created}"
        )
    if start.seq > state.end_seq:
        return Loss(
            f"stream {state.name} ends at sequence {state.last_seq}, before the offset "
            f"{start.seq}: it lost its messages or was restored from an older copy"
        )
    if start.seq < state.first_seq:
        return Loss(
            f"messages {start.seq} to {state.first_seq - 1} of stream {state.name} were removed "
            "(purged, expired or over a limit) before they were read"
        )
    return None


def resume_seq(start: Offset, state: StreamSummary) -> int:
    """Return where to read on after a loss: as much as there still is, nothing twice."""
    if start.created != state.created or start.seq > state.end_seq:
        return state.first_seq
    return max(start.seq, state.first_seq)


def next_offset(start: Offset, state: StreamSummary, limit: int | None) -> Offset:
    """Return the end of the next batch: at most `limit` sequences on from `start`."""
    begin = resume_seq(start, state)
    end = state.end_seq if limit is None else min(state.end_seq, begin + limit)
    return Offset(state.name, state.created, max(end, begin))


def lag(source_progress: Mapping[str, Any]) -> int:
    """Return how many sequences a query is behind, from one of `lastProgress["sources"]`.

    Zero as long as the progress has no offsets yet.
    """
    end, latest = (_progress_seq(source_progress.get(key)) for key in ("endOffset", "latestOffset"))
    return 0 if end is None or latest is None else max(0, latest - end)


def _progress_seq(value: Any) -> int | None:
    offset = json.loads(value) if isinstance(value, str) else value
    return offset.get("seq") if isinstance(offset, Mapping) else None
