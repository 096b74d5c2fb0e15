"""A transport without a socket, for connections that a test drives by hand."""

from __future__ import annotations

from typing import Any


class Transport:
    """Takes everything at once, like a socket whose peer keeps up; `written` has the data."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.is_reading = True

    def write(self, data: bytes | memoryview) -> None:
        self.written += data

    def take(self) -> bytes:
        """Return the data written since the last call."""
        taken = bytes(self.written)
        self.written.clear()
        return taken

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int) -> None:
        assert high == 0

    def get_extra_info(self, name: str) -> Any:
        return None

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        self.is_reading = False

    def abort(self) -> None:
        self.is_reading = False
