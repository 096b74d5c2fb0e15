"""A Channel carries any protocol: here one of lines, each given back in capitals."""

from __future__ import annotations

import asyncio
import gc
import ssl
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
import uvloop
from websockets.asyncio.client import connect

from midge.protocol.errors import ProtocolError
from midge.protocol.handler import Handler
from midge.protocol.stream_parser import StreamParser
from midge.server.channels.busy_poll import BusyPoll
from midge.server.channels.channel import Channel, ChannelOwner
from midge.server.channels.channel_state import ChannelState
from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.host import Host
from midge.server.channels.loop_adapter import protocol_for
from midge.server.channels.reading import AUTHENTICATING
from midge.server.config.options import Keepalive, Limits, Options, WebSocket
from midge.server.listeners.websocket.protocol import InflatedBytes, WebSocketProtocol
from midge.server.listeners.websocket.upgrade_request import Upgrade
from midge.server.routing.account import Account
from midge.server.routing.router import Router
from midge.testing import ManualClock
from tests.support.keys import Authority, pem
from tests.support.transports import Transport

LINE_MAX = 64


class Lines(StreamParser):
    """Finds lines; "bad" is none."""

    def feed(self, buffer: bytearray, start: int, end: int) -> int:
        while not self.halted:
            line_feed = buffer.find(b"\n", start, end)
            if line_feed < 0:
                return start
            line = bytes(buffer[start:line_feed])
            self.charge(1 + len(line))
            if line == b"bad":
                raise ProtocolError("Bad Line", "a bad line")
            cast("Commands", self.handler).echo.on_line(line)
            start = line_feed + 1
        return start


class Commands(Handler):
    """Passes lines on to `echo`."""

    def __init__(self, echo: Echo) -> None:
        self.echo = echo

    def on_budget_spent(self) -> None:
        self.echo.on_budget_spent()


class Echo(ChannelOwner):
    """Answers each line in capitals, and records its calls."""

    def __init__(self, host: Host) -> None:
        ChannelOwner.__init__(self, 7, Account("lines"), host.chunks, host.router)
        self.told: list[str] = []
        self.busy = False
        self.channel = Channel(
            host, self, Lines(Commands(self)), ("127.0.0.1", 9), ping_interval_s=5.0
        )

    def on_line(self, line: bytes) -> None:
        self.in_messages += 1
        if line == b"bye":
            self.close(ClosedReason.KICKED, "Bye")
        else:
            self.send(line.upper() + b"\n")

    def opened(self) -> None:
        self.told.append("opened")
        self.send(b"hello\n")
        self.channel.keepalive.start()

    def closed(self) -> None:
        self.told.append("closed")

    def lost(self) -> None:
        self.told.append("lost")

    def is_busy(self) -> bool:
        return self.busy

    def send_ping(self) -> None:
        self.send(b"ping\n")

    def append_last_error(self, wire: str) -> None:
        self.outbound.append(b"error: %b\n" % wire.encode())


def make_host(options: Options | None = None, clock: Any = None) -> Host:
    return Host(options or Options(), clock or ManualClock(), Random(1), Router())


def opened(host: Host | None = None) -> tuple[Echo, Transport]:
    owner, transport = Echo(host or make_host()), Transport()
    owner.channel.connection_made(transport)
    assert transport.take() == b"hello\n"
    return owner, transport


def test_lines_come_however_they_are_split() -> None:
    owner, transport = opened()
    for byte in b"one\ntwo\n":
        owner.channel.feed(bytes([byte]))
    assert transport.take() == b"ONE\nTWO\n"
    assert owner.in_messages == 2
    assert owner.peer == "127.0.0.1:9"


def test_what_is_read_by_itself_may_be_followed_by_a_wait_without_sleep() -> None:
    host = make_host()
    waits: list[object] = []
    host.busy_poll = BusyPoll(waits.append, 0, 1, lambda: 0.0, bool, int)
    owner, _ = opened(host)
    for _ in range(1_000):
        owner.channel.feed(b"one\n")
    assert len(waits) == 1
    assert owner.in_messages == 1_000


def test_the_end_is_said_in_the_words_of_the_protocol() -> None:
    owner, transport = opened()
    owner.channel.feed(b"bye\nmore\n")
    assert transport.take() == b"error: Bye\n"
    owner.channel.connection_lost(None)
    assert owner.told == ["opened", "closed", "lost"]
    assert (owner.reason, owner.channel.state) == (ClosedReason.KICKED, ChannelState.CLOSED)


def test_what_breaks_the_protocol_ends_the_channel() -> None:
    owner, transport = opened()
    owner.channel.feed(b"a\nbad\nb\n")
    assert transport.take() == b"A\nerror: Bad Line\n"
    assert owner.reason is ClosedReason.PROTOCOL_VIOLATION


def test_what_comes_while_it_is_halted_waits() -> None:
    owner, transport = opened()
    owner.channel.reading.halt(AUTHENTICATING)
    owner.channel.feed(b"x" * 70_000 + b"\n")
    assert not transport.is_reading
    owner.channel.reading.unhalt(AUTHENTICATING)
    owner.channel.resume()
    assert transport.is_reading
    assert len(transport.take()) == 70_001


def test_who_is_busy_is_waited_for_when_the_peer_has_gone() -> None:
    owner, _ = opened()
    owner.busy = True
    assert owner.channel.eof_received()
    assert owner.reason is None
    owner.busy = False
    owner.channel.resume()
    assert owner.reason is ClosedReason.CLIENT_CLOSED


def test_a_silent_peer_is_pinged_and_ends_stale() -> None:
    clock = ManualClock()
    owner, transport = opened(make_host(Options(keepalive=Keepalive(ping_max=1)), clock))
    clock.advance(6)
    assert transport.take() == b"ping\n"
    clock.advance(6)
    assert owner.reason is ClosedReason.STALE_CONNECTION


def test_a_turn_that_is_used_up_goes_on_later() -> None:
    clock = ManualClock()
    owner, transport = opened(make_host(clock=clock))
    owner.channel.feed(b"first\n")
    owner.spend(1 << 30)
    owner.channel.feed(b"second\n")
    assert transport.take() == b"FIRST\n"
    clock.advance(0)
    assert transport.take() == b"SECOND\n"


def test_a_receiver_that_is_too_far_behind_is_ended() -> None:
    owner, transport = opened(make_host(Options(limits=Limits(max_pending_bytes=1000))))
    transport.get_write_buffer_size = lambda: 2000  # type: ignore[method-assign]
    owner.channel.feed(b"x\n")
    assert owner.reason is ClosedReason.SLOW_CONSUMER_PENDING


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_nothing_is_left_of_a_channel_that_has_gone() -> None:
    owner, transport = opened()
    owner.channel.feed(b"some\n")
    owner.pause_for(owner)
    channel, parser = owner.channel, owner.channel.parser
    channel.connection_lost(None)
    kept = [weakref.ref(owner), weakref.ref(channel)]
    del owner, transport
    assert kept[0]() is None
    assert channel.owner is not None
    assert type(parser.handler) is not Echo
    del channel, parser
    assert kept[1]() is None


# On sockets.


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    made: Callable[[], asyncio.AbstractEventLoop] = request.param
    loop = made()
    yield loop
    loop.close()


async def talk(owners: list[Echo], host: Host, context: ssl.SSLContext | None) -> bytes:
    """Serve one client, which sends two lines, and return the calls."""
    loop = asyncio.get_running_loop()

    def protocol() -> Any:
        owners.append(Echo(host))
        return protocol_for(loop, owners[-1].channel)

    server = await loop.create_server(protocol, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    trusting = None
    if context is not None:
        trusting = ssl.create_default_context()
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
    writer.write(b"one\ntwo\nbye\n")
    heard = await reader.read()
    writer.close()
    server.close()
    while "lost" not in owners[0].told:
        await asyncio.sleep(0)
    return heard


def server_context(folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate, key = Authority().issue("CN=server")
    (folder / "both.pem").write_bytes(key + pem(certificate))
    context.load_cert_chain(folder / "both.pem")
    return context


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["tcp", "tls"])
def test_a_channel_on_a_socket(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, is_encrypted: bool
) -> None:
    owners: list[Echo] = []
    context = server_context(tmp_path) if is_encrypted else None
    heard = loop.run_until_complete(talk(owners, make_host(), context))
    assert heard == b"hello\nONE\nTWO\nerror: Bye\n"
    assert owners[0].told == ["opened", "closed", "lost"]


async def test_a_channel_on_a_websocket() -> None:
    host, settings = make_host(), WebSocket(no_tls=True)
    owners: list[Echo] = []

    def make(_request: object) -> Echo:
        owners.append(Echo(host))
        return owners[-1]

    server = await asyncio.get_running_loop().create_server(
        lambda: WebSocketProtocol(
            lambda request, encrypted: Upgrade(request, settings, encrypted=encrypted),
            make,
            ("127.0.0.1", 9),
            InflatedBytes(),
        ),
        "127.0.0.1",
        0,
    )
    port = server.sockets[0].getsockname()[1]
    async with connect(f"ws://127.0.0.1:{port}") as client:
        await client.send(b"one\ntw")
        await client.send(b"o\n")
        heard = [await client.recv() for _ in range(3)]
    server.close()
    assert heard == [b"hello\n", b"ONE\n", b"TWO\n"]
    assert owners[0].reason is ClosedReason.CLIENT_CLOSED
