"""Tell the messages whose headers may ask for a trace from all others, without a copy.

This module is the interpreted twin of ``trace_headers.pxd``, which the compiled modules inline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from midge.protocol.frame import Frame

HEADERS_AHEAD = 32
"""Most messages of a run that are looked at ahead; each may be looked at again later."""


def may_ask(data: bytearray, start: int, end: int) -> bool:
    """Tell whether a line in ``data[start:end]`` begins as a header of message tracing does.

    Those of nats-server, `Nats-Trace-…`, and W3C's `traceparent` in any case.
    """
    while True:
        start = data.find(b"\n", start, end) + 1
        if not start:
            return False
        name = data[start : min(start + 11, end)]
        if name == b"Nats-Trace-" or name.lower() == b"traceparent":
            return True


def count_untraced(frame: Frame, count: int) -> int:
    """Return how many of `count` messages, `frame` the first, ask for no trace before one may.

    At most HEADERS_AHEAD of them.
    """
    start = frame.base + frame.payload
    count = min(count, HEADERS_AHEAD)
    for i in range(count):
        if may_ask(frame.data, start, start + frame.header_size):
            return i
        start += frame.end
    return count
