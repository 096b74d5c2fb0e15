"""The body of a request for stored messages, by the API or directly."""

from __future__ import annotations

from msgspec import Struct, field

from midge.jetstream.json.structure import Boolean, Field, Integer, Items, Structure, Text, Time
from midge.jetstream.json.times import Timestamp

_UINT64 = Integer("uint64", is_signed=False)
_INT = Integer("int")


class GetRequest(Struct):
    """Which message, or messages, to get."""

    seq: int = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    batch: int = 0
    max_bytes: int = 0
    start_time: Timestamp | None = None
    multi_last: list[str] = field(default_factory=list)
    up_to_seq: int = 0
    up_to_time: Timestamp | None = None
    no_hdr: bool = False

    def asks_nothing(self) -> bool:
        """Return whether no message is named."""
        return not (
            self.seq
            or self.last_by_subj
            or self.next_by_subj
            or self.multi_last
            or self.start_time is not None
        )

    def is_contradictory(self) -> bool:
        """Return whether a direct request names messages in two ways."""
        has_time = self.start_time is not None
        last = bool(self.last_by_subj)
        return bool(
            (self.seq and last)
            or (self.seq and has_time)
            or (has_time and last)
            or (last and (self.next_by_subj or self.batch > 0 or self.multi_last))
            or (self.next_by_subj and self.multi_last)
            or (self.up_to_seq and self.up_to_time is not None)
        )

    def says_more_than_headers(self) -> bool:
        """Return whether more is asked for than to leave headers out."""
        return bool(
            self.last_by_subj
            or self.next_by_subj
            or self.multi_last
            or self.seq
            or self.batch
            or self.start_time is not None
            or self.up_to_seq
            or self.up_to_time is not None
        )


GET = Structure(
    "JSApiMsgGetRequest",
    GetRequest,
    [
        Field("seq", _UINT64),
        Field("last_by_subj", Text()),
        Field("next_by_subj", Text()),
        Field("batch", _INT),
        Field("max_bytes", _INT),
        Field("start_time", Time()),
        Field("multi_last", Items(Text(), "[]string")),
        Field("up_to_seq", _UINT64),
        Field("up_to_time", Time()),
        Field("no_hdr", Boolean()),
    ],
)
