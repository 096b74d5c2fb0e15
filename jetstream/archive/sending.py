"""Sending a snapshot: chunks to a subject, within a window of unacknowledged ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from midge.jetstream.archive.snapshot import Snapshot, SnapshotError
from midge.jetstream.archive.work import ACK_PREFIX, SENDING_BYTES, WaitTurn
from midge.jetstream.json.encode import text

if TYPE_CHECKING:
    from midge.jetstream.environment.clock import Timer
    from midge.jetstream.stream.stream import Stream

CHUNK_BYTES = 128 << 10
WINDOW_BYTES = 8 << 20
_CHUNK_LIMITS = (1 << 10, 1 << 20)
_WINDOW_LIMITS = (1 << 10, 32 << 20)
_PATIENCE_S = 5.0
"""How long to wait for an acknowledgement, as nats-server does."""

_INTEREST_PATIENCE_S = 2.0
"""How long to wait for a subscriber, as nats-server does."""

_DONE = b"NATS/1.0 204\r\n\r\n"
_NO_INTEREST = b"NATS/1.0 408 No Interest\r\n\r\n"
_NO_FLOW = b"NATS/1.0 408 No Flow Response\r\n\r\n"


def in_flight(chunk_bytes: int, window_bytes: int) -> tuple[int, int]:
    """Return the size of a chunk, and how many may wait for their acknowledgement."""
    chunk = min(max(chunk_bytes or CHUNK_BYTES, _CHUNK_LIMITS[0]), _CHUNK_LIMITS[1])
    window = min(max(window_bytes or WINDOW_BYTES, _WINDOW_LIMITS[0]), _WINDOW_LIMITS[1])
    return chunk, max(window, chunk) // chunk


class Sending:
    """The sending of one snapshot to `to`.

    `wait_turn` schedules work for one of the next turns, and `ended` is called once with the id.
    """

    def __init__(
        self,
        stream: Stream,
        snapshot: Snapshot,
        to: bytes,
        limits: tuple[int, int],
        wait_turn: WaitTurn,
        ended: Callable[[bytes], object],
    ) -> None:
        around = stream.surroundings
        self.stream = stream
        self.id = around.new_id().encode()
        self._wait_turn = wait_turn
        self._ended = ended
        self._is_over = False
        self.snapshot = snapshot
        snapshot.go_on = self._go_on
        self.client: dict[str, Any] = {}
        self._to = to
        self._chunk_bytes, self._slots = limits
        self._sink = around.sink
        self._clock = around.clock
        self._ack_subject = b"%b%b.%b" % (ACK_PREFIX, stream.name, self.id)
        self._buffer = bytearray()
        self._sent = 0
        self._begun_ns = self._clock.wall_ns()
        self._had_interest = False
        self._is_waiting = False
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin as soon as someone listens."""
        self._had_interest = self._sink.has_interest(self._to)
        if self._had_interest:
            self._go_on()
        else:
            self._timer = self._clock.call_later(_INTEREST_PATIENCE_S, self._start_late)

    def _start_late(self) -> None:
        self._timer = None
        self._had_interest = self._sink.has_interest(self._to)
        self._go_on()

    def acknowledged(self) -> None:
        """Count an acknowledged chunk, and send the next ones."""
        self._slots += 1
        self._go_on()

    def fail(self, error: str) -> None:
        """End the snapshot with an error."""
        self._end(b"NATS/1.0 500 %b\r\n\r\n" % error.encode("utf-8", "replace"), error)

    def stop(self) -> None:
        """End without a word, as when the server stops."""
        if not self._is_over:
            self._finish()

    def _go_on(self) -> None:
        """Wait for a turn, if there is room for a chunk."""
        if self._slots > 0 and not self._is_waiting and not self._is_over:
            self._is_waiting = True
            self._wait_turn(self._work, SENDING_BYTES)

    def _work(self, budget: int) -> int:
        """Write and send for about `budget` bytes of work; return what that took."""
        self._is_waiting = False
        if self._is_over:
            return 0
        if self._had_interest and not self._sink.has_interest(self._to):
            self._end(_NO_INTEREST, "no interest")
            return 0
        spent = 0
        while spent < budget and self._slots > 0:
            if len(self._buffer) >= self._chunk_bytes:
                self._send(self._chunk_bytes)
                continue
            if self.snapshot.is_done():
                self._send_rest()
                return spent
            try:
                spent += self.snapshot.produce(min(budget - spent, self._chunk_bytes))
            except SnapshotError as error:
                self.fail(str(error))
                return spent
            self._buffer += self.snapshot.output.take()
            if self.snapshot.is_waiting:
                return spent
        if self._slots > 0:
            self._go_on()
        return spent

    def _send(self, size: int) -> None:
        """Send a chunk that is to be acknowledged."""
        self._slots -= 1
        self._sent += 1
        chunk = bytes(self._buffer[:size])
        del self._buffer[:size]
        reply = b"%b.%d.%d" % (self._ack_subject, size, self._sent)
        self._sink.send(self._to, reply, b"", chunk)
        self._cancel()
        self._timer = self._clock.call_later(_PATIENCE_S, self._overdue)

    def _send_rest(self) -> None:
        """Send the last chunk, which is shorter and is not acknowledged, and the end."""
        if self._buffer:
            self._sink.send(self._to, b"", b"", bytes(self._buffer))
        self._end(_DONE if self._sent else b"", "")

    def _overdue(self) -> None:
        """End the transfer when nothing was acknowledged for too long."""
        self._timer = None
        if self._slots <= 0:
            self._end(_NO_FLOW, "no flow response")

    def _end(self, block: bytes, error: str) -> None:
        if self._is_over:
            return
        self._finish()
        self._sink.send(self._to, b"", block, b"")
        self.stream.events.snapshot_complete(self._begun_ns, error, self.client)

    def _finish(self) -> None:
        self._is_over = True
        self._ended(self.id)
        self.snapshot.close()
        self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def __repr__(self) -> str:
        """Show which stream goes where."""
        return f"Sending({text(self.stream.name)} to {text(self._to)})"
