"""The bodies of the requests about streams and their messages."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from midge.jetstream.config.stream import STREAM, StreamConfig
from midge.jetstream.json.place import JsonPlace
from midge.jetstream.json.structure import (
    Boolean,
    Field,
    FieldType,
    Integer,
    Structure,
    Text,
)
from midge.jetstream.json.syntax import Node

_UINT64 = Integer("uint64", is_signed=False)
_INT = Integer("int")


class PageRequest(Struct):
    """A request for a page of a list of streams, maybe only of those that take a subject."""

    offset: int = 0
    subject: str = ""


class InfoRequest(Struct):
    """The details requested of a stream's info."""

    offset: int = 0
    deleted_details: bool = False
    subjects_filter: str = ""


class PurgeRequest(Struct):
    """The messages to purge: below a sequence, of a subject, or all except the newest `keep`."""

    seq: int = 0
    filter: str = ""
    keep: int = 0


class DeleteRequest(Struct):
    """The message to delete, and whether its bytes may stay in the file."""

    seq: int = 0
    no_erase: bool = False


class SnapshotRequest(Struct):
    """The subject and the chunk size of a snapshot."""

    deliver_subject: str = ""
    no_consumers: bool = False
    chunk_size: int = 0
    window_size: int = 0
    jsck: bool = False


class RestoreState(Struct):
    """The size of a stream, from its state when it was backed up."""

    messages: int = 0
    bytes: int = 0
    unread: None = None


class RestoreRequest(Struct):
    """The stream to restore from the data that follows."""

    config: StreamConfig = field(default_factory=StreamConfig)
    state: RestoreState = field(default_factory=RestoreState)


class _Unread(FieldType):
    """A member that may be anything."""

    def decode(self, node: Node, place: JsonPlace, current: Any) -> Any:
        """See `FieldType.decode`."""
        return current

    def zero(self) -> Any:
        """See `FieldType.zero`."""
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
