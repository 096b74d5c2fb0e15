"""The snapshots that an account sends, and the archives that it receives.

The modules that read and write archives are imported with the first transfer: they are a tenth of
what a start with JetStream imports.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import TYPE_CHECKING, Any

from midge.jetstream import errors
from midge.jetstream.archive.work import ACK_PREFIX, RESTORE_PREFIX, WaitTurn, Work
from midge.jetstream.stream import answers

if TYPE_CHECKING:
    from midge.jetstream.archive.receiving import Receiving
    from midge.jetstream.archive.restored import RestoredStream
    from midge.jetstream.archive.sending import Sending
    from midge.jetstream.config.stream import StreamConfig
    from midge.jetstream.environment.surroundings import Surroundings
    from midge.jetstream.stream.stream import Stream

PREFIX = b"$JS.SNAPSHOT."
UNDER_WAY_MAX = 64
"""Most snapshots, and most restores, of one account at once: each may hold some 16 MiB."""


class Transfers:
    """The snapshots and restores under way in one account, by the id in their subjects.

    `begin` returns an empty stream to be filled, `make` and `drop` end its restore. `wait_turn` has
    work done in one of the next turns of the loop.
    """

    def __init__(
        self,
        around: Surroundings,
        begin: Callable[[StreamConfig], RestoredStream],
        make: Callable[[RestoredStream], Stream],
        drop: Callable[[RestoredStream], object],
    ) -> None:
        self._around = around
        self._begin = begin
        self._make = make
        self._drop = drop
        self.sending: dict[bytes, Sending] = {}
        self.receiving: dict[bytes, Receiving] = {}
        self.wait_turn: WaitTurn = self._work_at_once

    def send(
        self, stream: Stream, to: bytes, chunk_bytes: int, window_bytes: int, *, consumers: bool
    ) -> Sending:
        """Take a snapshot of a stream; `Sending.start` begins to send it.

        Raises:
            JetStreamError: too many are under way.
        """
        from midge.jetstream.archive.sending import Sending, in_flight  # noqa: PLC0415 - see above
        from midge.jetstream.archive.snapshot import Snapshot  # noqa: PLC0415

        _check_room(self.sending)
        snapshot = Snapshot(stream, with_consumers=consumers)
        limits = in_flight(chunk_bytes, window_bytes)
        sending = Sending(stream, snapshot, to, limits, self._wait, self.sending.pop)
        self.sending[sending.id] = sending
        return sending

    def receive(self, config: StreamConfig, client: dict[str, Any]) -> Receiving:
        """Receive an archive, and make a stream of it; its chunks arrive at its `subject`.

        `client` describes the sender.

        Raises:
            JetStreamError: too many restores are in progress.
        """
        from midge.jetstream.archive.receiving import Receiving  # noqa: PLC0415

        _check_room(self.receiving)
        restored = self._begin(config)
        receiving = Receiving(
            self._around, restored, self._make, self._drop, self._wait, self.receiving.pop
        )
        self.receiving[receiving.id] = receiving
        receiving.client = client
        answers.advise_restore_create(self._around, receiving.name, client)
        return receiving

    def configs(self) -> list[StreamConfig]:
        """Return the configurations of the streams that are being restored."""
        return [receiving.restored.config for receiving in self.receiving.values()]

    def take(self, subject: bytes, reply: bytes, payload: bytes) -> bool:
        """Take a message to a subject below `PREFIX`; False if the transfer does not exist."""
        tokens = subject.split(b".")
        if len(tokens) == 5 and subject.startswith(RESTORE_PREFIX):
            receiving = self.receiving.get(tokens[4])
            if receiving is not None and receiving.subject == subject:
                receiving.chunk(reply, payload)
                return True
        elif len(tokens) > 5 and subject.startswith(ACK_PREFIX):
            sending = self.sending.get(tokens[4])
            if sending is not None and sending.stream.name == tokens[3]:
                sending.acknowledged()
                return True
        return False

    def stream_removed(self, stream: Stream) -> None:
        """End the snapshots of a stream that is being deleted."""
        for sending in [one for one in self.sending.values() if one.stream is stream]:
            sending.fail("the stream was deleted meanwhile")

    def stop(self) -> None:
        """End everything."""
        for sending in list(self.sending.values()):
            sending.stop()
        for receiving in list(self.receiving.values()):
            receiving.stop()

    def _wait(self, work: Work, most: int) -> None:
        self.wait_turn(work, most)

    def _work_at_once(self, work: Work, most: int) -> None:
        self._around.clock.call_later(0, work, most)


def _check_room(under_way: Sized) -> None:
    if len(under_way) >= UNDER_WAY_MAX:
        raise errors.INSUFFICIENT_RESOURCES.error()
