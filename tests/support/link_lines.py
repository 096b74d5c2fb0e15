"""The calls of a link's parser to its handler, noted line by line."""

from __future__ import annotations

from midge.protocol.frame import Frame
from midge.protocol.handler import Handler
from midge.protocol.inbound import Inbound, SharedBuffer
from midge.protocol.stream_parser import StreamParser

Event = tuple[object, ...]


class LinkNotes(Handler):
    """Notes the lines that all links have; subclasses note the rest."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_info(self, document: bytes) -> None:
        self.events.append(("INFO", document))

    def on_connect(self, document: bytes) -> None:
        self.events.append(("CONNECT", document))

    def on_ping(self) -> None:
        self.events.append(("PING",))

    def on_peer_error(self, text: bytes) -> None:
        self.events.append(("-ERR", text))


def parts(frame: Frame) -> Event:
    """Return what a frame holds, and check that its tail is what deliveries copy."""
    data = bytes(frame.buffer)
    tail = data[frame.base + frame.tail : frame.base + frame.end]
    reply = frame.reply_bytes()
    assert tail.endswith(frame.payload_bytes() + b"\r\n")
    assert tail.startswith(reply + b" " if reply else b"")
    return frame.subject_bytes(), reply, frame.header_bytes(), frame.payload_bytes()


def feed(parser: StreamParser, data: bytes, cut: int | None) -> None:
    """Feed `data` whole, or in two pieces."""
    inbound = Inbound(parser, SharedBuffer(4096))
    for piece in (data,) if cut is None else (data[:cut], data[cut:]):
        inbound.feed(piece)
    assert inbound.held_bytes() == 0 or cut is None
