"""The recorder: an observer that collects rows on the loop and passes them to the writer.

Nothing here waits for the disk. When the writer cannot keep up, rows are dropped and counted.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from midge.server.auth.pattern_set import PatternSet
from midge.server.clients.observer import Observer
from midge.server.errors import ConfigError
from midge.server.log.logger import get_logger
from midge.server.recorder.message_rows import MessageRows
from midge.server.recorder.tap import BARE, HOUR_US, SKIPPED, WHOLE, MessageTap
from midge.sublist.subjects import is_valid_subject

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.broker.broker import Broker
    from midge.server.clients.connection import Connection
    from midge.server.clock import Timer
    from midge.server.config.options import Recorder as RecorderOptions
    from midge.server.routing.subscription import RoutedSubscription

log = get_logger()

_RUNS_AT_A_TIME = 65536
_ROWS_AT_A_TIME = 262144
"""Message rows per batch for the writer: many, so that it seldom takes the GIL from the loop."""
_QUEUED_BYTES_MAX = 256 * 1024 * 1024  # most bytes of payloads and other texts in the queue
_EVENTS_AT_A_TIME = 4096
_STOP_S_MIN = 5.0  # least time to stop; longer than for output, as process managers allow 10 s

_INTEREST_EVENTS = {
    "unsubscribed": "unsub",
    "auto_unsubscribed": "auto_unsub",
    "disconnected": "disconnect",
}


class RecorderCounts(NamedTuple):
    """Counts of rows, failures and files."""

    written: int
    """Rows in visible segments."""
    dropped: int
    """Rows dropped because the writer was too far behind."""
    lost: int
    """Rows that could not be written."""
    errors: int
    segments: int


class TrafficRecorder(Observer):
    """Records a broker's routed messages, subscriptions and clients, from `start` to `stop`."""

    def __init__(self, broker: Broker, worker: int | None = None) -> None:
        """Take the options from `broker`; `worker` is the process's number among several.

        Raises:
            ConfigError: pyarrow is not installed, or a pattern is not a subject.
        """
        try:
            from midge.server.recorder.segment_writer import SegmentWriter  # noqa: PLC0415 - needs pyarrow
        except ModuleNotFoundError as error:
            from midge.extras import install_command  # noqa: PLC0415 - only for this message

            raise ConfigError(
                f"recording needs the module '{error.name}'; {install_command('recorder')}",
                key="recorder.directory",
            ) from None
        options = broker.options.recorder
        self._broker = broker
        self._options = options
        self._server = broker.options.server_name or broker.keys.server_id
        self._writer = SegmentWriter(options, self._server, worker)
        self._handed = 0
        self._handed_bytes = 0
        self._events_dropped = 0
        self._logged_drops = 0
        self._events: dict[str, list[tuple[Any, ...]]] = {"interest": [], "clients": []}
        self._events_hour = 0
        self._capacity = max(1, min(_RUNS_AT_A_TIME, options.queue_max // 2))
        self._count_max = max(self._capacity, min(_ROWS_AT_A_TIME, options.queue_max // 4))
        self._tap = MessageTap(
            broker.router,
            self._empty_rows(),
            self._exchange,
            chooser_of(options),
            broker.clock.wall,
        )
        self._timer: Timer | None = None

    def start(self) -> None:
        """Start to record.

        Raises:
            ConfigError: the directory cannot be made or written to.
        """
        try:
            self._writer.start()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ConfigError(
                f"cannot record into {error.filename or self._options.directory}: {reason}",
                key="recorder.directory",
            ) from None
        self._broker.observers.append(self)
        self._broker.watch_messages(self._tap)
        self._timer = self._broker.clock.call_later(self._options.roll_age_s, self._roll)
        log.info("recorder_started", directory=self._options.directory)

    async def stop(self) -> None:
        """Write the collected rows, within the time limit of a shutdown."""
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        self._broker.observers.remove(self)
        self._broker.unwatch_messages(self._tap)
        self._writer.end()  # its thread, of low priority, takes none of the last rows
        self._hand_over_events()
        self._writer.put(self._tap.rows)
        timeout_s = max(_STOP_S_MIN, self._broker.options.shutdown.flush_timeout_s)
        done = await asyncio.to_thread(self._writer.stop, timeout_s)
        counts = self.counts()._asdict()
        if done:
            log.info("recorder_stopped", **counts)
        else:
            log.error("recorder_abandoned", timeout_s=timeout_s, **counts)

    def counts(self) -> RecorderCounts:
        """Count rows, failures and files."""
        writer = self._writer
        return RecorderCounts(
            writer.written,
            self._tap.dropped + self._events_dropped,
            writer.lost,
            writer.errors,
            writer.segments,
        )

    # Called by the broker.

    def client_connected(self, connection: Connection) -> None:
        """Record an admitted client."""
        self._note_client(connection, "connect", None)

    def client_closed(self, connection: Connection) -> None:
        """Record a client's disconnect and its reason."""
        reason = connection.reason
        self._note_client(connection, "disconnect", reason.value if reason else "")

    def subscribed(self, connection: Connection, subscription: RoutedSubscription) -> None:
        """Record a new subscription."""
        self._note_interest(connection, subscription, "sub")

    def unsubscribed(
        self, connection: Connection, subscription: RoutedSubscription, cause: str
    ) -> None:
        """Record the end of a subscription."""
        self._note_interest(connection, subscription, _INTEREST_EVENTS[cause])

    def _note_client(self, connection: Connection, event: str, reason: str | None) -> None:
        options = connection.options
        row = (
            connection.cid,
            event,
            options.name or None,
            options.lang or None,
            options.version or None,
            connection.peer_host,
            connection.peer_port,
            reason,
            connection.in_messages,
            connection.out_messages,
            connection.in_bytes,
            connection.out_bytes,
        )
        self._note("clients", connection, row)

    def _note_interest(
        self, connection: Connection, subscription: RoutedSubscription, event: str
    ) -> None:
        queue = subscription.queue
        row = (
            connection.cid,
            _text(subscription.sid),
            event,
            _text(subscription.subject),
            None if queue is None else _text(queue),
            subscription.delivered,
            connection.options.name or None,
        )
        self._note("interest", connection, row)

    def _note(self, data_set: str, connection: Connection, row: tuple[Any, ...]) -> None:
        """Record an event; the rows of one batch belong to one hour."""
        time_us = int(self._broker.clock.wall() * 1e6)
        if time_us // HOUR_US != self._events_hour:
            self._hand_over_events()
            self._events_hour = time_us // HOUR_US
        rows = self._events[data_set]
        rows.append((time_us, self._server, connection.account.name, *row))
        if len(rows) >= _EVENTS_AT_A_TIME:
            self._hand_over_events()

    # Batches for the writer.

    def _exchange(self, full: MessageRows) -> MessageRows | None:
        """Queue `full` and return empty rows, or None while too many rows wait."""
        writer = self._writer
        waiting = self._handed - writer.taken
        if (
            waiting + full.count + self._count_max > max(self._options.queue_max, self._count_max)
            and waiting
        ) or self._handed_bytes - writer.taken_bytes > _QUEUED_BYTES_MAX:
            return None
        self._handed += full.count
        self._handed_bytes += full.bytes
        writer.put(full)
        return writer.free.pop() if writer.free else self._empty_rows()

    def _empty_rows(self) -> MessageRows:
        return MessageRows(self._capacity, self._count_max)

    def _hand_over_events(self) -> None:
        waiting = self._handed - self._writer.taken
        for data_set, rows in self._events.items():
            if not rows:
                continue
            if waiting + len(rows) > self._options.queue_max + _EVENTS_AT_A_TIME:
                self._events_dropped += len(rows)
            else:
                self._writer.put((data_set, self._events_hour, rows))
            self._events[data_set] = []

    def _hand_over_all(self) -> None:
        if self._tap.rows.count:
            self._tap.swap()
        self._hand_over_events()

    def _roll(self) -> None:
        """Make all rows so far visible."""
        self._timer = self._broker.clock.call_later(self._options.roll_age_s, self._roll)
        self._hand_over_all()
        self._writer.put("roll")
        counts = self.counts()
        if counts.dropped > self._logged_drops:
            log.warning("records_dropped", rows=counts.dropped - self._logged_drops)
            self._logged_drops = counts.dropped


def chooser_of(options: RecorderOptions) -> Callable[[bytes], int] | None:
    """Return the function that decides how to record a subject's messages; None to record all.

    Raises:
        ConfigError: a pattern is not a subject.
    """
    if not (
        options.subjects_allow
        or options.subjects_deny
        or options.payload_allow
        or options.payload_deny
    ):
        return None
    recorded = _filter("subjects", options.subjects_allow, options.subjects_deny)
    kept = _filter("payload", options.payload_allow, options.payload_deny)

    def choose(subject: bytes) -> int:
        if not recorded(subject):
            return SKIPPED
        return WHOLE if kept(subject) else BARE

    return choose


def _filter(name: str, allow: tuple[str, ...], deny: tuple[str, ...]) -> Callable[[bytes], bool]:
    """Return the filter of subjects; without allow patterns it allows all."""
    allowed = _patterns(f"{name}_allow", allow)
    denied = _patterns(f"{name}_deny", deny)
    return lambda subject: (not allowed or allowed.matches(subject)) and not denied.matches(subject)


def _patterns(name: str, texts: tuple[str, ...]) -> PatternSet:
    for text in texts:
        if not is_valid_subject(text.encode()):
            raise ConfigError(f"expected a subject pattern, got {text!r}", key=f"recorder.{name}")
    return PatternSet((text.encode(), None) for text in texts)


def _text(raw: bytes) -> str:
    return raw.decode(errors="backslashreplace")
