"""A consumer's configuration: every key in nats-server's order, and the defaults of a new one.

`consumer_rules` has nats-server's checks.
"""

from __future__ import annotations

from typing import Any

from midge.jetstream import errors
from midge.jetstream.config import versions
from midge.jetstream.config.consumer_config import Allowance, ConsumerConfig, CreateRequest
from midge.jetstream.config.stream import StreamConfig
from midge.jetstream.json import syntax
from midge.jetstream.json.encode import encode
from midge.jetstream.json.object_writer import ObjectWriter
from midge.jetstream.json.structure import (
    Boolean,
    Choice,
    Field,
    Integer,
    Items,
    Structure,
    Text,
    TextMap,
    Time,
)
from midge.jetstream.json.times import SECOND_NS, ZERO_TIME_NS

DEFAULT_ACK_WAIT_NS = 30 * SECOND_NS
DEFAULT_INACTIVE_THRESHOLD_NS = 5 * SECOND_NS
DEFAULT_MAX_ACK_PENDING = 1000
DEFAULT_MAX_WAITING = 512
DEFAULT_PINNED_TTL_NS = 120 * SECOND_NS

SOURCING_HEARTBEAT_NS = SECOND_NS
"""The heartbeat of every consumer whose acks come with flow control."""


class _Priority(Choice):
    """The priority policy, omitted if none is set."""

    def is_empty(self, value: Any) -> bool:
        """See `Kind.is_empty`."""
        return bool(value == "none")


_DURATION = Integer("time.Duration")
_INT = Integer("int")

STRUCTURE = Structure(
    "ConsumerConfig",
    ConsumerConfig,
    [
        Field("durable_name", Text()),
        Field("name", Text()),
        Field("description", Text()),
        Field(
            "deliver_policy",
            Choice(
                ("all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject"),
                {"undefined": "all"},
            ),
            is_optional=False,
        ),
        Field("opt_start_seq", Integer("uint64", is_signed=False)),
        Field("opt_start_time", Time()),
        Field(
            "ack_policy",
            Choice(("none", "all", "explicit", "flow_control")),
            is_optional=False,
        ),
        Field("ack_wait", _DURATION, "ack_wait_ns"),
        Field("max_deliver", _INT),
        Field("backoff", Items(_DURATION, "[]time.Duration"), "backoff_ns"),
        Field("filter_subject", Text()),
        Field("filter_subjects", Items(Text(), "[]string")),
        Field("replay_policy", Choice(("instant", "original")), is_optional=False),
        Field("rate_limit_bps", Integer("uint64", is_signed=False)),
        Field("sample_freq", Text()),
        Field("max_waiting", _INT),
        Field("max_ack_pending", _INT),
        Field("flow_control", Boolean()),
        Field("headers_only", Boolean()),
        Field("max_batch", _INT),
        Field("max_expires", _DURATION, "max_expires_ns"),
        Field("max_bytes", _INT),
        Field("deliver_subject", Text()),
        Field("deliver_group", Text()),
        Field("idle_heartbeat", _DURATION, "idle_heartbeat_ns"),
        Field("inactive_threshold", _DURATION, "inactive_threshold_ns"),
        Field("num_replicas", _INT, is_optional=False),
        Field("mem_storage", Boolean()),
        Field("direct", Boolean()),
        Field("sourcing", Boolean()),
        Field("metadata", TextMap()),
        Field("pause_until", Time()),
        Field("priority_groups", Items(Text(), "[]string")),
        Field(
            "priority_policy",
            _Priority(
                ("none", "overflow", "pinned_client", "prioritized"),
                refuse=lambda _, raw: f"unknown priority policy: {raw.decode('utf-8', 'replace')}",
            ),
        ),
        Field("priority_timeout", _DURATION, "priority_timeout_ns"),
    ],
    is_value=True,
)


_NAMES = [one.name for one in STRUCTURE.fields]
_BEHIND_METADATA = _NAMES[_NAMES.index("metadata") + 1 :]


def _unknown_action(_: syntax.Node, raw: bytes) -> str:
    return f"unknown consumer action: {raw.decode('utf-8', 'replace')}"


CREATE_REQUEST = Structure(
    "CreateConsumerRequest",
    CreateRequest,
    [
        Field("stream_name", Text(), is_optional=False),
        Field("config", STRUCTURE, is_optional=False),
        Field("action", Choice(("", "create", "update"), refuse=_unknown_action)),
        Field("pedantic", Boolean()),
    ],
)


_AT_LEAST_ZERO = {
    "max_batch": "max_batch",
    "max_expires_ns": "max_expires",
    "max_bytes": "max_bytes",
    "idle_heartbeat_ns": "idle_heartbeat",
    "inactive_threshold_ns": "inactive_threshold",
    "priority_timeout_ns": "priority_timeout",
}


def set_defaults(
    config: ConsumerConfig, stream: StreamConfig, limits: Allowance, pedantic: bool
) -> None:
    """Fill in the defaults of `config`, for a consumer of a stream configured as `stream`.

    Raises:
        JetStreamError: `pedantic`, and a value would have to be changed.
    """
    _normalise(config, pedantic)
    if config.max_waiting == 0 and not config.deliver_subject:
        config.max_waiting = DEFAULT_MAX_WAITING
    if config.ack_wait_ns == 0 and config.ack_policy in {"explicit", "all"}:
        config.ack_wait_ns = DEFAULT_ACK_WAIT_NS
    if config.backoff_ns:
        if pedantic and config.ack_wait_ns != config.backoff_ns[0]:
            raise errors.PEDANTIC.error(err="first backoff value has to equal batch AckWait")
        config.ack_wait_ns = config.backoff_ns[0]
    if config.max_ack_pending == 0 or config.inactive_threshold_ns == 0:
        _take_from_stream(config, stream.consumer_limits, pedantic)
    _take_from_limits(config, limits, pedantic)
    if config.priority_policy == "pinned_client" and config.priority_timeout_ns == 0:
        config.priority_timeout_ns = DEFAULT_PINNED_TTL_NS
    if config.ack_policy == "flow_control" and not pedantic:
        config.flow_control = True
        config.idle_heartbeat_ns = SOURCING_HEARTBEAT_NS


def _normalise(config: ConsumerConfig, pedantic: bool) -> None:
    """Replace meaningless values by the value that means no limit."""
    if config.max_deliver == 0 or config.max_deliver < -1:
        _refuse(pedantic and config.max_deliver < -1, "max_deliver must be set to -1")
        config.max_deliver = -1
    if config.max_waiting < 0:
        _refuse(pedantic, "max_waiting must not be negative")
        config.max_waiting = 0
    if config.max_ack_pending < -1:
        _refuse(pedantic, "max_ack_pending must be set to -1")
        config.max_ack_pending = -1
    if (
        config.max_batch >= 0
        and config.max_expires_ns >= 0
        and config.max_bytes >= 0
        and config.idle_heartbeat_ns >= 0
        and config.inactive_threshold_ns >= 0
        and config.priority_timeout_ns >= 0
    ):
        return
    for attribute, name in _AT_LEAST_ZERO.items():
        if getattr(config, attribute) < 0:
            _refuse(pedantic, f"{name} must not be negative")
            setattr(config, attribute, 0)


def _take_from_stream(config: ConsumerConfig, stream_limits: Any, pedantic: bool) -> None:
    """Apply the limits that the stream has for its consumers."""
    max_ack_pending = stream_limits.max_ack_pending
    threshold = stream_limits.inactive_threshold_ns
    if config.max_ack_pending == 0:
        text = "max_ack_pending must be set if it's configured in stream limits"
        _refuse(pedantic and max_ack_pending > 0, text)
        config.max_ack_pending = max_ack_pending
    if config.inactive_threshold_ns == 0:
        text = "inactive_threshold must be set if it's configured in stream limits"
        _refuse(pedantic and threshold > 0, text)
        config.inactive_threshold_ns = threshold


def _take_from_limits(config: ConsumerConfig, limits: Allowance, pedantic: bool) -> None:
    """Apply the limits of the server and the account."""
    if config.max_ack_pending == 0 and config.ack_policy != "none":
        config.max_ack_pending = DEFAULT_MAX_ACK_PENDING
        for limit in (limits.server_max_ack_pending, limits.account_max_ack_pending):
            if 0 < limit < config.max_ack_pending:
                config.max_ack_pending = limit
    if limits.max_request_batch > 0 and config.max_batch == 0 and config.is_pull():
        _refuse(pedantic, "max_request_batch must be set if it's JetStream limits are set")
        config.max_batch = limits.max_request_batch


def _refuse(is_refused: bool, text: str) -> None:
    if is_refused:
        raise errors.PEDANTIC.error(err=text)


_NOTHING: list[Any] = []
_METADATA: dict[str, str] = {}
versions.set_required_level(_METADATA, 0)
_METADATA_SHOWN = dict(sorted({**_METADATA, **versions.dynamic_metadata()}.items()))
_METADATA_WRITTEN = encode(_METADATA_SHOWN)


def set_required_level(config: ConsumerConfig) -> None:
    """Store the API level that the configuration requires in its metadata."""
    level = 0
    has_priority = config.priority_policy != "none" or config.priority_timeout_ns != 0
    is_paused = config.pause_until is not None and config.pause_until.ns != ZERO_TIME_NS
    if has_priority or config.priority_groups or is_paused:
        level = 1
    if config.ack_policy == "flow_control":
        level = 4
    metadata = config.metadata
    if level == 0 and (not metadata or metadata is _METADATA):
        config.metadata = _METADATA  # shared, so that most consumers need no dictionary
        return
    if metadata is _METADATA:
        metadata = config.metadata = {}
    versions.set_required_level(metadata, level)


def fields(config: ConsumerConfig, *, with_versions: bool) -> dict[str, Any]:
    """Return the configuration as answers show it; lists of consumers omit the versions."""
    found: dict[str, Any] = STRUCTURE.encode(config)
    metadata = config.metadata
    if with_versions:
        if not metadata:  # a restored consumer may not even have its required level
            return _with_metadata(found, _with_versions(metadata))
        found["metadata"] = _with_versions(metadata)
    return found


def _with_metadata(shown: dict[str, Any], metadata: dict[str, str]) -> dict[str, Any]:
    """Put metadata into `shown`, which has none, where Go's order of the keys has them."""
    behind = {name: shown.pop(name) for name in _BEHIND_METADATA if name in shown}
    return {**shown, "metadata": metadata, **behind}


def _with_versions(metadata: dict[str, str]) -> dict[str, str]:
    """Return metadata as the report on one consumer shows them, in the order of their names."""
    if metadata is _METADATA:
        return _METADATA_SHOWN
    return dict(sorted({**metadata, **versions.dynamic_metadata()}.items()))


def share_parts(config: ConsumerConfig) -> None:
    """Share one object between consumers with equal lists or metadata.

    Without that, an idle consumer would take 560 bytes more. Code that changes them works on a
    copy.
    """
    if not config.backoff_ns:
        config.backoff_ns = _NOTHING
    if not config.filter_subjects:
        config.filter_subjects = _NOTHING
    if not config.priority_groups:
        config.priority_groups = _NOTHING
    if config.metadata == _METADATA:
        config.metadata = _METADATA
    if config.name == config.durable_name:
        config.name = config.durable_name


def is_same(config: ConsumerConfig, stored: ConsumerConfig) -> bool:
    """Return whether `config` equals an existing consumer's configuration, versions aside."""
    mine = config.copy()
    versions.copy_metadata(mine.metadata, stored.metadata)
    return mine == stored


def write_versioned(config: ConsumerConfig, out: ObjectWriter) -> bool:
    """Write a member ``config`` like `fields` with versions; return False if it has times."""
    if config.opt_start_time is not None or config.pause_until is not None:
        return False
    out.name(b'"config":')
    out.literal(b"{")
    out.text(b'"durable_name":', config.durable_name)
    out.text(b'"name":', config.name)
    out.text(b'"description":', config.description)
    out.text_always(b'"deliver_policy":', config.deliver_policy)
    out.count(b'"opt_start_seq":', config.opt_start_seq)
    out.text_always(b'"ack_policy":', config.ack_policy)
    out.number(b'"ack_wait":', config.ack_wait_ns)
    out.number(b'"max_deliver":', config.max_deliver)
    out.value(b'"backoff":', config.backoff_ns)
    out.text(b'"filter_subject":', config.filter_subject)
    out.value(b'"filter_subjects":', config.filter_subjects)
    out.text_always(b'"replay_policy":', config.replay_policy)
    out.count(b'"rate_limit_bps":', config.rate_limit_bps)
    out.text(b'"sample_freq":', config.sample_freq)
    out.number(b'"max_waiting":', config.max_waiting)
    out.number(b'"max_ack_pending":', config.max_ack_pending)
    out.flag(b'"flow_control":', config.flow_control)
    out.flag(b'"headers_only":', config.headers_only)
    out.number(b'"max_batch":', config.max_batch)
    out.number(b'"max_expires":', config.max_expires_ns)
    out.number(b'"max_bytes":', config.max_bytes)
    out.text(b'"deliver_subject":', config.deliver_subject)
    out.text(b'"deliver_group":', config.deliver_group)
    out.number(b'"idle_heartbeat":', config.idle_heartbeat_ns)
    out.number(b'"inactive_threshold":', config.inactive_threshold_ns)
    out.number_always(b'"num_replicas":', config.num_replicas)
    out.flag(b'"mem_storage":', config.mem_storage)
    out.flag(b'"direct":', config.direct)
    out.flag(b'"sourcing":', config.sourcing)
    out.name(b'"metadata":')
    if config.metadata is _METADATA:
        out.literal(_METADATA_WRITTEN)
    else:
        out.literal(encode(_with_versions(config.metadata)))
    out.value(b'"priority_groups":', config.priority_groups)
    if config.priority_policy != "none":
        out.text_always(b'"priority_policy":', config.priority_policy)
    out.number(b'"priority_timeout":', config.priority_timeout_ns)
    out.literal(b"}")
    return True
