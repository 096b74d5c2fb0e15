"""Where the messages of a mirror or of a sourcing stream come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from midge.jetstream.stream.stream import Stream


class Origins:
    """The origins of one stream; most have none."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def start(self) -> None:
        """Begin to take messages."""

    def stop(self) -> None:
        """Take messages no more."""

    def info(self) -> dict[str, Any]:
        """Return what a stream's info says of its origins."""
        return {}
