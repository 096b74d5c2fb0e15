"""Settings of streams and consumers in Python programs: JetStream's keys, durations in seconds."""

from __future__ import annotations

from typing import Any

from midge.protocol.errors import MidgeError
from midge.server.config.type_check import nearest

SECOND_NS = 1_000_000_000
STREAM_DURATIONS = frozenset({"max_age", "duplicate_window", "subject_delete_marker_ttl"})
CONSUMER_DURATIONS = frozenset(
    {"ack_wait", "inactive_threshold", "idle_heartbeat", "max_expires", "priority_timeout"}
)


def in_nanoseconds(kind: str, config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a `stream` or a `consumer` with durations in nanoseconds.

    Raises:
        MidgeError: there is no setting of such a name.
    """
    __tracebackhide__ = True
    known = _stream_keys() if kind == "stream" else _consumer_keys()
    durations = STREAM_DURATIONS if kind == "stream" else CONSUMER_DURATIONS
    for name in config.keys() - known:
        raise MidgeError(f"{kind}: unknown setting {name!r}{nearest(name, sorted(known))}")
    found = {
        name: round(value * SECOND_NS) if name in durations else value
        for name, value in config.items()
    }
    if found.get("backoff"):
        found["backoff"] = [round(one * SECOND_NS) for one in found["backoff"]]
    if found.get("consumer_limits"):
        found["consumer_limits"] = in_nanoseconds("consumer", found["consumer_limits"])
    return found


def _stream_keys() -> set[str]:
    from midge.jetstream.config.stream import STREAM  # noqa: PLC0415 - only for programs with streams

    return {field.name for field in STREAM.fields}


def _consumer_keys() -> set[str]:
    from midge.jetstream.config.consumer_config import ATTRIBUTES  # noqa: PLC0415 - as above

    return {name.removesuffix("_ns") for name in ATTRIBUTES}
