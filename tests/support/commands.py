"""The commands that a parser reported, recorded so that two runs can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.protocol import Handler
from midge.protocol.errors import ProtocolError
from midge.protocol.parser import Parser

if TYPE_CHECKING:
    from collections.abc import Iterable

    from midge.protocol.frame import Frame


def publish(
    subject: bytes, payload: bytes = b"", reply: bytes | None = None, headers: bytes | None = None
) -> tuple[object, ...]:
    """Return what a Recorder notes of such a message."""
    return ("publish", subject, reply, headers, payload)


def tail(frame: Frame) -> bytes:
    """Return the part of `frame` that every delivery copies."""
    start = frame.base + frame.tail
    return bytes(frame.buffer[start : frame.base + frame.end])


class Recorder(Handler):
    """Notes every command, and of publishes also their tails and whether they were repeated."""

    def __init__(self) -> None:
        self.commands: list[tuple[object, ...]] = []
        self.tails: list[bytes] = []
        self.repeated: list[bool] = []

    def on_publish(self, frame: Frame) -> None:
        self.commands.append(
            publish(
                frame.subject_bytes(),
                frame.payload_bytes(),
                frame.reply_bytes(),
                frame.header_bytes(),
            )
        )
        self.tails.append(tail(frame))
        self.repeated.append(frame.repeated)

    def on_subscribe(self, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        self.commands.append(("subscribe", subject, queue, sid))

    def on_unsubscribe(self, sid: bytes, max_messages: int) -> None:
        self.commands.append(("unsubscribe", sid, max_messages))

    def on_connect(self, document: bytes) -> None:
        self.commands.append(("connect", document))

    def on_ping(self) -> None:
        self.commands.append(("ping",))

    def on_pong(self) -> None:
        self.commands.append(("pong",))

    def on_info(self, document: bytes) -> None:
        self.commands.append(("info", document))

    def on_peer_error(self, text: bytes) -> None:
        self.commands.append(("peer_error", text))


class Reading:
    """A parser with a recorder, fed piece by piece as a connection would."""

    def __init__(self, **limits: int) -> None:
        self.recorder = Recorder()
        self.parser = Parser(self.recorder, **limits)
        self.parser.headers = True
        self.rest = b""

    @property
    def commands(self) -> list[tuple[object, ...]]:
        return self.recorder.commands

    def feed(self, *pieces: bytes) -> Reading:
        """Feed `pieces` one after the other; unused bytes come again before the next."""
        for piece in pieces:
            buffer = bytearray(self.rest + piece)
            used = self.parser.feed(buffer, 0, len(buffer))
            self.rest = bytes(buffer[used:])
        return self

    def outcome(self, pieces: Iterable[bytes]) -> str | None:
        """Feed `pieces` until one breaks the protocol; return the error text for the client.

        It is None without an error, and empty if the client gets no error text.
        """
        try:
            self.feed(*pieces)
        except ProtocolError as error:
            return error.wire or ""
        return None
