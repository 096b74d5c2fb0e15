"""A message to be stored, in the form that the checks read and change."""

from __future__ import annotations

from midge.jetstream.errors import ApiError

MSG_ID = b"Nats-Msg-Id"
EXPECTED_STREAM = b"Nats-Expected-Stream"
EXPECTED_LAST_SEQ = b"Nats-Expected-Last-Sequence"
EXPECTED_LAST_SUBJECT_SEQ = b"Nats-Expected-Last-Subject-Sequence"
EXPECTED_LAST_SUBJECT_SEQ_SUBJECT = b"Nats-Expected-Last-Subject-Sequence-Subject"
EXPECTED_LAST_MSG_ID = b"Nats-Expected-Last-Msg-Id"
STREAM_SOURCE = b"Nats-Stream-Source"
ROLLUP = b"Nats-Rollup"
TTL = b"Nats-TTL"
MARKER_REASON = b"Nats-Marker-Reason"
INCREMENT = b"Nats-Incr"
COUNTER_SOURCES = b"Nats-Counter-Sources"
REQUIRED_API_LEVEL = b"Nats-Required-Api-Level"
SCHEDULE = b"Nats-Schedule"
SCHEDULE_TIME_ZONE = b"Nats-Schedule-Time-Zone"
SCHEDULE_TTL = b"Nats-Schedule-TTL"
SCHEDULE_ROLLUP = b"Nats-Schedule-Rollup"
SCHEDULE_TARGET = b"Nats-Schedule-Target"
SCHEDULE_SOURCE = b"Nats-Schedule-Source"
SCHEDULER = b"Nats-Scheduler"
SCHEDULE_NEXT = b"Nats-Schedule-Next"
BATCH_ID = b"Nats-Batch-Id"
BATCH_SEQUENCE = b"Nats-Batch-Sequence"
BATCH_COMMIT = b"Nats-Batch-Commit"

ROLLUP_SUBJECT = b"sub"
ROLLUP_ALL = b"all"

_NONE: dict[bytes, bytes] = {}


class Incoming:
    """A message to be stored, with the findings of the checks.

    `values` holds the headers whose names begin with ``Nats-``. `is_sourced` says that the message
    comes from another stream or from the server itself, which is not held to what clients are. A
    mirrored one brings its `seq` and `time_ns`. `is_checked` says that what clients are held to has
    been checked already, as of a batch.
    """

    __slots__ = (
        "batch_id",
        "batch_size",
        "counter_value",
        "duplicate_of",
        "headers",
        "increment",
        "is_checked",
        "is_sourced",
        "msg_id",
        "payload",
        "reply",
        "rollup",
        "seq",
        "subject",
        "time_ns",
        "ttl_s",
        "values",
    )

    def __init__(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        self.subject = subject
        self.reply = reply
        self.headers = headers
        self.payload = payload
        self.values = _NONE
        self.is_sourced = False
        self.is_checked = False
        self.msg_id = b""
        self.rollup = b""
        self.ttl_s = 0
        self.seq = 0
        self.time_ns = 0
        self.increment: int | None = None
        self.counter_value: str | None = None
        self.duplicate_of = 0
        self.batch_id: bytes | None = None
        self.batch_size = 0

    def value(self, name: bytes) -> bytes:
        """Return the value of a header; empty without it."""
        return self.values.get(name, b"")


class Refused(Exception):
    """A check refuses the message; `api` is the answer."""

    def __init__(self, api: ApiError) -> None:
        super().__init__(api.description)
        self.api = api
