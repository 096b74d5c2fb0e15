"""Tell the messages whose headers may ask for a trace from all others, without a copy.

This module is the interpreted twin of ``trace_headers.pxd``, which the compiled modules inline.
"""


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
