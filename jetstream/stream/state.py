"""A stream's state and its whole info, as answers show them."""

from __future__ import annotations

from typing import Any

from midge.jetstream.json.times import ZERO_TIME, format_time
from midge.jetstream.stream.stream import Stream

LISTED_APART = -1
"""Placeholder in a state for a list that is written separately, see `details`."""


def state(
    stream: Stream, *, with_subjects: bool = False, with_deleted: bool = False
) -> dict[str, Any]:
    """Return the state as answers show it, with `LISTED_APART` for the lists that are asked for."""
    store = stream.store
    fields: dict[str, Any] = {
        "messages": store.messages,
        "bytes": store.bytes,
        "first_seq": store.first_seq,
        "first_ts": _time(store.first_time_ns()),
        "last_seq": store.last_seq,
        "last_ts": _time(max(store.last_time_ns, stream.skipped_ns)),
    }
    if store.subject_count:
        fields["num_subjects"] = store.subject_count
    if with_subjects:
        fields["subjects"] = LISTED_APART
    deleted = store.deleted_count() if store.last_seq > store.first_seq else 0
    if deleted:
        fields["num_deleted"] = deleted
        if with_deleted:
            fields["deleted"] = LISTED_APART
    lost = getattr(store, "lost", None)
    lost_bytes = getattr(store, "lost_bytes", 0)
    if lost or lost_bytes:
        fields["lost"] = {"msgs": sorted(lost or ()), "bytes": lost_bytes}
    fields["consumer_count"] = len(stream.consumers)
    return fields


def info(
    stream: Stream,
    *,
    config: dict[str, Any],
    shown_state: dict[str, Any],
    domain: str = "",
    cluster: str = "",
) -> dict[str, Any]:
    """Return the info of a stream; `domain` and `cluster`, its leader, only if not empty."""
    fields: dict[str, Any] = {
        "config": config,
        "created": format_time(stream.created_ns),
        "state": shown_state,
    }
    if domain:
        fields["domain"] = domain
    if cluster:
        fields["cluster"] = {"leader": cluster}
    fields |= stream.origins.info()
    fields["ts"] = format_time(stream.clock.wall_ns())
    return fields


def _time(ns: int) -> str:
    return format_time(ns) if ns else ZERO_TIME
