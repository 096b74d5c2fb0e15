"""Checks of a stream's configuration and of its changes, in nats-server's order and words.

`check` takes a configuration as requested and returns it with its defaults. With `pedantic` it
refuses values that it would otherwise correct.
"""

from __future__ import annotations

from midge.jetstream import errors, transform
from midge.jetstream.config import names, source_checks
from midge.jetstream.config.names import SEQ_MAX
from midge.jetstream.config.source import SubjectTransform
from midge.jetstream.config.stream import (
    ASYNC,
    FILE,
    LIMITS,
    NEW,
    WORKQUEUE,
    ConfigContext,
    Placement,
    StreamConfig,
)
from midge.jetstream.json.times import SECOND_NS, format_duration
from midge.protocol.errors import quote
from midge.sublist.overlaps import OverlapIndex

DUPLICATE_WINDOW_NS = 120 * SECOND_NS
"""The default time for which message ids are remembered."""

REPLICAS_MAX = 5
_SHORTEST_NS = SECOND_NS // 10

_API_SUBJECTS = ("$JS.>", "$JSC.>", "$NRG.>")
_RESERVED_BEGINS = ("$", "*", ">")
"""A subject that collides with a reserved one begins with one of these."""


def invalid(text: str) -> errors.JetStreamError:
    """Return the refusal of a configuration."""
    return errors.STREAM_INVALID_CONFIG.error(err=text)


def pedantic_error(text: str) -> errors.JetStreamError:
    """Return the refusal of a value that is corrected without `pedantic`."""
    return errors.PEDANTIC.error(err=text)


def check(
    asked: StreamConfig, surroundings: ConfigContext, *, pedantic: bool = False
) -> tuple[StreamConfig, OverlapIndex]:
    """Return a copy of `asked` with its defaults, and the set of its subjects.

    Raises:
        JetStreamError: the configuration is refused.
    """
    _check_texts(asked)
    config = asked.clone()
    config.storage = config.storage or FILE
    _check_replicas(config)
    _default_limits(config, pedantic)
    _check_duplicate_window(config, surroundings.duplicate_window_max_ns, pedantic)
    if config.deny_purge and config.allow_rollup:
        raise invalid("roll-ups require the purge permission")
    _check_counter(config)
    check_discard_per_subject(config)
    _check_markers(config, pedantic)
    _check_schedules(config, pedantic)
    _check_persist_mode(config)
    source_checks.check_origins(config, surroundings, pedantic=pedantic)
    patterns = _check_subjects(config)
    _check_sequences(config)
    required, limit = surroundings.stream_bytes_limits(config)
    if required and config.max_bytes <= 0:
        raise errors.STREAM_MAX_BYTES_REQUIRED.error()
    if config.max_bytes > limit > 0:
        raise errors.STREAM_MAX_STREAM_BYTES_EXCEEDED.error()
    _check_transform(config.subject_transform)
    _check_republish(config, pedantic)
    _check_placement(config)
    return config, patterns


def _check_texts(config: StreamConfig) -> None:
    if not names.is_valid_name(config.name):
        raise invalid("stream name is required and can not contain '.', '*', '>', '\\', '/'")
    if names.size(config.name) > names.NAME_MAX_BYTES:
        raise invalid(f"stream name is too long, maximum allowed is {names.NAME_MAX_BYTES}")
    if names.size(config.description) > names.DESCRIPTION_MAX_BYTES:
        limit = names.DESCRIPTION_MAX_BYTES
        raise invalid(f"stream description is too long, maximum allowed is {limit}")
    length = sum(names.size(key) + names.size(value) for key, value in config.metadata.items())
    if length > names.METADATA_MAX_BYTES:
        limit = names.METADATA_MAX_BYTES
        raise invalid(f"stream metadata exceeds maximum size of {limit} bytes")


def _check_replicas(config: StreamConfig) -> None:
    config.num_replicas = config.num_replicas or 1
    if config.num_replicas > REPLICAS_MAX:
        raise invalid(f"maximum replicas is {REPLICAS_MAX}")
    if config.num_replicas < 0:
        raise errors.REPLICAS_COUNT_CANNOT_BE_NEGATIVE.error()


def _default_limits(config: StreamConfig, pedantic: bool) -> None:
    """Make each limit that is 0 or below -1 unlimited."""
    for key in ("max_msgs", "max_msgs_per_subject", "max_bytes", "max_msg_size", "max_consumers"):
        limit = getattr(config, key)
        if pedantic and limit < -1:
            raise pedantic_error(f"{key} must be set to -1")
        if limit == 0 or limit < -1:
            setattr(config, key, -1)
    if config.max_age_ns < 0:
        raise invalid("max age can not be negative")
    if 0 < config.max_age_ns < _SHORTEST_NS:
        raise invalid("max age needs to be >= 100ms")


def _check_duplicate_window(config: StreamConfig, limit_ns: int, pedantic: bool) -> None:
    if config.duplicate_window_ns == 0 and config.mirror is None and not config.sources:
        config.duplicate_window_ns = _default_window(config.max_age_ns, limit_ns, pedantic)
    window_ns = config.duplicate_window_ns
    if window_ns < 0:
        raise invalid("duplicates window can not be negative")
    if config.max_age_ns and window_ns > config.max_age_ns:
        raise invalid("duplicates window can not be larger then max age")
    if window_ns > limit_ns > 0:
        limit = format_duration(limit_ns)
        raise invalid(f"duplicates window can not be larger then server limit of {limit}")
    if 0 < window_ns < _SHORTEST_NS:
        raise invalid("duplicates window needs to be >= 100ms")


def _default_window(max_age_ns: int, limit_ns: int, pedantic: bool) -> int:
    window_ns = DUPLICATE_WINDOW_NS
    if 0 < limit_ns < window_ns:
        if pedantic:
            raise pedantic_error("duplicate window limits are higher than current limits")
        window_ns = limit_ns
    if 0 < max_age_ns < window_ns:
        if pedantic:
            raise pedantic_error("duplicate window cannot be bigger than max age")
        window_ns = max_age_ns
    return window_ns


def _check_counter(config: StreamConfig) -> None:
    if not config.allow_msg_counter:
        return
    if config.discard == NEW:
        raise invalid("counter stream cannot use discard new")
    if config.allow_msg_ttl:
        raise invalid("counter stream cannot use message TTLs")
    if config.allow_msg_schedules:
        raise invalid("counter stream cannot use message schedules")
    if config.retention != LIMITS:
        raise invalid("counter stream can only use limits retention")


def check_discard_per_subject(config: StreamConfig) -> None:
    """Refuse discarding by subject without the settings that it needs; raises JetStreamError."""
    if not config.discard_new_per_subject:
        return
    if config.discard != NEW:
        raise invalid("discard new per subject requires discard new policy to be set")
    if config.max_msgs_per_subject <= 0:
        raise invalid("discard new per subject requires max msgs per subject > 0")


def check_deny_delete(config: StreamConfig) -> None:
    """Refuse to deny deletions while acknowledgements remove messages; raises JetStreamError.

    nats-server takes such a stream, and removes its messages all the same. A sealed one is as it
    is, because sealing denies deletions whatever the retention.
    """
    if config.deny_delete and config.retention != LIMITS and not config.sealed:
        raise invalid("deny delete requires limits retention")


def _check_markers(config: StreamConfig, pedantic: bool) -> None:
    ttl_ns = config.subject_delete_marker_ttl_ns
    if ttl_ns < 0:
        raise invalid("subject delete marker TTL must not be negative")
    if ttl_ns == 0:
        return
    if ttl_ns < SECOND_NS:
        raise invalid("subject delete marker TTL must be at least 1 second")
    if not config.allow_msg_ttl:
        if pedantic:
            raise invalid("subject delete marker cannot be set if message TTLs are disabled")
        config.allow_msg_ttl = True
    if not config.allow_rollup:
        if pedantic:
            raise invalid("subject delete marker cannot be set if roll-ups are disabled")
        config.allow_rollup, config.deny_purge = True, False


def _check_schedules(config: StreamConfig, pedantic: bool) -> None:
    if not config.allow_msg_schedules:
        return
    if config.discard == NEW:
        raise invalid("message scheduling cannot use discard new")
    if not config.allow_rollup:
        if pedantic:
            raise invalid("message scheduling cannot be set if roll-ups are disabled")
        config.allow_rollup, config.deny_purge = True, False


def _check_persist_mode(config: StreamConfig) -> None:
    if config.persist_mode != ASYNC:
        return
    if config.storage != FILE:
        raise invalid("async persist mode is only supported on file storage")
    if config.num_replicas > 1:
        raise invalid("async persist mode is not supported on replicated streams")
    if config.allow_atomic:
        raise invalid("async persist mode is not supported with atomic batch publish")


def _check_subjects(config: StreamConfig) -> OverlapIndex:
    """Refuse subjects that are malformed, overlap each other or belong to the server."""
    has_origin = config.mirror is not None or bool(config.sources)
    if config.mirror is not None and config.subjects:
        raise errors.MIRROR_WITH_SUBJECTS.error()
    if not config.subjects and not has_origin:
        config.subjects = [config.name]
        return names.pattern_set(config.subjects)
    patterns = names.pattern_set(config.subjects)
    overlapping = patterns.first_overlap()
    for i, subject in enumerate(config.subjects):
        if not names.is_valid_subject(subject):
            raise invalid("invalid subject")
        if subject.startswith(_RESERVED_BEGINS):
            if subject == ">":
                _check_catch_all(config)
            if not config.no_ack:
                _check_reserved(subject)
        if i == overlapping:
            other = next(one for one in config.subjects[i + 1 :] if names.collide(one, subject))
            raise invalid(f"subject {quoted(subject)} overlaps with {quoted(other)}")
    return patterns


def _check_sequences(config: StreamConfig) -> None:
    """Refuse sequences that no stream can use; nats-server takes them, and begins again at 0."""
    if config.first_seq > SEQ_MAX:
        raise invalid(f"first sequence can not be above {SEQ_MAX}")
    origins = [config.mirror] if config.mirror is not None else []
    if any(one.start_seq > SEQ_MAX for one in [*origins, *config.sources]):
        raise invalid(f"start sequence can not be above {SEQ_MAX}")


def _check_catch_all(config: StreamConfig) -> None:
    if not config.no_ack:
        raise invalid("capturing all subjects requires no-ack to be true")
    if config.num_replicas != 1:
        raise invalid("capturing all subjects requires replicas of 1")


def _check_reserved(subject: str) -> None:
    """Refuse subjects on which the stream's own answers would be stored and answered again."""
    if any(names.collide(subject, api) for api in _API_SUBJECTS) and not names.is_subset(
        subject, "$JS.EVENT.>"
    ):
        raise invalid("subjects that overlap with jetstream api require no-ack to be true")
    if names.collide(subject, "$SYS.>") and not names.is_subset(subject, "$SYS.ACCOUNT.>"):
        raise invalid("subjects that overlap with system api require no-ack to be true")


def _check_transform(given: SubjectTransform | None) -> None:
    if given is None:
        return
    if given.source and not names.is_valid_subject(given.source):
        raise errors.STREAM_TRANSFORM_INVALID_SOURCE.error(err=f"invalid subject {given.source}")
    try:
        transform.check(given.source, given.destination)
    except transform.TransformError as error:
        raise errors.STREAM_TRANSFORM_INVALID_DESTINATION.error(err=error) from None


def _check_republish(config: StreamConfig, pedantic: bool) -> None:
    """Refuse republishing into the stream itself; an empty source means all subjects."""
    republish = config.republish
    if republish is None:
        return
    if not republish.source:
        if pedantic:
            raise pedantic_error("republish source can not be empty")
        republish.source = ">"
    given = config.subject_transform
    is_all = republish.source == republish.destination == ">"
    if is_all and given is not None and config.subjects == [given.source]:
        # Messages are stored, and therefore republished, under their transformed subject.
        if pedantic:
            raise pedantic_error("implicit republish based on subject transform")
        republish.source = republish.destination = given.destination
    if any(names.collide(republish.destination, subject) for subject in config.subjects):
        raise invalid("stream configuration for republish destination forms a cycle")
    if not source_checks.is_transform(republish.source, republish.destination):
        pair = f"from '{republish.source}' to '{republish.destination}'"
        raise invalid(f"stream configuration for republish with transform {pair} not valid")


def _check_placement(config: StreamConfig) -> None:
    if config.placement == Placement():
        config.placement = None
    if config.placement is not None and config.placement.preferred:
        raise invalid("preferred server not permitted in placement")


def quoted(text: str) -> str:
    """Quote `text` as Go's ``%q`` does."""
    return quote(text.encode("utf-8", "surrogatepass"))


def check_update(old: StreamConfig, config: StreamConfig) -> None:
    """Check a change of `old` to `config`, which `check` has returned, and complete `config`.

    Sealing a stream also ends its age limit, its roll-ups and everything else that removes
    messages.

    Raises:
        JetStreamError: the change is refused.
    """
    _check_counter(config)  # again: markers have turned TTLs on, refused in an update only
    if config.name != old.name:
        raise invalid("stream configuration name must match original")
    if config.num_replicas > 1:
        raise errors.STREAM_REPLICAS_NOT_SUPPORTED.error()
    _check_fixed(old, config)
    if config.mirror is not None and config.mirror != old.mirror:
        raise errors.STREAM_MIRROR_NOT_UPDATABLE.error()
    check_discard_per_subject(config)
    _check_features(old, config)
    if not old.deny_delete or config.retention != old.retention:
        check_deny_delete(config)
    if config.republish is not None:
        config.republish.destination = config.republish.destination or ">"
    if config.sealed:
        config.max_age_ns = 0
        config.discard = NEW
        config.deny_delete = config.deny_purge = True
        config.allow_rollup = False


def _check_fixed(old: StreamConfig, new: StreamConfig) -> None:
    if new.storage != old.storage:
        raise invalid("stream configuration update can not change storage type")
    if new.retention != old.retention and WORKQUEUE in {new.retention, old.retention}:
        text = "stream configuration update can not change retention policy to/from workqueue"
        raise invalid(text)
    if old.sealed and not new.sealed:
        raise invalid("stream configuration update can not unseal a sealed stream")
    if old.deny_delete and not new.deny_delete:
        raise invalid("stream configuration update can not cancel deny message deletes")
    if old.deny_purge and not new.deny_purge:
        raise invalid("stream configuration update can not cancel deny purge")


def _check_features(old: StreamConfig, new: StreamConfig) -> None:
    if old.allow_msg_ttl and not new.allow_msg_ttl:
        raise invalid("message TTL status can not be disabled")
    if new.allow_msg_counter != old.allow_msg_counter:
        raise invalid("stream configuration update can not change message counter setting")
    if old.allow_msg_schedules and not new.allow_msg_schedules:
        raise invalid("message schedules can not be disabled")
    if old.persist_mode != new.persist_mode:
        raise invalid("stream configuration update can not change persist mode")
