"""The layers between a fuzzed client and its Connection: TLS, a WebSocket, or one in the other.

The server's side is what it is on a loop: asyncio's SSL protocol with our contexts, and the
protocol of the WebSocket listener. The client's side is OpenSSL again, and frames that are cut,
fragmented, masked, compressed and mixed with pings as a seeded generator has it.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from asyncio import events, sslproto
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import CLIENT, Protocol
from websockets.utils import accept_key

from midge.server.broker.broker import Broker
from midge.server.channels.channel import Channel, ChannelOwner
from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.loop_adapter import _BufferedProtocol
from midge.server.clients.connection import Connection
from midge.server.config.security import Tls
from midge.server.listeners.tls import build_server_context
from midge.server.listeners.websocket.listener import WebSocketListener
from midge.server.listeners.websocket.protocol import WebSocketProtocol
from midge.server.listeners.websocket.upgrade_request import UpgradeRequest
from midge.testing import ManualClock
from tests.support.keys import Authority, pem

if TYPE_CHECKING:
    from tests.fuzz.sockets import Socket

    Made = Callable[[Socket, Connection], None]

FRAMINGS = ("tls 1.2", "tls 1.3", "websocket", "websocket in tls 1.3")

KEY = "AAAAAAAAAAAAAAAAAAAAAA=="
MESSAGE_MAX = 60_000
"""Less than what a WebSocket message may have before CONNECT."""

DAMAGES = ("change", "drop", "insert", "cut", "double", "swap")


class ClockLoop:
    """As much of an event loop as the protocols need, by a clock that is moved by hand."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.reported: list[dict[str, Any]] = []

    def call_soon(self, callback: Callable[..., object], *arguments: Any, **named: Any) -> Any:
        return self._clock.call_later(0.0, callback, *arguments)

    def call_later(self, delay_s: float, callback: Callable[..., object], *arguments: Any) -> Any:
        return self._clock.call_later(delay_s, callback, *arguments)

    def create_future(self) -> asyncio.Future[None]:
        return asyncio.Future(loop=self)  # type: ignore[arg-type]

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what a protocol has caught; a World raises it again."""
        self.reported.append(context)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Be the running loop, for what asks which one that is."""
        events._set_running_loop(self)  # type: ignore[arg-type]
        try:
            yield
        finally:
            events._set_running_loop(None)


@cache
def contexts() -> tuple[ssl.SSLContext, dict[str, ssl.SSLContext]]:
    """Return the server's context, and a client's for each version of TLS."""
    authority = Authority()
    certificate, key = authority.issue("CN=localhost")
    with TemporaryDirectory() as folder:
        files = Path(folder, "cert.pem"), Path(folder, "key.pem")
        files[0].write_bytes(pem(certificate))
        files[1].write_bytes(key)
        server = build_server_context(Tls(cert_file=str(files[0]), key_file=str(files[1])))
    clients = {}
    for name, version in (("1.2", ssl.TLSVersion.TLSv1_2), ("1.3", ssl.TLSVersion.TLSv1_3)):
        clients[name] = context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.maximum_version = version
    return server, clients


def damaged(wire: bytes, random: Random) -> bytes:
    """Return `wire` with one thing wrong, mostly in the header of its first frame."""
    at = random.randrange(min(len(wire), random.choice((2, 8, len(wire)))))
    end = min(len(wire), at + random.choice((1, 2, 5, 40)))
    match random.choice(DAMAGES):
        case "change":
            return wire[:at] + bytes([wire[at] ^ 1 << random.randrange(8)]) + wire[at + 1 :]
        case "drop":
            return wire[:at] + wire[end:]
        case "insert":
            return wire[:at] + random.randbytes(end - at) + wire[at:]
        case "cut":
            return wire[:at]
        case "double":
            return wire[:end] + wire[at:]
        case _:
            return wire[:at] + wire[at:end][::-1] + wire[end:]


class PlainEnd:
    """The client's side of a plain connection, and of one within another framing."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.is_damaged = False  # whether the server may refuse what it gets

    def open(self) -> bytes:
        """Return what to send first."""
        return b""

    def send(self, data: bytes) -> bytes:
        """Return what to send for `data` to arrive."""
        return data

    def end(self) -> bytes:
        """Return what announces the end."""
        return b""

    def receive(self, wire: bytes) -> bytes:
        """Take what the server has sent; return the answer."""
        self.received += wire
        return b""


class Deflated:
    """Marks a frame as the first one of a compressed message, whose data it is already."""

    def encode(self, frame: Frame) -> Frame:
        return Frame(frame.opcode, frame.data, frame.fin, rsv1=True)


class WebSocketEnd(PlainEnd):
    """A client of the WebSocket listener."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random
        self._head = bytearray()
        self._frames: Protocol | None = None
        self._is_deflating = random.random() < 0.7
        self._is_refused = False

    def open(self) -> bytes:
        lines = [
            "GET / HTTP/1.1",
            "Host: localhost",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {KEY}",
        ]
        if self._is_deflating:
            lines.append("Sec-WebSocket-Extensions: permessage-deflate")
        return "\r\n".join([*lines, "", ""]).encode()

    def send(self, data: bytes) -> bytes:
        if self._frames is None:
            return b""
        wire = b""
        while data:
            size = self._random.choice((1, 7, 100, 2_000, MESSAGE_MAX, MESSAGE_MAX))
            wire += self._message(data[:size])
            data = data[size:]
        return wire

    def end(self) -> bytes:
        if self._frames is None:
            return b""
        return Frame(Opcode.CLOSE, Close(1000, "").serialize()).serialize(mask=True)

    def receive(self, wire: bytes) -> bytes:
        if self._frames is None:
            wire = self._open_by(wire)
        if self._frames is None:
            return b""
        self._frames.receive_data(wire)
        for event in self._frames.events_received():
            assert isinstance(event, Frame)
            if event.opcode is Opcode.BINARY:
                assert event.fin
                self.received += event.data
        assert self._frames.parser_exc is None, self._frames.parser_exc
        return b"".join(self._frames.data_to_send())

    def _open_by(self, wire: bytes) -> bytes:
        """Read on in the answer to the request; return the bytes after it."""
        self._head += wire
        head, end, rest = bytes(self._head).partition(b"\r\n\r\n")
        if not end or self._is_refused:
            return b""
        self._is_refused = not head.startswith(b"HTTP/1.1 101 ")
        if self._is_refused:
            return b""
        assert self.is_damaged or accept_key(KEY).encode() in head
        self._is_deflating = b"permessage-deflate" in head
        self._frames = Protocol(CLIENT, max_size=None)
        if self._is_deflating:
            self._frames.extensions = [PerMessageDeflate(True, True, 15, 15)]
        return rest

    def _message(self, data: bytes) -> bytes:
        """Return `data` as the frames of one message, perhaps with a ping among them."""
        is_deflated = self._is_deflating and self._random.random() < 0.5
        if is_deflated:
            deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
            data = deflate.compress(data) + deflate.flush(zlib.Z_SYNC_FLUSH)
            data = data.removesuffix(b"\x00\x00\xff\xff")
        opcode, wire = self._random.choice((Opcode.BINARY, Opcode.TEXT)), b""
        pieces = self._fragments(data)
        for place, piece in enumerate(pieces):
            frame = Frame(Opcode.CONT if place else opcode, piece, place == len(pieces) - 1)
            marks: list[Any] = [Deflated()] if is_deflated and not place else []
            wire += frame.serialize(mask=True, extensions=marks)
            if self._random.random() < 0.05:
                wire += Frame(Opcode.PING, b"are you there").serialize(mask=True)
        return wire

    def _fragments(self, data: bytes) -> list[bytes]:
        """Cut `data`; a piece may be empty."""
        count = self._random.choice((0, 0, 0, 1, 2, 4))
        cuts = sorted(self._random.randint(0, len(data)) for _ in range(count))
        return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


class TlsEnd(PlainEnd):
    """A client that encrypts what `inner` sends."""

    def __init__(self, version: str, inner: PlainEnd, random: Random) -> None:
        super().__init__()
        self._inner = inner
        self.received = inner.received
        self._random = random
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        _, clients = contexts()
        self._tls = clients[version].wrap_bio(self._incoming, self._outgoing)
        self._is_open = self._is_ended = False

    def open(self) -> bytes:
        return self.receive(b"")

    def send(self, data: bytes) -> bytes:
        return self._encrypted(self._inner.send(data))

    def end(self) -> bytes:
        wire = self._encrypted(self._inner.end())
        self._unwrap()
        return wire + self._outgoing.read()

    def receive(self, wire: bytes) -> bytes:
        self._incoming.write(wire)
        answer = b""
        try:
            if not self._is_open:
                self._tls.do_handshake()
                self._is_open = True
                answer += self._encrypted(self._inner.open())
            while data := self._tls.read(1 << 16):
                answer += self._encrypted(self._inner.receive(data))
            self._unwrap()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._is_ended = True
        except ssl.SSLError:
            if not self.is_damaged:
                raise
            self._is_ended = True
        return answer + self._outgoing.read()

    def _encrypted(self, data: bytes) -> bytes:
        """Return `data` in records of any size."""
        while data and self._is_open and not self._is_ended:
            size = self._random.choice((1, 30, 1_000, 16_384, 16_384, 16_384))
            self._tls.write(data[:size])
            data = data[size:]
        return self._outgoing.read()

    def _unwrap(self) -> None:
        """Record the end of the input."""
        if self._is_open and not self._is_ended:
            self._is_ended = True
            with suppress(ssl.SSLError):  # the server has not said so yet
                self._tls.unwrap()


class _Opening(_BufferedProtocol):
    """A Connection behind TLS, which calls `made` when it gets its transport."""

    def __init__(self, channel: Channel, made: Callable[[], None]) -> None:
        super().__init__(channel)
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made()
        super().connection_made(transport)


class Framing:
    """One of `FRAMINGS`, for the clients of `broker`."""

    def __init__(self, name: str, broker: Broker, clock: ManualClock) -> None:
        self.loop = ClockLoop(clock)
        self._broker = broker
        self._tls_version = name.partition("tls ")[2]
        self._is_websocket = name.startswith("websocket")
        self._listener = WebSocketListener(broker)
        self._unopened: dict[Socket, Connection] = {}

    def end(self, number: int) -> PlainEnd:
        """Return the client's side of connection `number`."""
        random = Random(number)
        end = WebSocketEnd(random) if self._is_websocket else PlainEnd()
        return TlsEnd(self._tls_version, end, random) if self._tls_version else end

    def open(self, socket: Socket, address: tuple[str, int], made: Made) -> None:
        """Make the server's side above `socket`; `made` is called with its Connection."""
        protocol = self._websocket(socket, address, made) if self._is_websocket else None
        if protocol is None:
            protocol = self._bare(socket, address, made)
        if self._tls_version:
            server, _ = contexts()
            loop: Any = self.loop
            protocol = sslproto.SSLProtocol(loop, protocol, server, None, server_side=True)
        socket.protocol = protocol
        protocol.connection_made(socket)

    def lost(self, socket: Socket) -> None:
        """Do what the listener does when a handshake has failed."""
        connection = self._unopened.pop(socket, None)
        if connection is not None:
            connection.close(ClosedReason.TLS_HANDSHAKE_FAILURE)
            connection.channel.dispose()

    def _websocket(self, socket: Socket, address: tuple[str, int], made: Made) -> Any:
        listener = self._listener

        def make(request: UpgradeRequest) -> ChannelOwner:
            owner = listener._make_connection(request, address)
            assert isinstance(owner, Connection)
            made(socket, owner)
            return owner

        with self.loop.running():
            return WebSocketProtocol(listener._judge, make, address, listener._inflated)

    def _bare(self, socket: Socket, address: tuple[str, int], made: Made) -> Any:
        connection = self._unopened[socket] = self._broker.make_connection(address)
        connection.owes_info = True

        def opened() -> None:
            made(socket, self._unopened.pop(socket))

        return _Opening(connection.channel, opened)
