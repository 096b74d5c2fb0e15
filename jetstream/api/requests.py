"""The bodies of the requests about streams and their messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from midge.jetstream.config.stream import STREAM, StreamConfig
from midge.jetstream.json.place import Place
from midge.jetstream.json.structure import (
    Boolean,
    Field,
    Integer,
    Items,
    Kind,
    Structure,
    Text,
    Time,
)
from midge.jetstream.json.syntax import Node
from midge.jetstream.json.times import Timestamp

_UINT64 = Integer("uint64", is_signed=False)
_INT = Integer("int")


@dataclass(slots=True)
class PageRequest:
    """A request for a page of a list, of streams that take a subject."""

    offset: int = 0
    subject: str = ""


@dataclass(slots=True)
class InfoRequest:
    """What a stream's info should detail."""

    offset: int = 0
    deleted_details: bool = False
    subjects_filter: str = ""


@dataclass(slots=True)
class PurgeRequest:
    """What to purge: below a sequence, of a subject, all but some."""

    seq: int = 0
    filter: str = ""
    keep: int = 0


@dataclass(slots=True)
class DeleteRequest:
    """Which message to delete, and whether its bytes may stay."""

    seq: int = 0
    no_erase: bool = False


@dataclass(slots=True)
class GetRequest:
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
        """Tell whether no message is named."""
        return not (
            self.seq
            or self.last_by_subj
            or self.next_by_subj
            or self.multi_last
            or self.start_time is not None
        )

    def is_contradictory(self) -> bool:
        """Tell whether a direct request names messages in two ways."""
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
        """Tell whether more is asked for than to leave headers out."""
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


@dataclass(slots=True)
class SnapshotRequest:
    """Where a snapshot goes, and in what pieces."""

    deliver_subject: str = ""
    no_consumers: bool = False
    chunk_size: int = 0
    window_size: int = 0
    jsck: bool = False


@dataclass(slots=True)
class RestoreState:
    """What the state of a stream, when it was backed up, says of its size."""

    messages: int = 0
    bytes: int = 0
    unread: None = None


@dataclass(slots=True)
class RestoreRequest:
    """Which stream is to be made of what is sent."""

    config: StreamConfig = field(default_factory=StreamConfig)
    state: RestoreState = field(default_factory=RestoreState)


class _Unread(Kind):
    """A member that may be anything."""

    def decode(self, node: Node, place: Place, current: Any) -> Any:
        """See `Kind.decode`."""
        return current

    def zero(self) -> Any:
        """See `Kind.zero`."""
        return None


NAMES = Structure(
    "JSApiStreamNamesRequest", PageRequest, [Field("offset", _INT), Field("subject", Text())]
)
LIST = Structure("JSApiStreamListRequest", PageRequest, NAMES.fields)
INFO = Structure(
    "JSApiStreamInfoRequest",
    InfoRequest,
    [Field("offset", _INT), Field("deleted_details", Boolean()), Field("subjects_filter", Text())],
)
PURGE = Structure(
    "JSApiStreamPurgeRequest",
    PurgeRequest,
    [Field("seq", _UINT64), Field("filter", Text()), Field("keep", _UINT64)],
)
DELETE = Structure(
    "JSApiMsgDeleteRequest",
    DeleteRequest,
    [Field("seq", _UINT64), Field("no_erase", Boolean())],
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
SNAPSHOT = Structure(
    "JSApiStreamSnapshotRequest",
    SnapshotRequest,
    [
        Field("deliver_subject", Text()),
        Field("no_consumers", Boolean()),
        Field("chunk_size", _INT),
        Field("window_size", _INT),
        Field("jsck", Boolean()),
    ],
)
_UNREAD = (
    *("first_seq", "first_ts", "last_seq", "last_ts", "num_subjects", "subjects"),
    *("num_deleted", "deleted", "lost", "consumer_count"),
)
_RESTORE_STATE = Structure(
    "StreamState",
    RestoreState,
    [
        Field("messages", _UINT64),
        Field("bytes", _UINT64),
        *(Field(name, _Unread(), "unread") for name in _UNREAD),
    ],
    is_value=True,
)
RESTORE = Structure(
    "JSApiStreamRestoreRequest",
    RestoreRequest,
    [Field("config", STREAM), Field("state", _RESTORE_STATE)],
)
