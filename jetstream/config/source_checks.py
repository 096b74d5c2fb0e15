"""Checks of the mirror and the sources in a stream's configuration; see `checks`."""

from __future__ import annotations

from midge.jetstream import errors, transform
from midge.jetstream.config import names
from midge.jetstream.config.source import StreamSource, SubjectTransform
from midge.jetstream.config.stream import ConfigContext, StreamConfig
from midge.protocol.errors import quote

API_PREFIX = "$JS.API"


def check_origins(config: StreamConfig, surroundings: ConfigContext, *, pedantic: bool) -> None:
    """Refuse an invalid mirror or sources, also if they form a cycle; raises JetStreamError."""
    subjects: list[str] = []
    if config.mirror is not None:
        _check_mirror(config, config.mirror)
        if config.mirror.external is None:
            subjects += _check_mirror_origin(config, config.mirror, surroundings, pedantic)
    if config.sources and config.allow_msg_schedules:
        raise errors.SOURCE_WITH_MSG_SCHEDULES.error()
    subjects += _check_sources(config, surroundings)
    _check_prefixes(config, subjects)
    _check_cycles(config, surroundings)


def check_filters(config: StreamConfig) -> None:
    """Refuse malformed filters; for a new stream, this is the last check.

    Raises:
        JetStreamError: a filter of the mirror or of a source is not a valid subject.
    """
    mirror = config.mirror
    if mirror is not None and not _is_filter(mirror):
        text = f"subject filter '{mirror.filter_subject}' for the mirror invalid subject"
        raise errors.STREAM_CREATE.error(err=text)
    for source in config.sources:
        if not _is_filter(source):
            text = f"subject filter '{source.filter_subject}' for the source: invalid subject"
            raise errors.STREAM_CREATE.error(err=text)


def _is_filter(source: StreamSource) -> bool:
    return not source.filter_subject or names.is_valid_subject(source.filter_subject)


def is_transform(source: str, destination: str) -> bool:
    """Return whether the two make a valid transform; an empty destination needs none."""
    if not destination:
        return True
    try:
        transform.StreamTransform(source, destination)
    except transform.TransformError:
        return False
    return True


def _check_mirror(config: StreamConfig, mirror: StreamSource) -> None:
    """Refuse settings that a mirror cannot have."""
    forbidden = (
        (config.first_seq > 0, errors.MIRROR_WITH_FIRST_SEQ),
        (bool(config.subjects), errors.MIRROR_WITH_SUBJECTS),
        (bool(config.sources), errors.MIRROR_WITH_SOURCES),
        (config.allow_msg_counter, errors.MIRROR_WITH_COUNTERS),
        (config.allow_atomic, errors.MIRROR_WITH_ATOMIC_PUBLISH),
        (config.allow_batched, errors.MIRROR_WITH_BATCH_PUBLISH),
        (config.allow_msg_schedules, errors.MIRROR_WITH_MSG_SCHEDULES),
        (_has_bad_consumer(mirror), errors.MIRROR_DURABLE_CONSUMER_CFG_INVALID),
        (
            bool(mirror.filter_subject and mirror.subject_transforms),
            errors.MIRROR_MULTIPLE_FILTERS_NOT_ALLOWED,
        ),
    )
    for is_set, error in forbidden:
        if is_set:
            raise error.error()
    if config.subject_delete_marker_ttl_ns > 0:
        raise errors.STREAM_INVALID_CONFIG.error(err="subject delete markers forbidden on mirrors")
    overlapping = names.pattern_set(one.source for one in mirror.subject_transforms).first_overlap()
    for i, given in enumerate(mirror.subject_transforms):
        _check_transform(
            given, errors.MIRROR_INVALID_SUBJECT_FILTER, errors.MIRROR_INVALID_TRANSFORM_DESTINATION
        )
        if i == overlapping:
            raise errors.MIRROR_OVERLAPPING_SUBJECT_FILTERS.error()


def _check_mirror_origin(
    config: StreamConfig, mirror: StreamSource, surroundings: ConfigContext, pedantic: bool
) -> list[str]:
    """Check a mirror against its origin, if that exists; return the origin's subjects."""
    if not names.is_valid_name(mirror.name):
        raise errors.MIRROR_INVALID_STREAM_NAME.error()
    origin = surroundings.config_of(mirror.name)
    if origin is None:
        return []
    if 0 < config.max_msg_size < origin.max_msg_size:
        raise errors.MIRROR_MAX_MESSAGE_SIZE_TOO_BIG.error()
    if pedantic and config.mirror_direct != origin.allow_direct:
        text = "origin stream has direct get set, mirror has it disabled"
        raise errors.PEDANTIC.error(err=text)
    config.mirror_direct = origin.allow_direct
    return origin.subjects


def _check_sources(config: StreamConfig, surroundings: ConfigContext) -> list[str]:
    """Refuse invalid or repeated sources; return the subjects of the existing ones."""
    subjects: list[str] = []
    seen: set[str] = set()
    consumers: set[str] = set()
    for source in config.sources:
        if not names.is_valid_name(source.name):
            raise errors.SOURCE_INVALID_STREAM_NAME.error()
        if source.index_name() in seen:
            raise errors.SOURCE_DUPLICATE_DETECTED.error()
        seen.add(source.index_name())
        if source.filter_subject and source.subject_transforms:
            raise errors.SOURCE_MULTIPLE_FILTERS_NOT_ALLOWED.error()
        _check_source_transforms(source)
        if source.consumer is not None:
            if _has_bad_consumer(source):
                raise errors.SOURCE_DURABLE_CONSUMER_CFG_INVALID.error()
            if source.consumer_index_name() in consumers:
                raise errors.SOURCE_DURABLE_CONSUMER_DUPLICATE_DETECTED.error()
            consumers.add(source.consumer_index_name())
        origin = None if source.external else surroundings.config_of(source.name)
        if origin is not None:
            subjects += origin.subjects
            if 0 < config.max_msg_size < origin.max_msg_size:
                raise errors.SOURCE_MAX_MESSAGE_SIZE_TOO_BIG.error()
    return subjects


def _check_source_transforms(source: StreamSource) -> None:
    for given in source.subject_transforms:
        _check_transform(
            given, errors.SOURCE_INVALID_SUBJECT_FILTER, errors.SOURCE_INVALID_TRANSFORM_DESTINATION
        )
    if names.pattern_set(one.source for one in source.subject_transforms).has_covered():
        raise errors.SOURCE_OVERLAPPING_SUBJECT_FILTERS.error()


def _check_transform(
    given: SubjectTransform, bad_source: errors.ApiError, bad_destination: errors.ApiError
) -> None:
    if given.source and not names.is_valid_subject(given.source):
        raise bad_source.error(err=f"invalid subject {given.source}")
    try:
        transform.check(given.source, given.destination)
    except transform.TransformError as error:
        raise bad_destination.error(err=error) from None


def _has_bad_consumer(source: StreamSource) -> bool:
    """Return whether the consumer that a source names is unusable."""
    consumer = source.consumer
    if consumer is None:
        return False
    return (
        not names.is_valid_name(consumer.name)
        or not names.is_valid_publish_subject(consumer.deliver_subject)
        or source.start_seq != 0
        or source.start_time is not None
        or bool(source.filter_subject)
    )


def _check_prefixes(config: StreamConfig, subjects: list[str]) -> None:
    """Refuse prefixes of external streams that would make messages or requests loop."""
    origins = [config.mirror] if config.mirror is not None else []
    external = [origin.external for origin in [*origins, *config.sources] if origin.external]
    for prefix in [one.deliver_prefix for one in external if one.deliver_prefix]:
        if not names.is_valid_publish_subject(prefix):
            raise errors.STREAM_INVALID_EXTERNAL_DELIVERY_SUBJ.error(prefix=prefix)
        for subject in subjects:
            if names.collide(subject, f"{prefix}.{subject}"):
                raise errors.STREAM_EXTERNAL_DEL_PREFIX_OVERLAPS.error(
                    prefix=prefix, subject=subject
                )
    for prefix in [one.api_prefix for one in external if one.api_prefix]:
        if not names.is_valid_publish_subject(prefix):
            shown = quote(prefix.encode("utf-8", "surrogatepass"))
            text = f"stream external api prefix {shown} must be a valid subject without wildcards"
            raise errors.STREAM_INVALID_CONFIG.error(err=text)
        if names.collide(prefix, API_PREFIX):
            raise errors.STREAM_EXTERNAL_API_OVERLAP.error(prefix=prefix, subject=API_PREFIX)


def _check_cycles(config: StreamConfig, surroundings: ConfigContext) -> None:
    """Refuse streams that are each other's sources."""
    waiting = [config]
    visited = set()
    while waiting:
        current = waiting.pop(0)
        visited.add(current.name)
        for source in current.sources:
            if source.external is not None:
                continue
            if source.name in visited:
                if _takes_any(current.subjects, source.filter_subject):
                    raise errors.STREAM_INVALID_CONFIG.error(err="detected cycle")
            elif (origin := surroundings.config_of(source.name)) is not None:
                waiting.append(origin)
        mirror = current.mirror
        if mirror is not None and mirror.external is None:
            if mirror.name in visited:
                raise errors.STREAM_INVALID_CONFIG.error(err="detected cycle")
            if (origin := surroundings.config_of(mirror.name)) is not None:
                waiting.append(origin)


def _takes_any(subjects: list[str], pattern: str) -> bool:
    """Return whether a source filter takes messages of any of `subjects`."""
    return not pattern or any(names.collide(subject, pattern) for subject in subjects)
