"""The committer of a real disk: a thread that writes and syncs, and wakes the event loop.

Where it can, the kernel writes small groups without the thread (``direct.h``).
"""

from __future__ import annotations

import os
from collections.abc import Callable

from midge.jetstream.store.disk import DiskFile, Write
from midge.jetstream.store.file import native
from midge.jetstream.store.real_file import RealFile

native.prepare()


class CommitThread:
    """Hands groups to the thread and their results back to the event loop.

    `direct_writes` counts those that the kernel wrote without the thread.
    """

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
        self.direct_writes = 0
        if hasattr(os, "eventfd"):
            self._wake_in = self._wake_out = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self._wake_in, self._wake_out = os.pipe()
            os.set_blocking(self._wake_in, False)
        self._write: Write | None = None  # keeps what the thread writes from being freed
        self._segment: DiskFile | None = None  # the last one with a group
        self._writer = native.start(self._wake_in, self._wake_out)
        add_reader(self._wake_in, self._woken)

    def write(self, write: Write) -> None:
        """Pass a write to the kernel, or to the thread, which also syncs it."""
        file = write.file
        assert isinstance(file, RealFile)
        self._write = write
        if write.seal and file is not self._segment:
            self._segment = file
            native.use_direct(self._writer, file.open_direct())
        if write.is_overwriting and native.write_direct(
            self._writer, file.descriptor, write.data, write.used, write.position, write.seed,
            write.segment,
        ):  # fmt: skip
            self.direct_writes += 1
            return
        directory = self._directory if write.with_directory else -1
        native.submit(
            self._writer, file.descriptor, directory, write.data, write.used, write.position,
            write.seal, write.sync, write.is_passing, write.seed, write.segment, write.extend,
            write.zeroed, write.warm_start, write.warm_end,
        )  # fmt: skip

    def drop_file(self, file: DiskFile) -> None:
        """Drop the descriptor of a file, so that its next close is the last one."""
        if file is self._segment:
            self._segment = None
            native.use_direct(self._writer, -1)

    def settle(self) -> None:
        """Wait until no write is under way, and hand the result back."""
        while native.is_busy(self._writer):
            native.settle(self._writer)
            if self._hand_back():
                return

    def close(self) -> None:
        """End the thread."""
        self.settle()
        self._remove_reader(self._wake_in)
        native.stop(self._writer)
        os.close(self._wake_in)
        if self._wake_out != self._wake_in:
            os.close(self._wake_out)

    def _woken(self) -> None:
        """Take a signal, on the event loop."""
        self._hand_back()

    def _hand_back(self) -> bool:
        """Hand the result back, if there is one; it may be that the thread is to go on."""
        if not native.take(self._writer):
            return False
        self._done(native.stage(self._writer), native.error(self._writer))
        return True
