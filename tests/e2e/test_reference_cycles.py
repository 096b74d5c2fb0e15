"""However a connection ends, nothing of it waits for the garbage collector.

The collector is off while clients come and go; afterwards there must be as many objects of each
type as before. What closing cuts, since the two refer to each other:

- `parser.handler`, and the callbacks of `keepalive`: parts of a Connection that call it;
- `outbound`, `_transport`: the transport refers to its protocol, the Connection;
- `back_pressure._connection`, `more_input`, and what the last message matched (`forget_match`);
- the suspended generator of the `websockets` library's parser, which refers to its owner;
- a server's own subscriptions, by clearing the SubLists: classes without GC hold them.

Nor does anything of a link to another server (`InterestAnnouncer.end`), of a deleted stream or
consumer (`Stream.release`, `Medium.leave`), or of a request to JetStream.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import select
import socket
import ssl
import struct
import threading
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvloop

import midge
from midge.server.channels.closed_reason import ClosedReason
from midge.server.config.cluster import Cluster
from midge.server.config.leafnodes import LeafNodes
from midge.server.config.options import (
    Authorization,
    Limits,
    Listen,
    Options,
    Tls,
    User,
    WebSocket,
)
from midge.server.listeners.sockets import TcpSocket
from midge.server.server import Server
from tests.abuse.bystander import without_checks
from tests.support.keys import Authority, pem

ROUNDS = 6
"""Each thing that a connection leaves is there so often; other counts waver by less."""

TIMEOUT_S = 60.0
HANDSHAKE_S = 0.2
KINDS = ("plain", "tls", "ws", "wss")
RESET = struct.pack("ii", 1, 0)
CONNECT = b'CONNECT {"verbose":false,"user":"u","pass":"p"}\r\n'
TRAFFIC = b"SUB a 1\r\nSUB > 2\r\nPUB a 1\r\nx\r\nPUB a 1\r\nx\r\nPING\r\n"
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: c2l4dGVlbiBieXRlcyEhIQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Client:
    """A blocking client of the listener of one `kind`."""

    def __init__(self, kind: str, address: tuple[str, int]) -> None:
        self.kind = kind
        self.socket = socket.create_connection(address, TIMEOUT_S)

    def open(self) -> Client:
        """Come as far as INFO."""
        if not self.kind.startswith("w"):
            self.until(b"\r\n")
        if self.kind in {"tls", "wss"}:
            self.socket = without_checks().wrap_socket(self.socket)
        if self.kind.startswith("w"):
            self.socket.sendall(UPGRADE)
            self.until(b"INFO ")
        return self

    def talk(self) -> Client:
        """Connect, subscribe and publish."""
        self.open().say(CONNECT + TRAFFIC)
        self.until(b"PONG")
        return self

    def say(self, data: bytes, opcode: int = 2) -> None:
        if self.kind.startswith("w"):
            is_short = len(data) < 126
            size = bytes([0x80 | len(data)]) if is_short else struct.pack("!BH", 254, len(data))
            data = bytes([0x80 | opcode]) + size + bytes(4) + data
        self.socket.sendall(data)

    def until(self, wanted: bytes) -> None:
        got = b""
        with contextlib.suppress(OSError):
            while wanted not in got and (piece := self.socket.recv(4096)):
                got += piece

    def leave(self) -> None:
        """Read to the end, and close."""
        self.until(b"\0never\0")
        self.socket.close()


def orderly(client: Client) -> None:
    client.talk()
    if client.kind.startswith("w"):
        client.say(b"\x03\xe8", 8)
        client.until(b"\x88")
    if isinstance(client.socket, ssl.SSLSocket):
        with contextlib.suppress(OSError):
            client.socket.unwrap()
    client.socket.close()


def half_closed(client: Client) -> None:
    client.talk().socket.shutdown(socket.SHUT_WR)
    client.leave()


def reset(client: Client) -> None:
    client.talk().socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    client.socket.close()


def bad_command(client: Client) -> None:
    client.talk().say(b"NONSENSE\r\n")
    client.leave()


def within_a_message(client: Client) -> None:
    client.talk().say(b"PUB a 60000\r\n" + b"x" * 30_000)
    client.socket.close()


def refused(client: Client) -> None:
    client.open().say(CONNECT.replace(b'"p"', b'"q"'))
    client.leave()


def bad_frame(client: Client) -> None:
    client.talk().say(b"", 3)
    client.leave()


def before_a_transport(client: Client) -> None:
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    client.socket.close()


def bad_handshake(client: Client) -> None:
    client.socket.sendall(b"POST / HTTP/1.1\r\n\r\n")
    client.leave()


def late_handshake(client: Client) -> None:
    client.leave()


def half_a_handshake(client: Client) -> None:
    client.socket.sendall(b"\x16\x03\x01\x02")
    client.socket.close()


def stays(client: Client) -> None:
    client.talk().leave()


ENDS = (orderly, half_closed, reset, bad_command, within_a_message, refused, before_a_transport)
HANDSHAKES = (bad_handshake, late_handshake, half_a_handshake)


def ways() -> Iterator[tuple[str, Callable[[Client], None]]]:
    for kind in KINDS:
        yield from ((kind, end) for end in ENDS)
        if kind != "plain":
            yield from ((kind, end) for end in HANDSHAKES)
        if kind.startswith("w"):
            yield kind, bad_frame


def certificate(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """Make the settings of a server that speaks TLS."""
    folder = tmp_path_factory.mktemp("tls")
    issued, key = Authority().issue("CN=localhost")
    (folder / "cert").write_bytes(pem(issued))
    (folder / "key").write_bytes(key)
    cert_file, key_file = str(folder / "cert"), str(folder / "key")
    return Tls(cert_file=cert_file, key_file=key_file)


tls = pytest.fixture(scope="module")(certificate)


@pytest.fixture(scope="module", autouse=True)
def _what_was_there_before() -> Iterator[None]:
    """Freeze the objects of other tests and pytest, so that the collector skips them."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


async def in_thread(work: Callable[[], object]) -> None:
    """Do `work` in a thread that has ended, with all that it held, when this returns.

    A thread of a pool drops its work and the futures for it a moment later than it answers.
    """
    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        await asyncio.sleep(0.001)
    thread.join()


class Serving:
    """A server of both listeners, encrypted or not, whose handshakes may take `handshake_s`."""

    def __init__(
        self, kind: str, tls: Tls, *, rate_limit: int = 0, handshake_s: float = TIMEOUT_S
    ) -> None:
        encryption: dict[str, Any] = {"no_tls": True}
        table = Tls(
            cert_file=tls.cert_file,
            key_file=tls.key_file,
            timeout_s=handshake_s,
            connection_rate_limit=rate_limit,
        )
        if kind in {"tls", "wss"}:
            encryption = {"tls": table}
        options = Options(
            listen=Listen(port=-1),
            tls=table if kind == "tls" else Tls(),
            websocket=WebSocket(
                host="127.0.0.1", port=-1, handshake_timeout_s=handshake_s, **encryption
            ),
            authorization=Authorization(users=(User(user="u", password="p"),), timeout_s=TIMEOUT_S),
            limits=Limits(max_closed_clients=1),
        )
        self.kind = kind
        self.server = Server(options)

    async def visit(self, way: Callable[[Client], None]) -> None:
        """Connect a client, and end it in that `way`."""
        listener = "websocket" if self.kind.startswith("w") else "nats"
        parts = urlsplit(self.server.urls()[listener][0])
        address = (str(parts.hostname), int(parts.port or 0))
        await in_thread(lambda: way(Client(self.kind, address)))
        await self.emptied()

    async def emptied(self) -> None:
        """Wait until no connection is left, nor a handshake, and timers have been run.

        A client that has gone may still wait to be accepted.
        """
        acceptors = (self.server._listener, self.server._websocket)
        listeners: list[Any] = [one for one in acceptors if one is not None]
        async with asyncio.timeout(TIMEOUT_S):
            while (
                select.select([one._socket for one in listeners], [], [], 0)[0]
                or self.server.broker._transports
                or any(one._tasks or one._connecting for one in listeners)
            ):
                await asyncio.sleep(0.001)
        for _ in range(5):
            await asyncio.sleep(0)


def objects() -> Counter[type]:
    return Counter(type(one) for one in gc.get_objects())


def left_behind(counts: Counter[type]) -> dict[str, int]:
    """Return the types with more objects than before, at least one per round.

    asyncio's transports and SSL protocols refer to themselves, and afterwards to none of ours but
    the closed socket.
    """
    more = {
        kind: count - counts[kind]
        for kind, count in objects().items()
        if count - counts[kind] >= ROUNDS
    }
    if type(asyncio.get_running_loop()).__module__.startswith("asyncio"):
        ours = ("midge", "websockets")
        more = {kind: count for kind, count in more.items() if kind.__module__.startswith(ours)}
        more.pop(TcpSocket, None)
    return {kind.__qualname__: count for kind, count in more.items()}


@contextlib.contextmanager
def no_collector() -> Iterator[Counter[type]]:
    objects()  # the first call of a process leaves entries in the caches of abstract base classes
    gc.collect()
    gc.disable()
    logging.disable()  # pytest keeps the records
    try:
        yield objects()
    finally:
        logging.disable(logging.NOTSET)
        gc.enable()
        gc.collect()


LOOPS = pytest.mark.parametrize(
    "make_loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"]
)


@LOOPS
@pytest.mark.parametrize(("kind", "way"), list(ways()))
def test_nothing_is_left(
    kind: str,
    way: Callable[[Client], None],
    tls: Tls,
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def scene() -> None:
        handshake_s = HANDSHAKE_S if way is late_handshake else TIMEOUT_S
        serving = Serving(kind, tls, handshake_s=handshake_s)
        await serving.server.start()
        await serving.visit(orderly)  # it imports the modules that every connection needs
        await serving.visit(way)
        with no_collector() as before:
            for _ in range(ROUNDS):
                await serving.visit(way)
            assert left_behind(before) == {}
        await serving.server.stop()

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(scene())


@LOOPS
@pytest.mark.parametrize("kind", ["tls", "wss"])
def test_nothing_is_left_of_those_throttled(
    kind: str, tls: Tls, make_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def scene() -> None:
        serving = Serving(kind, tls, rate_limit=1, handshake_s=HANDSHAKE_S)
        await serving.server.start()
        await serving.visit(late_handshake)
        with no_collector() as before:
            while serving.server.broker.limit_hits["handshakes_per_second"] < 2 * ROUNDS:
                await serving.visit(late_handshake)
            assert left_behind(before) == {}
        await serving.server.stop()

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(scene())


@LOOPS
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["closed", "cut"])
def test_nothing_is_left_of_those_that_the_server_ends(
    kind: str, how: str, tls: Tls, make_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """As lame duck mode does, one by one, and as a stop does that takes too long."""

    async def scene() -> None:
        serving = Serving(kind, tls)
        await serving.server.start()

        async def end_one() -> None:
            leaving = asyncio.ensure_future(serving.visit(stays))
            clients = serving.server.broker.clients
            while not any(one.subscriptions for one in clients.values()):
                assert not leaving.done(), "the client has not come as far as its subscriptions"
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
            for connection in list(clients.values()):
                if how == "cut":
                    connection.channel.abort()
                else:
                    connection.close(ClosedReason.SERVER_SHUTDOWN)
            del connection, clients
            await leaving

        await end_one()
        with no_collector() as before:
            for _ in range(ROUNDS):
                await end_one()
            assert left_behind(before) == {}
        await serving.server.stop()

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(scene())


async def test_a_server_that_has_ended_goes_whole() -> None:
    """Its own services are held by classes that the collector does not see."""

    async def ended() -> weakref.ref[Any]:
        async with midge.Server(port=-1) as server:
            return weakref.ref(server.broker.system_account)

    account = await ended()
    gc.collect()
    assert account() is None


LEAF = b'CONNECT {"name":"%b","server_id":"%b","headers":true}\r\n'
LEAF_LINES = b"LS+ a\r\nLS+ b q 2\r\nLMSG a 1\r\nx\r\n"
INTRODUCED = b'{"server_id":"%b","server_name":"%b","headers":true,"cluster":"C","proto":1}\r\n'
ROUTE = b'CONNECT {"name":"%b","headers":true,"cluster":"C"}\r\nINFO ' + INTRODUCED
ROUTE_LINES = b"RS+ $G a\r\nRS+ $G b q 2\r\nRMSG $G a 1\r\nx\r\n"


def link(address: tuple[str, int], introduction: bytes, lines: bytes, number: int) -> None:
    """Be another server for a while."""
    name = b"server-%d" % number
    with socket.create_connection(address, TIMEOUT_S) as peer:
        client = peer.makefile("rb")
        client.readline()
        peer.sendall(introduction.replace(b"%b", name) + b"PING\r\n")
        for expected in (b"PONG", b"PONG"):
            while not client.readline().startswith(expected):
                pass
            if lines:
                peer.sendall(lines + b"PING\r\n")
                lines = b""


@pytest.mark.parametrize(
    ("kind", "introduction", "lines"),
    [("leafnodes", LEAF, LEAF_LINES), ("cluster", ROUTE, ROUTE_LINES)],
    ids=["leafnodes", "cluster"],
)
def test_nothing_is_left_of_links(kind: str, introduction: bytes, lines: bytes) -> None:
    """On uvloop, because asyncio's transports refer to themselves."""

    async def scene() -> None:
        table: dict[str, Any] = {
            "leafnodes": LeafNodes(host="127.0.0.1", port=-1),
            "cluster": Cluster(name="C", host="127.0.0.1", port=-1),
        }
        server = Server(Options(listen=Listen(port=-1), **{kind: table[kind]}))
        await server.start()
        parts = urlsplit(server.urls()[kind][0])
        address = (str(parts.hostname), int(parts.port or 0))

        async def visit(number: int) -> None:
            await in_thread(lambda: link(address, introduction, lines, number))
            while server.broker._transports:
                await asyncio.sleep(0.001)

        await visit(0)
        with no_collector():
            for number in range(1, ROUNDS + 1):
                await visit(number)
            await asyncio.sleep(0.01)
            assert gc.collect() < ROUNDS
        await server.stop()

    uvloop.run(scene())


class Requests:
    """Requests to the JetStream of an embedded server; streams are kept in `storage`."""

    def __init__(self, server: midge.Server, storage: str) -> None:
        self.server = server
        self.storage = storage

    async def ask(self, name: str, body: object = None) -> Any:
        data = b"" if body is None else json.dumps(body).encode()
        answer = json.loads((await self.server.request(f"$JS.API.{name}", data, TIMEOUT_S)).payload)
        assert "error" not in answer, answer
        return answer

    async def publish(self, subject: str, headers: dict[str, str] | None = None) -> None:
        """Publish a message, and wait for its ack."""
        await self.server.request(subject, b"x", TIMEOUT_S, headers)

    async def next(self, stream: str, consumer: str) -> None:
        """Take a message from a pull consumer, and acknowledge it."""
        asked = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        message = await self.server.request(asked, b"1", TIMEOUT_S)
        assert message.reply is not None
        await self.server.request(message.reply, b"", TIMEOUT_S)

    async def stream(self, name: str, **config: Any) -> None:
        await self.ask(f"STREAM.CREATE.{name}", {"name": name, "storage": self.storage, **config})

    async def consumer(self, stream: str, name: str, **config: Any) -> None:
        config = {"durable_name": name, "ack_policy": "explicit", **config}
        request = {"stream_name": stream, "config": config}
        await self.ask(f"CONSUMER.CREATE.{stream}.{name}", request)


async def plain_stream(js: Requests) -> None:
    await js.stream("S", subjects=["s"])
    await js.ask("STREAM.DELETE.S")


async def full_stream(js: Requests) -> None:
    features = ("allow_direct", "allow_atomic", "allow_batched", "allow_msg_ttl")
    limits = {"max_age": 10**12, "max_msgs": 2, "allow_msg_schedules": True}
    copies = {"republish": {"src": ">", "dest": "r.>"}}
    await js.stream("S", subjects=["s"], **dict.fromkeys(features, True), **limits, **copies)
    for number in range(4):
        await js.publish("s", {"Nats-Msg-Id": f"{number}", "Nats-TTL": "100s"})
    js.server.publish("s", b"x", {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"})
    await js.server.request("$JS.API.DIRECT.GET.S", b'{"seq":4}', TIMEOUT_S)
    await js.ask("STREAM.DELETE.S")


async def stream_with_consumers(js: Requests) -> None:
    await js.stream("S", subjects=["s"], retention="interest")
    await js.consumer("S", "C")
    await js.consumer("S", "D", deliver_subject="d", filter_subject="s")
    await js.publish("s")
    await js.next("S", "C")
    await js.ask("STREAM.DELETE.S")


async def mirror(js: Requests) -> None:
    await js.stream("S", mirror={"name": "BASE"})
    while not (await js.ask("STREAM.INFO.S"))["state"]["messages"]:
        await asyncio.sleep(0.001)
    await js.ask("STREAM.DELETE.S")


async def source(js: Requests) -> None:
    await js.stream("S", sources=[{"name": "BASE", "filter_subject": "b.1"}])
    await js.ask("STREAM.DELETE.S")


async def pull_consumer(js: Requests) -> None:
    await js.consumer("BASE", "C")
    await js.next("BASE", "C")
    asked = b'{"batch":100,"expires":100000000000}'
    js.server.publish("$JS.API.CONSUMER.MSG.NEXT.BASE.C", asked, reply="nobody")
    await js.ask("CONSUMER.DELETE.BASE.C")


async def push_consumer(js: Requests) -> None:
    flow = {"flow_control": True, "idle_heartbeat": 10**9}
    await js.consumer("BASE", "C", deliver_subject="d", **flow)
    await js.ask("CONSUMER.DELETE.BASE.C")


async def questions(js: Requests) -> None:
    await js.ask("STREAM.INFO.BASE", {"deleted_details": True, "subjects_filter": ">"})
    for name in ("INFO", "STREAM.LIST", "STREAM.NAMES", "CONSUMER.LIST.BASE"):
        await js.ask(name)
    await js.ask("STREAM.MSG.GET.BASE", {"seq": 3})
    for body in (b'{"seq":5}', b'{"multi_last":["b.1"]}'):
        await js.server.request("$JS.API.DIRECT.GET.BASE", body, TIMEOUT_S)


async def changes(js: Requests) -> None:
    await js.ask("STREAM.PURGE.BASE", {"filter": "b.9"})
    settings = {"name": "BASE", "storage": js.storage, "allow_direct": True, "subjects": ["b.*"]}
    await js.ask("STREAM.UPDATE.BASE", settings)


@pytest.mark.parametrize("storage", ["file", "memory"])
@pytest.mark.parametrize(
    "work",
    [
        plain_stream,
        full_stream,
        stream_with_consumers,
        mirror,
        source,
        pull_consumer,
        push_consumer,
        questions,
        changes,
    ],
    ids=lambda work: work.__name__,
)
async def test_nothing_is_left_of_jetstream(
    work: Callable[[Requests], Awaitable[None]], storage: str, tmp_path: Path
) -> None:
    async with midge.Server(port=-1, jetstream=tmp_path) as server:
        js = Requests(server, storage)
        await js.stream("BASE", subjects=["b.*"], allow_direct=True)
        for number in range(2 * ROUNDS):
            await js.publish(f"b.{number}")
        await work(js)
        await asyncio.sleep(0.05)
        with no_collector():
            for _ in range(ROUNDS):
                await work(js)
            await asyncio.sleep(0.05)
            assert gc.collect() < ROUNDS
