"""Interface to the account and the limits that a stream's configuration is checked against."""

from __future__ import annotations

from typing import Protocol

from midge.jetstream.config.stream import StreamConfig


class Surroundings(Protocol):
    """The account and the server's limits that a configuration is checked against."""

    @property
    def duplicate_window_max_ns(self) -> int:
        """The server's limit of duplicate windows; 0 for none."""

    def config_of(self, name: str) -> StreamConfig | None:
        """Return the configuration of another stream of the account, if it exists."""

    def stream_bytes_limits(self, config: StreamConfig) -> tuple[bool, int]:
        """Return whether `max_bytes` is required, and return its upper limit, 0 for none."""
