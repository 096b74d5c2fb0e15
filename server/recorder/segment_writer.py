"""The writer's thread: take rows from a queue, write segments, and survive a failing disk."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from midge.server.log.logger import get_logger
from midge.server.recorder.arrays import WRITTEN_MESSAGES, messages_table, rows_table
from midge.server.recorder.message_rows import MessageRows
from midge.server.recorder.schemas import SCHEMAS
from midge.server.recorder.segments import Numbering, RecordingSegment, retain

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.config.options import Recorder as RecorderOptions

log = get_logger()

_LOG_INTERVAL_S = 10.0
_RETRY_S = 1.0
_NICENESS = 10

ROLL, STOP = "roll", "stop"


class SegmentWriter:
    """Writes the rows passed to `put`, in its own thread, from `start` to `stop`.

    Only the thread changes the counts: `written` and `lost` count rows, `taken` message rows that
    have left the queue, written or lost, `errors` failures, `segments` visible files.
    """

    def __init__(self, options: RecorderOptions, server: str, worker: int | None = None) -> None:
        self.free: list[MessageRows] = []
        self.taken = 0
        self.taken_bytes = 0
        self.written = 0
        self.lost = 0
        self.errors = 0
        self.segments = 0
        self._options = options
        self._server = server
        self._worker = worker
        self._root = Path(options.directory)
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._open: dict[str, RecordingSegment] = {}
        self._is_ending = False
        self._retry_at = 0.0
        self._logged_at = -_LOG_INTERVAL_S
        self._unlogged = 0
        self._thread = threading.Thread(target=self._run, name="midge-recorder", daemon=True)

    def start(self) -> None:
        """Make the directory and start.

        Raises:
            OSError: the directory cannot be made or written to.
        """
        for name in SCHEMAS:
            (self._root / name).mkdir(parents=True, exist_ok=True)
        self._numbering = Numbering(self._root, self._server, self._worker)
        self._retain()
        self._thread.start()

    def put(self, item: MessageRows | tuple[str, int, list[tuple[Any, ...]]] | str) -> None:
        """Queue message rows, `(data set, hour, rows)`, `ROLL` or `STOP`."""
        self._queue.put(item)

    def end(self) -> None:
        """End the thread after its present item: all later ones are for `stop`."""
        self._is_ending = True
        self._queue.put(STOP)

    def stop(self, timeout_s: float) -> bool:
        """Write the queued rows and stop; False when that takes longer than `timeout_s`."""
        self.end()
        last = threading.Thread(target=self._finish, name="midge-recorder-end", daemon=True)
        last.start()
        last.join(timeout_s)
        return not last.is_alive()

    def _run(self) -> None:
        _yield_to_the_loop()
        while not self._is_ending:
            self._take(self._queue.get())

    def _finish(self) -> None:
        """Write the rest in a thread of normal priority, because a busy machine starves others."""
        self._thread.join()
        while not self._queue.empty():
            self._take(self._queue.get())
        self._roll_all()

    def _take(self, item: MessageRows | tuple[str, int, list[tuple[Any, ...]]] | str) -> None:
        """Handle an item of the queue; STOP only ends the waiting for items."""
        if isinstance(item, MessageRows):
            self._take_messages(item)
        elif isinstance(item, tuple):
            self._take_events(*item)
        elif item == ROLL:
            self._roll_all()

    def _take_events(self, data_set: str, hour: int, rows: list[tuple[Any, ...]]) -> None:
        schema = SCHEMAS[data_set]
        self._write(data_set, schema, hour, len(rows), lambda: rows_table(rows, schema))

    def _take_messages(self, rows: MessageRows) -> None:
        count, size = rows.count, rows.bytes
        if not count:
            return
        self._write(
            "messages",
            WRITTEN_MESSAGES,
            rows.hour,
            count,
            lambda: messages_table(rows, self._server),
        )
        rows.clear()
        self.free.append(rows)
        self.taken += count
        self.taken_bytes += size

    def _write(
        self, data_set: str, schema: pa.Schema, hour: int, count: int, table: Callable[[], pa.Table]
    ) -> None:
        """Append rows to their data set's segment, or count them as lost."""
        if time.monotonic() < self._retry_at:
            self.lost += count
            return
        segment = self._open.get(data_set)
        if segment is not None and segment.hour != hour:
            self._roll(data_set)
            segment = None
        try:
            if segment is None:
                segment = RecordingSegment(self._numbering.path(data_set, hour), schema, hour)
                self._open[data_set] = segment
            size = segment.write(table())
        except Exception as error:  # noqa: BLE001 - no failure may end the recorder
            self.lost += count
            self._fail(data_set, error)
            return
        if size >= self._options.roll_size_bytes:
            self._roll(data_set)

    def _roll_all(self) -> None:
        for data_set in list(self._open):
            self._roll(data_set)
        self._retain()

    def _roll(self, data_set: str) -> None:
        """Make the open segment visible."""
        segment = self._open[data_set]
        try:
            segment.finish()
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(data_set, error)
            return
        del self._open[data_set]
        self.written += segment.rows
        self.segments += 1

    def _retain(self) -> None:
        if self._worker:
            return  # the first worker deletes old segments for all
        try:
            retain(self._root, self._options.retention_age_s, self._options.retention_bytes)
        except OSError as error:
            self._note(error)

    def _fail(self, data_set: str, error: Exception) -> None:
        """Abandon the open segment; writing is retried after a while."""
        segment = self._open.pop(data_set, None)
        if segment is not None:
            self.lost += segment.rows
            segment.abandon()
        self._retry_at = time.monotonic() + _RETRY_S
        self._note(error)

    def _note(self, error: Exception) -> None:
        """Count a failure; log it at a limited rate."""
        self.errors += 1
        now = time.monotonic()
        if now - self._logged_at < _LOG_INTERVAL_S:
            self._unlogged += 1
            return
        log.error(
            "recording_failed",
            directory=str(self._root),
            error=str(error) or type(error).__name__,
            rows_lost=self.lost,
            suppressed=self._unlogged,
        )
        self._logged_at = now
        self._unlogged = 0


def _yield_to_the_loop() -> None:
    """Lower this thread's priority, because dropping rows is better than slowing traffic.

    Only Linux has a priority per thread.
    """
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
