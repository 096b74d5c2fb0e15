"""nats-server's checks of a consumer's configuration and of changes to it.

The order of the checks is also nats-server's, so that a request with several faults gets the same
error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from midge.jetstream import errors
from midge.jetstream.config import names
from midge.jetstream.config.consumer import SOURCING_HEARTBEAT_NS
from midge.jetstream.config.consumer_config import Allowance, ConsumerConfig
from midge.jetstream.config.names import SEQ_MAX
from midge.jetstream.config.stream import StreamConfig
from midge.jetstream.json.times import format_duration
from midge.protocol.errors import quote
from midge.sublist.overlaps import OverlapIndex
from midge.sublist.subjects import is_literal, is_valid_subject, matches

_LEAST_HEARTBEAT_NS = 100_000_000
_LEAST_MAX_EXPIRES_NS = 1_000_000

_FORM_FEED = ord("\f")
_GROUP_NAME = re.compile(r"[a-zA-Z0-9/_=-]{1,16}")
_GO_INT = re.compile(r"[-+]?[0-9]+")
_DIGITS_MAX = 4000  # Python's int() refuses longer numbers


def check(config: ConsumerConfig, stream: StreamConfig, limits: Allowance) -> None:
    """Check a configuration whose defaults are filled in, for a stream configured as `stream`.

    Raises:
        JetStreamError: the configuration is refused.
    """
    _check_names(config)
    if config.num_replicas:
        _check_replicas(config, stream)
    if config.backoff_ns or config.ack_wait_ns < 0:
        _check_waits(config)
    if config.ack_policy == "flow_control":
        _check_ack_flow_control(config)
    if (
        config.backoff_ns
        and config.max_deliver != -1
        and len(config.backoff_ns) > config.max_deliver
    ):
        raise errors.CONSUMER_MAX_DELIVER_BACKOFF.error()
    if config.description and names.size(config.description) > names.DESCRIPTION_MAX_BYTES:
        raise errors.CONSUMER_DESCRIPTION_TOO_LONG.error(max=names.DESCRIPTION_MAX_BYTES)
    if config.is_pull():
        _check_pull(config, stream, limits)
    else:
        _check_push(config, stream)
    _check_limits(config, stream, limits)
    if config.direct:
        _check_direct(config)
    _check_filters(config)
    if (
        config.deliver_policy not in _WITHOUT_START
        or config.opt_start_seq
        or config.opt_start_time is not None
    ):
        _check_start(config)
    if config.sample_freq:
        _check_sampling(config)
    if config.flow_control and config.idle_heartbeat_ns == 0:
        raise errors.CONSUMER_WITH_FLOW_CONTROL_NEEDS_HEARTBEATS.error()
    if config.durable_name and config.name and config.name != config.durable_name:
        raise errors.CONSUMER_CREATE_DURABLE_AND_NAME_MISMATCH.error()
    _check_metadata(config)
    _check_priority(config)


def _check_names(config: ConsumerConfig) -> None:
    if config.name and not _is_consumer_name(config.name):
        text = "consumer name can not contain '.', '*', '>', '\\', '/'"
        raise errors.STREAM_INVALID_CONFIG.error(err=text)
    if config.durable_name and not _is_consumer_name(config.durable_name):
        text = "consumer durable name can not contain '.', '*', '>', '\\', '/'"
        raise errors.STREAM_INVALID_CONFIG.error(err=text)


def _is_consumer_name(name: str) -> bool:
    """Return whether a consumer may be called `name`: what begins with NUL is the stream's own."""
    return names.is_valid_name(name) and not name.startswith("\x00")


def _check_replicas(config: ConsumerConfig, stream: StreamConfig) -> None:
    if config.num_replicas > 0 and config.num_replicas > stream.num_replicas:
        raise errors.CONSUMER_REPLICAS_EXCEEDS_STREAM.error()
    if config.num_replicas < 0:
        raise errors.REPLICAS_COUNT_CANNOT_BE_NEGATIVE.error()
    if stream.retention != "limits" and config.num_replicas not in {0, stream.num_replicas}:
        raise errors.CONSUMER_REPLICAS_SHOULD_MATCH_STREAM.error()


def _check_waits(config: ConsumerConfig) -> None:
    if config.backoff_ns and min(config.backoff_ns) < 0:
        raise errors.CONSUMER_BACK_OFF_NEGATIVE.error()
    if config.ack_wait_ns < 0:
        raise errors.CONSUMER_ACK_WAIT_NEGATIVE.error()


def _check_ack_flow_control(config: ConsumerConfig) -> None:
    if config.is_pull():
        raise errors.CONSUMER_ACK_FC_REQUIRES_PUSH.error()
    if not config.flow_control:
        raise errors.CONSUMER_ACK_FC_REQUIRES_FC.error()
    if config.idle_heartbeat_ns != SOURCING_HEARTBEAT_NS:
        text = "flow control ack policy heartbeat needs to be 1s"
        raise errors.STREAM_INVALID_CONFIG.error(err=text)
    if config.max_ack_pending <= 0:
        raise errors.CONSUMER_ACK_FC_REQUIRES_MAX_ACK_PENDING.error()
    if config.ack_wait_ns != 0 or config.backoff_ns:
        raise errors.CONSUMER_ACK_FC_REQUIRES_NO_ACK_WAIT.error()
    if config.max_deliver > 0:
        raise errors.CONSUMER_ACK_FC_REQUIRES_NO_MAX_DELIVER.error()


def _check_push(config: ConsumerConfig, stream: StreamConfig) -> None:
    subject = names.to_bytes(config.deliver_subject)
    if not is_literal(subject):
        raise errors.CONSUMER_DELIVER_TO_WILDCARDS.error()
    if _FORM_FEED in subject or not is_valid_subject(subject):
        raise errors.CONSUMER_INVALID_DELIVER_SUBJECT.error()
    for pattern in stream.subjects:
        if matches(subject, names.to_bytes(pattern)):
            raise errors.CONSUMER_DELIVER_CYCLE.error()
    if config.max_waiting != 0:
        raise errors.CONSUMER_PUSH_MAX_WAITING.error()
    if config.max_ack_pending > 0 and config.ack_policy == "none":
        raise errors.CONSUMER_MAX_PENDING_ACK_POLICY_REQUIRED.error()
    if 0 < config.idle_heartbeat_ns < _LEAST_HEARTBEAT_NS:
        raise errors.CONSUMER_SMALL_HEARTBEAT.error()


def _check_pull(config: ConsumerConfig, stream: StreamConfig, limits: Allowance) -> None:
    if config.ack_policy == "none" and stream.retention == "workqueue":
        raise errors.CONSUMER_PULL_REQUIRES_ACK.error()
    if config.rate_limit_bps > 0:
        raise errors.CONSUMER_PULL_WITH_RATE_LIMIT.error()
    if config.idle_heartbeat_ns > 0:
        raise errors.CONSUMER_HB_REQUIRES_PUSH.error()
    if config.flow_control:
        raise errors.CONSUMER_FC_REQUIRES_PUSH.error()
    if config.max_expires_ns != 0 and config.max_expires_ns < _LEAST_MAX_EXPIRES_NS:
        raise errors.CONSUMER_MAX_REQUEST_EXPIRES_TOO_SMALL.error()
    if 0 < limits.max_request_batch < config.max_batch:
        raise errors.CONSUMER_MAX_REQUEST_BATCH_EXCEEDED.error(limit=limits.max_request_batch)


def _check_limits(config: ConsumerConfig, stream: StreamConfig, limits: Allowance) -> None:
    of_stream = stream.consumer_limits
    if config.max_ack_pending > 0:
        for limit in (
            limits.server_max_ack_pending,
            limits.account_max_ack_pending,
            of_stream.max_ack_pending,
        ):
            if 0 < limit < config.max_ack_pending:
                raise errors.CONSUMER_MAX_PENDING_ACK_EXCESS.error(limit=limit)
    threshold = of_stream.inactive_threshold_ns
    if 0 < threshold < config.inactive_threshold_ns:
        raise errors.CONSUMER_INACTIVE_THRESHOLD_EXCESS.error(limit=format_duration(threshold))


def _check_direct(config: ConsumerConfig) -> None:
    if config.is_pull():
        raise errors.CONSUMER_DIRECT_REQUIRES_PUSH.error()
    if config.durable_name:
        raise errors.CONSUMER_DIRECT_REQUIRES_EPHEMERAL.error()


def _check_filters(config: ConsumerConfig) -> None:
    if config.filter_subject and config.filter_subjects:
        raise errors.CONSUMER_DUPLICATE_FILTER_SUBJECTS.error()
    if config.filter_subject and not names.is_valid_subject(config.filter_subject):
        raise errors.STREAM_INVALID_CONFIG.error(err=_BAD_SUBJECT)
    if not config.filter_subjects:
        return
    if "" in config.filter_subjects:
        raise errors.CONSUMER_EMPTY_FILTER.error()
    if not all(names.is_valid_subject(one) for one in config.filter_subjects):
        raise errors.STREAM_INVALID_CONFIG.error(err=_BAD_SUBJECT)
    if names.pattern_set(config.filter_subjects).has_covered():
        raise errors.CONSUMER_OVERLAPPING_SUBJECT_FILTERS.error()


_BAD_SUBJECT = "invalid subject"

_START_WORDS = {
    "all": "all",
    "last": "last",
    "last_per_subject": "last per subject",
    "new": "new",
    "by_start_sequence": "by start sequence",
    "by_start_time": "by start time",
}


_WITHOUT_START = frozenset({"all", "last", "new"})
"""The policies that need no start position."""


def _check_start(config: ConsumerConfig) -> None:
    """Check that the start position fits the deliver policy."""
    policy = config.deliver_policy
    words = f"consumer delivery policy is deliver {_START_WORDS[policy]}, but optional "
    if config.opt_start_seq > SEQ_MAX:
        raise errors.CONSUMER_INVALID_POLICY.error(err=f"start sequence is above {SEQ_MAX}")
    if policy == "by_start_sequence":
        if config.opt_start_seq == 0:
            raise errors.CONSUMER_INVALID_POLICY.error(err=f"{words}start sequence is not set")
        if config.opt_start_time is not None:
            raise errors.CONSUMER_INVALID_POLICY.error(err=f"{words}start time is also set")
        return
    if policy == "by_start_time":
        if config.opt_start_time is None:
            raise errors.CONSUMER_INVALID_POLICY.error(err=f"{words}start time is not set")
        if config.opt_start_seq != 0:
            # The doubled "start" is nats-server's.
            text = f"{words}start start sequence is also set"
            raise errors.CONSUMER_INVALID_POLICY.error(err=text)
        return
    if config.opt_start_seq > 0:
        raise errors.CONSUMER_INVALID_POLICY.error(err=f"{words}start sequence is also set")
    if config.opt_start_time is not None:
        raise errors.CONSUMER_INVALID_POLICY.error(err=f"{words}start time is also set")
    if policy == "last_per_subject" and not config.filters():
        raise errors.CONSUMER_INVALID_POLICY.error(err=f"{words}filter subject is not set")


def _check_sampling(config: ConsumerConfig) -> None:
    text = config.sample_freq.removesuffix("%")
    problem = "invalid syntax" if _GO_INT.fullmatch(text) is None else ""
    if not problem and (len(text) > _DIGITS_MAX or not -1 << 63 <= int(text) < 1 << 63):
        problem = "value out of range"
    if problem:
        shown = quote(names.to_bytes(text))
        problem = f"strconv.Atoi: parsing {shown}: {problem}"
        raise errors.CONSUMER_INVALID_SAMPLING.error(err=problem)
    if int(text) < 0:
        raise errors.CONSUMER_INVALID_SAMPLING.error(err="<nil>")


def _check_metadata(config: ConsumerConfig) -> None:
    size = 0
    for key, value in config.metadata.items():
        size += names.size(key) + names.size(value)
    if size > names.METADATA_MAX_BYTES:
        raise errors.CONSUMER_METADATA_LENGTH.error(limit=f"{names.METADATA_MAX_BYTES // 1024}KB")


def _check_priority(config: ConsumerConfig) -> None:
    if config.priority_policy == "none":
        if config.priority_groups:
            raise errors.CONSUMER_PRIORITY_GROUP_WITH_POLICY_NONE.error()
        if config.priority_timeout_ns > 0:
            raise errors.CONSUMER_PINNED_TTL_WITHOUT_PRIORITY_POLICY_NONE.error()
        return
    if not config.is_pull():
        raise errors.CONSUMER_PUSH_WITH_PRIORITY_GROUP.error()
    if not config.priority_groups:
        raise errors.CONSUMER_PRIORITY_POLICY_WITHOUT_GROUP.error()
    for group in config.priority_groups:
        if not group:
            raise errors.CONSUMER_EMPTY_GROUP_NAME.error()
        if _GROUP_NAME.fullmatch(group) is None:
            raise errors.CONSUMER_INVALID_GROUP_NAME.error()


def is_group_name(name: str) -> bool:
    """Return whether a priority group may have this name."""
    return _GROUP_NAME.fullmatch(name) is not None


_FIXED = (
    ("deliver_policy", "deliver policy can not be updated"),
    ("mem_storage", "storage type can not be updated"),
    ("direct", "direct can not be updated"),
    ("sourcing", "sourcing can not be updated"),
    ("opt_start_seq", "start sequence can not be updated"),
    ("opt_start_time", "start time can not be updated"),
    ("ack_policy", "ack policy can not be updated"),
    ("replay_policy", "replay policy can not be updated"),
    ("idle_heartbeat_ns", "heart beats can not be updated"),
    ("flow_control", "flow control can not be updated"),
)


def check_update(
    config: ConsumerConfig, changed: ConsumerConfig, *, has_deliver_interest: bool
) -> None:
    """Check that the configuration `config` of a consumer may change to `changed`.

    With `has_deliver_interest`, the current deliver subject has a subscription.

    Raises:
        JetStreamError: the change is refused.
    """
    for name, text in _FIXED:
        if _moment(getattr(config, name)) != _moment(getattr(changed, name)):
            raise errors.CONSUMER_CREATE.error(err=text)
    if config.deliver_subject != changed.deliver_subject:
        if not config.deliver_subject:
            raise _cannot_update("pull consumer to push based")
        if not changed.deliver_subject:
            raise _cannot_update("push consumer to pull based")
        if has_deliver_interest:
            raise errors.CONSUMER_NAME_EXIST.error()
    if config.max_waiting != changed.max_waiting:
        raise errors.CONSUMER_CREATE.error(err="max waiting can not be updated")


def _cannot_update(what: str) -> errors.JetStreamError:
    return errors.CONSUMER_CREATE.error(err=f"can not update {what}")


def _moment(value: Any) -> Any:
    """Return the value to compare by: moments in different zones may be equal."""
    return getattr(value, "ns", value)


class WorkQueue:
    """The filters of the consumers of a work queue stream, which may not overlap."""

    def __init__(self) -> None:
        self._filters = OverlapIndex()
        self._unfiltered = 0

    def add(self, filters: Iterable[bytes]) -> None:
        """Add the filters of a consumer; without any it takes all messages."""
        before = self._filters.size
        for one in filters:
            self._filters.insert(one)
        self._unfiltered += self._filters.size == before

    def remove(self, filters: Iterable[bytes]) -> None:
        """Remove the filters of a consumer."""
        before = self._filters.size
        for one in filters:
            self._filters.remove(one)
        self._unfiltered -= self._filters.size == before

    def is_empty(self) -> bool:
        """Return True if there are no consumers."""
        return self._filters.size + self._unfiltered == 0

    def takes_any(self, filters: tuple[bytes, ...]) -> bool:
        """Return True if a consumer takes a message that one of `filters` takes."""
        if self._unfiltered or not filters:
            return self._unfiltered > 0 and bool(filters)
        asked = OverlapIndex()
        for one in filters:
            asked.insert(one)
        return self._filters.overlaps(asked)


def check_work_queue(config: ConsumerConfig, others: WorkQueue, *, is_new: bool) -> None:
    """Check a consumer of a work queue stream against the filters of its other consumers.

    Raises:
        JetStreamError: a message would have two consumers.
    """
    filters = config.filters()
    if is_new:
        if config.ack_policy not in {"explicit", "flow_control"}:
            raise errors.CONSUMER_WQ_REQUIRES_EXPLICIT_ACK.error()
        if config.deliver_policy != "all":
            raise errors.CONSUMER_WQ_CONSUMER_NOT_DELIVER_ALL.error()
        if not filters and not others.is_empty():
            raise errors.CONSUMER_WQ_MULTIPLE_UNFILTERED.error()
    if others.takes_any(filters):
        raise errors.CONSUMER_WQ_CONSUMER_NOT_UNIQUE.error()
