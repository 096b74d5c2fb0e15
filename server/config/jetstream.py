"""The options of JetStream: the server's, what an account may use, and streams that are tables.

Plain data only; `midge.server.config.options` re-exports the names. Zero means "not set" wherever a
docstring says so, since TOML has no null.
"""

import re
from typing import Annotated, Literal

from msgspec import Meta

from midge.server.config.table import EXPECTED, Count, Seconds, Secret, Table

SyncInterval = Annotated[
    str,
    Meta(
        pattern=r"^(always|([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+)$",
        extra={EXPECTED: "'always' or a duration such as '2m'"},
    ),
]
"""`always`, or a duration as Go writes it."""


_DURATION_PART = r"([0-9.]+)(ns|us|µs|ms|s|m|h)"
_UNITS_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9}
_UNITS_NS |= {"m": 60 * 10**9, "h": 3600 * 10**9}


class JetStreamLimits(Table, frozen=True, kw_only=True):
    """Bounds that hold for every stream and consumer of the server."""

    max_ack_pending: Count = 0
    """Most unacknowledged messages of a consumer, and their default; 0 means no limit."""
    max_request_batch: Count = 0
    """Most messages that one pull request may ask for; 0 means no limit."""
    max_ha_assets: Count = 0
    """Accepted for nats-server's sake; midge has no replicated streams."""
    duplicate_window_s: Seconds = 0.0
    """Longest duplicate window of a stream; 0 means no limit."""
    max_batch_inflight_per_stream: Count = 50
    """Most atomic batches that may be open in one stream."""
    max_batch_inflight_total: Count = 1000
    """Most atomic batches that may be open in the server."""
    max_batch_messages: Count = 1000
    """Most messages of an atomic batch."""
    max_batch_timeout_s: Seconds = 10.0
    """Seconds after which an idle atomic batch is abandoned."""


class JetStream(Table, frozen=True, kw_only=True):
    """Streams, consumers, key-value buckets and object stores; off unless `enabled`."""

    enabled: bool = False
    """Offer JetStream to clients."""
    store_dir: str = ""
    """Directory of the file streams; empty means `nats/jetstream` in the system's temporary one."""
    in_memory: bool = False
    """Keep file streams in memory too, for tests; nothing survives the server."""
    ignore_nats_streams: bool = False
    """Start although `store_dir` holds streams of nats-server that midge does not read."""
    domain: str = ""
    """Name by which leaf nodes distinguish this JetStream from another; empty means none."""
    max_memory_bytes: int = -1
    """Most bytes of memory streams; -1 means three quarters of the machine's or container's."""
    max_file_bytes: int = -1
    """Most bytes of file streams; -1 means three quarters of free disk and store together."""
    sync_interval: SyncInterval = "always"
    """`always` acknowledges when the disk has it; a duration syncs that often, as nats-server."""
    encryption_key: Secret = ""
    """Key that file streams are encrypted with, best 32 random bytes or more; empty means none."""
    prev_encryption_key: Secret = ""
    """Key before `encryption_key`, needed for the first start with a new one."""
    cipher: Literal["chacha", "aes"] = "chacha"
    """Cipher of file streams: ChaCha20, or AES-256 where the processor has it."""
    strict: bool = True
    """Refuse unknown fields in API requests."""
    max_buffered_messages: Count = 0
    """Most messages of one stream that wait to be stored; 0 means 400,000."""
    max_buffered_bytes: Count = 0
    """Most bytes of one stream that wait to be stored; 0 means 128 MiB."""
    request_queue_limit: Count = 0
    """Most API requests that may wait; 0 means 10,000."""
    max_concurrent_io: Count = 0
    """Accepted for nats-server's sake; one writer serves all streams here."""
    unique_tag: str = ""
    """Accepted for nats-server's sake; it places replicas, which midge does not have."""
    ack_format: Literal["v1", "v2"] = "v1"
    """Format of the ack and flow control subjects; `v2` is nats-server's `js_ack_fc_v2`."""
    limits: JetStreamLimits = JetStreamLimits()
    """Bounds that hold for every stream and consumer."""

    @property
    def sync_interval_ns(self) -> int:
        """Return the nanoseconds between syncs; 0 for `always`."""
        parts = re.findall(_DURATION_PART, self.sync_interval)
        return round(sum(float(number) * _UNITS_NS[unit] for number, unit in parts))


class AccountJetStream(Table, frozen=True, kw_only=True):
    """Whether an account may use JetStream, and its limits; negative means unlimited."""

    enabled: bool = False
    """Offer JetStream to the account; without accounts, `$G` has it."""
    max_memory_bytes: int = -1
    """Most bytes of the account's memory streams."""
    max_file_bytes: int = -1
    """Most bytes of the account's file streams."""
    max_streams: int = -1
    """Most streams of the account."""
    max_consumers: int = -1
    """Most consumers of a stream of the account."""
    max_ack_pending: int = -1
    """Most unacknowledged messages of a consumer of the account."""
    memory_max_stream_bytes: int = -1
    """Largest `max_bytes` of a memory stream."""
    file_max_stream_bytes: int = -1
    """Largest `max_bytes` of a file stream."""
    max_bytes_required: bool = False
    """Refuse streams without `max_bytes`."""


TableName = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$", extra={EXPECTED: "letters, digits, _ and -, up to 64"}),
]
ColumnKind = Annotated[
    str,
    Meta(
        pattern=(
            r"^((string|int64|double|boolean|timestamp|json)\??|payload|headers|date|operation"
            r"|token\([1-9][0-9]?\)|header\([!-9;-~]+\))$"
        ),
        extra={EXPECTED: "a kind such as 'int64', 'token(2)' or 'header(Trace)'"},
    ),
]


class StreamTable(Table, frozen=True, kw_only=True):
    """A stream whose messages a process of the server puts into a Delta table."""

    name: TableName
    """Name in metrics and logs."""
    stream: str
    """The stream."""
    url: str
    """Directory or object store's URL of the table; made where there is none."""
    account: str = ""
    """Account of the stream; empty means `$G`."""
    subject: str = ""
    """Only messages that match; several patterns with commas between; empty means all."""
    columns: dict[str, ColumnKind] = {}  # noqa: RUF012 - msgspec copies the default
    """Columns by name, with their kinds; without any and without `infer`, raw payloads."""
    infer: bool = False
    """Make a column of each further key of the payloads, as it comes."""
    partition_by: tuple[str, ...] = ()
    """Columns of the kinds `date` and `token(N)` that partition the files."""
    every_s: Annotated[float, Meta(ge=0.05)] = 60.0
    """Seconds between two commits."""
    compact_commits: Count = 60
    """Commits after which small files are joined; 0 means never."""
    keep_hours: Annotated[float, Meta(ge=0)] = 168.0
    """Hours that compaction keeps the files of earlier versions for their readers."""
