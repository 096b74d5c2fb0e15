"""Read one range of a stream's sequences into columns.

It reads on across broken connections and keeps an eye on what disappears meanwhile. Runs in Spark's
workers and knows nothing of Spark.
"""

import logging
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from midge.client.client import Backoff, NatsClient
from midge.client.errors import AuthorizationError, ServerError, StreamNotFoundError
from midge.client.headers import parse_headers
from midge.client.jetstream import DeliveryColumns, JetStreamApi, PullConsumer, StreamSummary
from midge.pipeline.offsets import Loss
from midge.pipeline.spark_source.options import SourceOptions
from midge.pipeline.spark_source.partitions import SequenceRange
from midge.protocol.client_side import ReceivedMessage

BATCH_ROWS = 8_192
BATCH_BYTES = 8 << 20
"""A batch of columns is handed on when it reaches either."""
FIRST_ROWS = 256
"""The first batch has this many rows and each next one twice as many, for a query with a limit."""
_SIZE_HEADER = "Nats-Msg-Size"

_log = logging.getLogger(__name__)


@dataclass
class Columns:
    """Messages as columns, in stream order. `headers` holds raw blocks, empty where none."""

    seqs: list[int] = field(default_factory=list)
    times_ns: list[int] = field(default_factory=list)
    subjects: list[bytes] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    headers: list[bytes] = field(default_factory=list)
    size_bytes: int = 0
    most_rows: int = 0

    def __len__(self) -> int:
        """Count the messages."""
        return len(self.seqs)

    @property
    def is_full(self) -> bool:
        """Whether it is time to hand the batch on."""
        return len(self.seqs) >= self.most_rows or self.size_bytes >= BATCH_BYTES


class RangeReader:
    """Reads `wanted` from the stream that was created at `created`, each message once."""

    def __init__(
        self,
        options: SourceOptions,
        created: str,
        wanted: SequenceRange,
        *,
        with_payloads: bool = True,
    ) -> None:
        """Without payloads the server sends headers alone, and the payloads are empty."""
        self._options = options
        self._created = created
        self._end = wanted.end
        self._cursor = wanted.start
        self._gap: int | None = None
        self._backoff = Backoff(options.connect.request_timeout_s, f"stream {options.stream}")
        self._with_payloads = with_payloads
        self._columns = Columns(most_rows=min(FIRST_ROWS, BATCH_ROWS))

    def batches(self) -> Iterator[Columns]:
        """Yield the range in batches.

        Raises:
            DataLossError: part of it was removed before it was read.
            ServerError: the server cannot be reached, or not again within the request time-out.
            StreamNotFoundError: the stream was deleted.

        """
        while self._cursor < self._end:
            position = self._cursor
            try:
                with NatsClient(self._options.connect) as client:
                    yield from self._read(JetStreamApi(client, self._options.connect.domain))
            except AuthorizationError:
                raise
            except (ServerError, StreamNotFoundError) as error:
                if self._cursor > position:
                    self._backoff.succeeded()
                self._wait_after(error)
        if len(self._columns):
            yield self._take_columns()

    def _wait_after(self, error: ServerError | StreamNotFoundError) -> None:
        """Wait for the server or the stream to come back; raise or warn when it does not.

        Only without `failOnDataLoss` may a stream that the server does not know come back.
        """
        is_deleted = isinstance(error, StreamNotFoundError) and error.code != 0
        if is_deleted and self._options.fail_on_data_loss:
            raise error
        try:
            self._backoff.wait(error)
        except StreamNotFoundError:
            if not is_deleted:
                raise
            self._lose(
                f"stream {self._options.stream} was deleted before messages from {self._cursor} "
                f"to {self._end - 1} were read"
            )
            self._cursor = self._end

    def _read(self, jetstream: JetStreamApi) -> Iterator[Columns]:
        """Read from the cursor to the end over one connection."""
        if not self._is_same_stream(jetstream.stream_state(self._options.stream)):
            self._cursor = self._end
            return
        start: dict[str, Any] = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._cursor,
        }
        if not self._with_payloads:
            start["headers_only"] = True
        stream, filters = self._options.stream, self._options.subjects
        with PullConsumer(jetstream, stream, start, filters) as consumer:
            for messages, deliveries in consumer.chunks(self._end - self._cursor):
                reached_end = self._append(messages, deliveries)
                if self._columns.is_full:
                    self._check_gap(jetstream)
                    yield self._take_columns()
                if reached_end:
                    break
        if self._cursor < self._end and self._gap is None:
            self._gap = self._cursor
        self._check_gap(jetstream)
        self._cursor = self._end

    def _append(self, messages: list[ReceivedMessage], deliveries: DeliveryColumns) -> bool:
        """Take messages into the columns; return True when the range's end is reached."""
        seqs, times_ns = deliveries.seqs, deliveries.times_ns
        if seqs[-1] >= self._end:
            keep = bisect_left(seqs, self._end)
            self._note_gap([*seqs[:keep], self._end])
            seqs, times_ns, messages = seqs[:keep], times_ns[:keep], messages[:keep]
            self._cursor = self._end
        else:
            self._note_gap(seqs)
            self._cursor = seqs[-1] + 1
        columns = self._columns
        columns.seqs += seqs
        columns.times_ns += times_ns
        if messages:
            subjects, _, _, headers, payloads = zip(*messages, strict=True)
            columns.subjects += subjects
            columns.payloads += payloads
            columns.headers += headers
            columns.size_bytes += sum(map(len, payloads)) + sum(map(len, headers))
        return self._cursor >= self._end

    def _note_gap(self, seqs: list[int]) -> None:
        """Remember the first sequence that is missing before or between these."""
        if self._gap is not None or seqs[-1] - self._cursor == len(seqs) - 1:
            return
        for expected, seq in enumerate(seqs, self._cursor):
            if seq != expected:
                self._gap = expected
                return

    def _take_columns(self) -> Columns:
        columns = self._columns
        self._columns = Columns(most_rows=min(2 * columns.most_rows, BATCH_ROWS))
        return columns

    def _is_same_stream(self, state: StreamSummary) -> bool:
        if state.created == self._created:
            return True
        self._lose(
            f"stream {state.name} was recreated at {state.created} before messages from "
            f"{self._cursor} to {self._end - 1} of the one of {self._created} were read"
        )
        return False

    def _check_gap(self, jetstream: JetStreamApi) -> None:
        """Raise if messages were removed while they were being read, and not before.

        Sequences are missing where messages were deleted one by one or do not match the filter.
        But if the stream's first message now lies beyond a gap that we have met since the last
        check, the messages of the gap may have been removed just before we reached it.
        """
        if self._gap is None:
            return
        state = jetstream.stream_state(self._options.stream)
        if self._is_same_stream(state) and state.first_seq > self._gap:
            last = min(state.first_seq, self._end) - 1
            self._lose(
                f"messages {self._gap} to {last} of stream {state.name} were removed (purged, "
                "expired or over a limit) while they were being read"
            )
        self._gap = None

    def _lose(self, text: str) -> None:
        Loss(text).raise_or_warn(fail=self._options.fail_on_data_loss, warn=_log.warning)


def header_pairs(raw: bytes) -> list[tuple[str, list[str]]] | None:
    """Return a header block as the pairs of an Arrow map, or None without headers.

    The size that a server adds when it leaves the payload out is none of the message's headers.
    """
    if not raw:
        return None
    pairs = parse_headers(raw).fields.items()
    return [(name, values) for name, values in pairs if name != _SIZE_HEADER] or None


def microseconds(times_ns: list[int]) -> pa.Array:
    """Return times in nanoseconds as whole microseconds, rounded down."""
    return pc.divide(pa.array(times_ns, pa.int64()), 1000)


def subject_array(subjects: list[bytes]) -> pa.Array:
    r"""Return subjects as text. Bytes that are not UTF-8 appear as `\xNN`."""
    try:
        return pa.array(subjects, pa.string())
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return pa.array([subject.decode(errors="backslashreplace") for subject in subjects])
