"""Checks of changes to a stream's configuration."""

from __future__ import annotations

from midge.jetstream import errors
from midge.jetstream.config.checks import (
    check,
    check_deny_delete,
    check_discard_per_subject,
    invalid,
)
from midge.jetstream.config.stream import NEW, WORKQUEUE, StreamConfig
from midge.jetstream.config.surroundings import Surroundings


def check_update(
    old: StreamConfig, asked: StreamConfig, surroundings: Surroundings, *, pedantic: bool = False
) -> StreamConfig:
    """Return the configuration that replaces `old`, with its defaults.

    Sealing a stream also ends its age limit, its roll-ups and everything else that removes
    messages.

    Raises:
        JetStreamError: the configuration, or the change, is refused.
    """
    config = check(asked, surroundings, pedantic=pedantic)
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
    return config


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
