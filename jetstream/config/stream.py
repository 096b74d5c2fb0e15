"""The configuration of a stream, in requests and answers."""

from __future__ import annotations

import copy
from typing import Any, Protocol

from msgspec import Struct, field

from midge.jetstream.config import versions
from midge.jetstream.config.source import (
    SOURCE,
    TRANSFORM,
    StreamSource,
    SubjectTransform,
)
from midge.jetstream.json import syntax
from midge.jetstream.json.structure import (
    Boolean,
    Choice,
    Field,
    Integer,
    Items,
    Structure,
    Text,
    TextMap,
)

LIMITS = "limits"
INTEREST = "interest"
WORKQUEUE = "workqueue"
OLD = "old"
NEW = "new"
FILE = "file"
MEMORY = "memory"
ASYNC = "async"


class Placement(Struct):
    """Where in a cluster a stream should be; stored and shown, without effect on one server."""

    cluster: str = ""
    tags: list[str] | None = None
    preferred: str = ""


class Republish(Struct):
    """Where stored messages are republished."""

    source: str = ""
    destination: str = ""
    headers_only: bool = False


class ConsumerLimits(Struct):
    """Defaults and bounds for the consumers of a stream."""

    inactive_threshold_ns: int = 0
    max_ack_pending: int = 0


class StreamConfig(Struct):
    """All keys of a stream; after `checks.check`, -1 means unlimited."""

    name: str = ""
    description: str = ""
    subjects: list[str] = field(default_factory=list)
    retention: str = LIMITS
    max_consumers: int = 0
    max_msgs: int = 0
    max_bytes: int = 0
    max_age_ns: int = 0
    max_msgs_per_subject: int = 0
    max_msg_size: int = 0
    discard: str = OLD
    storage: str = ""
    num_replicas: int = 0
    no_ack: bool = False
    duplicate_window_ns: int = 0
    placement: Placement | None = None
    mirror: StreamSource | None = None
    sources: list[StreamSource] = field(default_factory=list)
    compression: str = "none"
    first_seq: int = 0
    subject_transform: SubjectTransform | None = None
    republish: Republish | None = None
    allow_direct: bool = False
    mirror_direct: bool = False
    discard_new_per_subject: bool = False
    sealed: bool = False
    deny_delete: bool = False
    deny_purge: bool = False
    allow_rollup: bool = False
    consumer_limits: ConsumerLimits = field(default_factory=ConsumerLimits)
    allow_msg_ttl: bool = False
    subject_delete_marker_ttl_ns: int = 0
    allow_msg_counter: bool = False
    allow_atomic: bool = False
    allow_msg_schedules: bool = False
    persist_mode: str = ""
    allow_batched: bool = False
    metadata: dict[str, str] = field(default_factory=dict)

    def clone(self) -> StreamConfig:
        """Return a deep copy; 10,000 subjects, which cannot change, are copied in one step."""
        return copy.deepcopy(self, {id(self.subjects): self.subjects.copy()})

    def fields(self) -> dict[str, Any]:
        """Return the configuration as answers show it."""
        fields: dict[str, Any] = STREAM.encode(self)
        return fields

    def versioned_fields(self) -> dict[str, Any]:
        """Return the configuration for answers that include the server's version."""
        fields = self.fields()
        metadata = {**self.metadata, **versions.dynamic_metadata()}
        fields["metadata"] = dict(sorted(metadata.items()))
        return fields

    def is_same_as(self, stored: StreamConfig) -> bool:
        """Return whether an existing stream has this configuration, versions aside."""
        mine = self.clone()
        versions.copy_metadata(mine.metadata, stored.metadata)
        return mine == stored

    def required_level(self) -> int:
        """Return the lowest API level that has all requested features."""
        if self.allow_batched:
            return 4
        if self.allow_msg_counter or self.allow_atomic or self.allow_msg_schedules:
            return 2
        if self.persist_mode == ASYNC:
            return 2
        return 1 if self.allow_msg_ttl or self.subject_delete_marker_ttl_ns > 0 else 0

    def set_required_level(self) -> None:
        """Store the required API level in the metadata."""
        versions.set_required_level(self.metadata, self.required_level())

    def transform(self) -> SubjectTransform | None:
        """Return the transform of incoming subjects, or None if they stay as they are."""
        given = self.subject_transform
        return given if given is not None and given.destination else None


class StreamRequest(StreamConfig):
    """A request to create or to update a stream."""

    pedantic: bool = False

    def config(self) -> StreamConfig:
        """Return the requested configuration."""
        names = StreamConfig.__struct_fields__
        return StreamConfig(**{name: getattr(self, name) for name in names})


def _refuse_compression(node: syntax.Node, _: bytes) -> str:
    if node[0] in {syntax.STRING, syntax.NULL}:
        return "unknown compression algorithm"
    kinds = {syntax.OBJECT: "object", syntax.ARRAY: "array", syntax.BOOL: "bool"}
    kind = kinds.get(node[0], "number")
    return f"json: cannot unmarshal {kind} into Go value of type string"


_DURATION = Integer("time.Duration")
_INT = Integer("int")
_INT64 = Integer("int64")

PLACEMENT = Structure(
    "Placement",
    Placement,
    [
        Field("cluster", Text()),
        Field("tags", Items(Text(), "[]string")),
        Field("preferred", Text()),
    ],
)
REPUBLISH = Structure(
    "RePublish",
    Republish,
    [
        Field("src", Text(), "source"),
        Field("dest", Text(), "destination", is_optional=False),
        Field("headers_only", Boolean()),
    ],
)
CONSUMER_LIMITS = Structure(
    "StreamConsumerLimits",
    ConsumerLimits,
    [
        Field("inactive_threshold", _DURATION, "inactive_threshold_ns"),
        Field("max_ack_pending", _INT),
    ],
    is_value=True,
)
_FIELDS = [
    Field("name", Text(), is_optional=False),
    Field("description", Text()),
    Field("subjects", Items(Text(), "[]string")),
    Field("retention", Choice((LIMITS, INTEREST, WORKQUEUE)), is_optional=False),
    Field("max_consumers", _INT, is_optional=False),
    Field("max_msgs", _INT64, is_optional=False),
    Field("max_bytes", _INT64, is_optional=False),
    Field("max_age", _DURATION, "max_age_ns", is_optional=False),
    Field("max_msgs_per_subject", _INT64, is_optional=False),
    Field("max_msg_size", Integer("int32", 32)),
    Field("discard", Choice((OLD, NEW)), is_optional=False),
    Field("storage", Choice((FILE, MEMORY)), is_optional=False),
    Field("num_replicas", _INT, is_optional=False),
    Field("no_ack", Boolean()),
    Field("duplicate_window", _DURATION, "duplicate_window_ns"),
    Field("placement", PLACEMENT),
    Field("mirror", SOURCE),
    Field("sources", Items(SOURCE, "[]*server.StreamSource")),
    Field("compression", Choice(("none", "s2"), refuse=_refuse_compression), is_optional=False),
    Field("first_seq", Integer("uint64", is_signed=False)),
    Field("subject_transform", TRANSFORM),
    Field("republish", REPUBLISH),
    Field("allow_direct", Boolean(), is_optional=False),
    Field("mirror_direct", Boolean(), is_optional=False),
    Field("discard_new_per_subject", Boolean()),
    Field("sealed", Boolean(), is_optional=False),
    Field("deny_delete", Boolean(), is_optional=False),
    Field("deny_purge", Boolean(), is_optional=False),
    Field("allow_rollup_hdrs", Boolean(), "allow_rollup", is_optional=False),
    Field("consumer_limits", CONSUMER_LIMITS, is_optional=False),
    Field("allow_msg_ttl", Boolean(), is_optional=False),
    Field("subject_delete_marker_ttl", _DURATION, "subject_delete_marker_ttl_ns"),
    Field("allow_msg_counter", Boolean()),
    Field("allow_atomic", Boolean()),
    Field("allow_msg_schedules", Boolean()),
    Field("persist_mode", Choice((ASYNC,), {"default": "", "": ""})),
    Field("allow_batched", Boolean()),
    Field("metadata", TextMap()),
]
STREAM = Structure("StreamConfig", StreamConfig, _FIELDS, is_value=True)
REQUEST = Structure("StreamConfigRequest", StreamRequest, [*_FIELDS, Field("pedantic", Boolean())])


class ConfigContext(Protocol):
    """The account and the server's limits that a configuration is checked against."""

    @property
    def duplicate_window_max_ns(self) -> int:
        """The server's limit of duplicate windows; 0 for none."""

    def config_of(self, name: str) -> StreamConfig | None:
        """Return the configuration of another stream of the account, if it exists."""

    def stream_bytes_limits(self, config: StreamConfig) -> tuple[bool, int]:
        """Return whether `max_bytes` is required, and return its upper limit, 0 for none."""
