"""The status messages that consumers send: header blocks, byte for byte as nats-server's."""

from __future__ import annotations

NO_MESSAGES = b"NATS/1.0 404 No Messages\r\n\r\n"
REQUESTS_PENDING = b"NATS/1.0 408 Requests Pending\r\n\r\n"
EXCEEDED_MAX_WAITING = b"NATS/1.0 409 Exceeded MaxWaiting\r\n\r\n"
CONSUMER_DELETED = b"NATS/1.0 409 Consumer Deleted\r\n\r\n"
PUSH_BASED = b"NATS/1.0 409 Consumer is push based\r\n\r\n"
LEADERSHIP_CHANGE = b"NATS/1.0 409 Leadership Change\r\n\r\n"
REQUIRED_API_LEVEL = b"NATS/1.0 412 Required Api Level\r\n\r\n"
PIN_ID_MISMATCH = b"NATS/1.0 423 Nats-Pin-Id mismatch\r\n\r\n"
FLOW_CONTROL = b"NATS/1.0 100 FlowControl Request\r\n\r\n"


def request_timeout(messages: int, size: int) -> bytes:
    """Return the status of a request that expired; `messages` and `size` bytes of it were left."""
    return _with_rest(b"408 Request Timeout", messages, size)


def interest_expired(messages: int, size: int) -> bytes:
    """Return the status for another account, whose inbox has lost its last subscriber."""
    return _with_rest(b"408 Interest Expired", messages, size)


def exceeds_max_bytes(messages: int, size: int) -> bytes:
    """Return the status of a request whose bytes that are left do not hold the next message."""
    return _with_rest(b"409 Message Size Exceeds MaxBytes", messages, size)


def batch_completed(messages: int, size: int) -> bytes:
    """Return the status of a request that got all its messages, with bytes left."""
    return _with_rest(b"409 Batch Completed", messages, size)


def server_shutdown(messages: int, size: int) -> bytes:
    """Return the status of a request that waits while the server stops."""
    return _with_rest(b"409 Server Shutdown", messages, size)


def wrong_pin_id(messages: int, size: int) -> bytes:
    """Return the status of a request by a client that is no longer the pinned one."""
    return _with_rest(b"423 Nats-Wrong-Pin-Id", messages, size)


def exceeded(limit: str, value: object) -> bytes:
    """Return the status of a request for more than `value`, which the consumer's `limit` allows."""
    return f"NATS/1.0 409 Exceeded {limit} of {value}\r\n\r\n".encode()


def bad_request(problem: str) -> bytes:
    """Return the status of a request that cannot be read."""
    return f"NATS/1.0 400 Bad Request - {problem}\r\n\r\n".encode("utf-8", "surrogateescape")


def idle_heartbeat(consumer_seq: int, stream_seq: int, stalled: bytes = b"") -> bytes:
    """Return a heartbeat with the last delivery and, if not empty, the unanswered flow control."""
    block = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n"
    block %= (consumer_seq, stream_seq)
    if stalled:
        block += b"Nats-Consumer-Stalled: %b\r\n" % stalled
    return block + b"\r\n"


def _with_rest(status: bytes, messages: int, size: int) -> bytes:
    block = b"NATS/1.0 %b\r\nNats-Pending-Messages: %d\r\nNats-Pending-Bytes: %d\r\n\r\n"
    return block % (status, messages, size)
