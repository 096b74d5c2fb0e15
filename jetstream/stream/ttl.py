"""How long a message lives by its own header."""

from __future__ import annotations

from midge.jetstream.headers import parse_number
from midge.jetstream.json.encode import text
from midge.jetstream.json.times import SECOND_NS, TimeProblem, parse_duration

NEVER = -1
"""The TTL of a message that even the stream's age limit does not remove."""

INVALID = -2


def parse_ttl(value: bytes) -> int:
    """Return the seconds that ``Nats-TTL`` says: 0 for none, `NEVER`, or `INVALID`."""
    if not value:
        return 0
    if value.lower() == b"never":
        return NEVER
    try:
        duration_ns = parse_duration(text(value))
    except TimeProblem:
        seconds = parse_number(value)
        return seconds if seconds >= 0 else INVALID
    return duration_ns // SECOND_NS if duration_ns >= SECOND_NS else INVALID
