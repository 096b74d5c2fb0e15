"""The committer of a real disk: a thread that writes and syncs, and wakes the event loop."""

from __future__ import annotations

import os
from collections.abc import Callable

from midge.jetstream.store.disk import DiskFile, Write
from midge.jetstream.store.file import native
from midge.jetstream.store.real_file import RealFile

native.prepare()


class CommitThread:
    """Hands groups to the thread and their results back to the event loop."""

    def __init__(
        self,
        directory: int,
        add_reader: Callable[[int, Callable[[], None]], object],
        remove_reader: Callable[[int], object],
        done: Callable[[int, int], None],
    ) -> None:
        """Write files of `directory`, a descriptor; see `RealDisk` and `Disk.committer`."""
        self._directory = directory
        self._remove_reader = remove_reader
        self._done = done
        if hasattr(os, "eventfd"):
            self._wake_in = self._wake_out = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self._wake_in, self._wake_out = os.pipe()
            os.set_blocking(self._wake_in, False)
        self._write: Write | None = None  # keeps what the thread writes from being freed
        self._writer = native.start(self._wake_in, self._wake_out)
        add_reader(self._wake_in, self._woken)

    def write(self, write: Write) -> None:
        """Pass a write to the thread, which also syncs it."""
        file = write.file
        assert isinstance(file, RealFile)
        self._write = write
        directory = self._directory if write.with_directory else -1
        native.submit(
            self._writer, file.descriptor, directory, write.data, write.used, write.position,
            write.seal, write.sync, write.is_passing, write.seed, write.segment, write.extend,
            write.zeroed, _taken(write.closing),
        )  # fmt: skip

    def settle(self) -> None:
        """Wait until no write is under way, and hand the result back."""
        native.settle(self._writer)
        self._woken()

    def close(self) -> None:
        """End the thread."""
        self.settle()
        self._remove_reader(self._wake_in)
        native.stop(self._writer)
        os.close(self._wake_in)
        if self._wake_out != self._wake_in:
            os.close(self._wake_out)

    def _woken(self) -> None:
        """Hand a result back, on the event loop."""
        if not native.take(self._writer):
            return
        self._done(native.stage(self._writer), native.error(self._writer))


def _taken(file: DiskFile | None) -> int:
    """Return the descriptor of a file that the thread is to close; -1 for none."""
    if not isinstance(file, RealFile):
        return -1
    descriptor = file.descriptor
    file.descriptor = -1
    return descriptor
