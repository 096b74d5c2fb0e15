"""Receiving an archive: chunks, each acknowledged when what it holds is stored."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from midge.jetstream import errors
from midge.jetstream.archive.entries import ArchiveError
from midge.jetstream.archive.restore import Unpacker
from midge.jetstream.archive.restored import RestoredStream
from midge.jetstream.archive.s2 import S2Error
from midge.jetstream.archive.work import RECEIVING_BYTES, RESTORE_PREFIX, WaitTurn
from midge.jetstream.errors import ApiError, JetStreamError
from midge.jetstream.json import type_names
from midge.jetstream.json.encode import encode
from midge.jetstream.store.interface import StoreError
from midge.jetstream.stream import answers, details

if TYPE_CHECKING:
    from midge.jetstream.environment.clock import Timer
    from midge.jetstream.environment.surroundings import Surroundings
    from midge.jetstream.stream.stream import Stream

_ANSWER = f"{type_names.API}stream_create_response"
_PATIENCE_S = 5.0
"""How long the next chunk may take, as nats-server has it."""

_PROGRESS_S = 60.0
_PROGRESS_BYTES = 64 << 10
"""So much must come in this time, or all: a slower sender would occupy its place for ever."""

_ERROR_MAX_CHARS = 500

_WAITING_MAX_BYTES = 32 << 20
"""Most that may wait to be stored, from a sender that does not wait for acknowledgements."""


class Receiving:
    """One archive that comes in; its chunks go to `subject`.

    `make` makes a stream of the restored data and may raise JetStreamError; `drop` deletes the
    data. `wait_turn` has work done in one of the next turns, and `ended` is called once with the
    id.
    """

    def __init__(
        self,
        around: Surroundings,
        restored: RestoredStream,
        make: Callable[[RestoredStream], Stream],
        drop: Callable[[RestoredStream], object],
        wait_turn: WaitTurn,
        ended: Callable[[bytes], object],
    ) -> None:
        self.restored = restored
        self.client: dict[str, Any] = {}
        self.id = around.new_id().encode()
        name = restored.config.name
        self.name = name.encode("utf-8", "surrogateescape")
        self.subject = b"%b%b.%b" % (RESTORE_PREFIX, self.name, self.id)
        self._around = around
        self._make_stream = make
        self._drop_restored = drop
        self._wait_turn = wait_turn
        self._ended = ended
        self._is_over = False
        self._unpacker = Unpacker(restored)
        self._chunks: deque[tuple[bytes, bytes]] = deque()
        self._waiting_bytes = 0
        self._total_bytes = 0
        self._begun_ns = self._around.clock.wall_ns()
        self._is_waiting = False
        self._is_fed = False
        self._timer: Timer | None = None
        self._arrived_bytes = 0
        self._progress_timer = self._around.clock.call_later(_PROGRESS_S, self._check_progress)
        self._watch()

    def chunk(self, reply: bytes, data: bytes) -> None:
        """Take a chunk; an empty one is the end."""
        if not reply:
            self._drop()  # no client waits for an answer
            return
        self._watch()
        self._chunks.append((reply, data))
        self._waiting_bytes += len(data)
        self._arrived_bytes += len(data)
        if self._waiting_bytes > _WAITING_MAX_BYTES:
            problem = "too much is under way without acknowledgement"
            self._fail(reply, errors.STREAM_RESTORE.fill(err=problem))
        elif not self._is_waiting:
            self._wait()

    def stop(self) -> None:
        """Drop the partial restore, because the server stops."""
        self._drop()

    def _wait(self) -> None:
        self._is_waiting = True
        self._wait_turn(self._work, RECEIVING_BYTES)

    def _work(self, budget: int) -> int:
        """Store for about `budget` bytes of work; return what that took."""
        self._is_waiting = False
        spent = 0
        while self._chunks and not self._is_over and spent < budget:
            reply, data = self._chunks[0]
            try:
                spent += self._store(reply, data, budget - spent)
            except (ArchiveError, S2Error, StoreError) as error:
                self._fail(reply, errors.STREAM_RESTORE.fill(err=error))
            except Exception as error:  # noqa: BLE001 - a sender must not stop the server's loop
                text = f"internal error: {type(error).__name__}: {error}"
                self._fail(reply, errors.STREAM_RESTORE.fill(err=text[:_ERROR_MAX_CHARS]))
        if self._chunks and not self._is_over:
            self._wait()
        return spent

    def _store(self, reply: bytes, data: bytes, budget: int) -> int:
        """Work on the first chunk, which goes when all that it completes is stored."""
        if not self._is_fed:
            self._is_fed = True
            if data:
                self._unpacker.feed(data)
            else:
                self._unpacker.end()
        spent = self._unpacker.work(budget)
        if spent < budget:
            self._is_fed = False
            self._chunks.popleft()
            if not data:
                self._finish(reply)
                return spent
            self._waiting_bytes -= len(data)
            self._total_bytes += len(data)
            self.restored.store.barrier(lambda: self._around.sink.send(reply, b"", b"", b""))
            self._watch()
        return spent

    def _finish(self, reply: bytes) -> None:
        """Make the stream, and answer when it is durable."""
        try:
            self._unpacker.finish()
            stream = self._make_stream(self.restored)
        except JetStreamError as error:
            self._fail(reply, _refused(error.api))
            return
        except (ArchiveError, StoreError) as error:
            self._fail(reply, errors.STREAM_RESTORE.fill(err=error))
            return
        self._forget()
        self._answer_complete()
        info = details.info(
            stream, config=stream.config.versioned_fields(), shown_state=details.state(stream)
        )
        answer = encode({"type": _ANSWER, **info})
        stream.store.barrier(lambda: self._around.sink.send(reply, b"", b"", answer))

    def _fail(self, reply: bytes, error: ApiError) -> None:
        """Drop the partial restore, and send the reason."""
        self._drop()
        self._answer_complete()
        answer = encode({"type": _ANSWER, "error": error.fields()})
        self._around.sink.send(reply, b"", b"", answer)

    def _answer_complete(self) -> None:
        answers.advise_restore_complete(
            self._around, self.name, self._begun_ns, self._total_bytes, self.client
        )

    def _stalled(self) -> None:
        self._timer = None
        if not self._chunks:
            self._drop()

    def _check_progress(self) -> None:
        """End a transfer of which hardly anything has come."""
        if self._arrived_bytes < _PROGRESS_BYTES and not self._chunks:
            self._drop()
            return
        self._arrived_bytes = 0
        self._progress_timer = self._around.clock.call_later(_PROGRESS_S, self._check_progress)

    def _drop(self) -> None:
        """Forget the transfer and what it stored."""
        self._forget()
        self._drop_restored(self.restored)

    def _forget(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._ended(self.id)
        self._chunks.clear()
        self._progress_timer.cancel()
        self._cancel()

    def _watch(self) -> None:
        """Restart the time-out of the transfer."""
        self._cancel()
        self._timer = self._around.clock.call_later(_PATIENCE_S, self._stalled)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _refused(error: ApiError) -> ApiError:
    """Return how nats-server says that there can be no such stream."""
    if error is errors.STREAM_NAME_EXIST_RESTORE_FAILED:
        return error
    said = f"error adding stream: {error.description} ({error.err_code})"
    return errors.STREAM_RESTORE.fill(err=said)
