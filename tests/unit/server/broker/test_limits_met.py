"""Every bound on what a peer can make grow: that it holds, and that /metrics counts it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from msgspec import structs

from midge.server.channels.closed_reason import ClosedReason
from midge.server.clients.connection import Connection
from midge.server.config.options import (
    Account,
    AccountLimits,
    AllowResponses,
    Authorization,
    Export,
    Import,
    ImportSource,
    JetStream,
    Limits,
    Listen,
    Logging,
    Monitoring,
    Options,
    Permissions,
    Tls,
    User,
    WebSocket,
)
from midge.server.log.logger import JOURNAL
from midge.server.server import Server
from midge.testing import ManualClock
from tests.support.keys import Authority, pem
from tests.support.raw import Raw

Start = Callable[..., Awaitable["Served"]]

ACCOUNTS = (Account(name="A", users=(User(user="u", password="p"),)),)


class Served:
    """A server, clients of it, and what its metrics say."""

    def __init__(self, server: Server, stack: AsyncExitStack) -> None:
        self.server = server
        self._stack = stack

    async def dial(self, **options: Any) -> Raw:
        """Connect; introduce oneself only with `options`."""
        raw = await Raw.open(self.server.urls()["nats"][0])
        self._stack.push_async_callback(raw.close)
        if options:
            assert await raw.connect(**options) == b""
        return raw

    async def met(self, limit: str) -> int:
        """Return how often `limit` was met."""
        return (await self.limits())[limit]

    async def limits(self) -> dict[str, int]:
        """Return how often each limit was met."""
        url = f"{self.server.urls()['monitoring'][0]}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            lines = (await answer.text()).splitlines()
        found = (re.fullmatch(r'midge_limits_met_total{limit="(\w+)"} (\S+)', one) for one in lines)
        return {one[1]: int(float(one[2])) for one in found if one}


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start a server with some tables of options."""
    async with AsyncExitStack() as stack:

        async def one(*, clock: ManualClock | None = None, **tables: Any) -> Served:
            tables.setdefault("monitoring", Monitoring(http_port=-1))
            server = Server(Options(listen=Listen(port=-1), **tables), clock=clock)
            await server.start()
            stack.push_async_callback(server.stop)
            return Served(server, stack)

        yield one


async def test_connections(start: Start) -> None:
    served = await start(limits=Limits(max_connections=1))
    await served.dial(name="first")
    one_too_many = await served.dial()
    assert b"maximum connections exceeded" in await one_too_many.until_end()
    assert await served.met("connections") == 1
    assert await served.met("connections_per_address") == 0


async def test_connections_per_address(start: Start) -> None:
    served = await start(limits=Limits(max_connections_per_address=1))
    await served.dial(name="first")
    one_too_many = await served.dial()
    assert b"maximum connections exceeded" in await one_too_many.until_end()
    assert await served.met("connections_per_address") == 1


async def test_connections_per_user(start: Start) -> None:
    served = await start(accounts=ACCOUNTS, limits=Limits(max_connections_per_user=1))
    await served.dial(user="u", **{"pass": "p"})
    one_too_many = await served.dial()
    assert b"maximum connections" in await one_too_many.connect(user="u", **{"pass": "p"})
    assert await served.met("connections_per_user") == 1


async def test_connections_per_account(start: Start) -> None:
    limited = Account(
        name="A",
        users=(User(user="u", password="p"),),
        limits=AccountLimits(max_connections=1),
    )
    served = await start(accounts=(limited,))
    await served.dial(user="u", **{"pass": "p"})
    one_too_many = await served.dial()
    answer = await one_too_many.connect(user="u", **{"pass": "p"})
    assert b"maximum account active connections exceeded" in answer
    assert await served.met("connections_per_account") == 1


@pytest.fixture
def tls_files(tmp_path: Path) -> dict[str, str]:
    """A certificate with its key, as TLS tables name them."""
    certificate, key = Authority().issue("CN=localhost")
    for name, content in (("cert_file", pem(certificate)), ("key_file", key)):
        (tmp_path / name).write_bytes(content)
    return {name: str(tmp_path / name) for name in ("cert_file", "key_file")}


class Silent:
    """Connections that never begin the handshake."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def dial(self, url: str) -> asyncio.StreamReader:
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        self._stack.callback(writer.close)
        return reader


@pytest.fixture
async def silent() -> AsyncIterator[Silent]:
    async with AsyncExitStack() as stack:
        yield Silent(stack)


async def test_handshakes(start: Start, silent: Silent, tls_files: dict[str, str]) -> None:
    served = await start(tls=Tls(**tls_files), limits=Limits(max_connections=2))
    url = served.server.urls()["nats"][0]
    # One connection over the limit is accepted, so that it gets the reason for its refusal.
    shaking = [await silent.dial(url) for _ in range(3)]
    for reader in shaking:
        assert (await reader.readline()).startswith(b"INFO ")
    surplus = [await silent.dial(url) for _ in range(4)]
    for reader in surplus:
        assert await reader.read() == b""
    assert await served.met("handshakes") == 4


async def test_every_surplus_connection_in_plain_text_is_told(start: Start, silent: Silent) -> None:
    served = await start(limits=Limits(max_connections=0))
    url = served.server.urls()["nats"][0]
    at_once = await asyncio.gather(*(silent.dial(url) for _ in range(20)))
    for reader in at_once:
        assert (await reader.read()).endswith(b"-ERR 'maximum connections exceeded'\r\n")
    assert await served.met("handshakes") == 0


async def test_handshakes_of_websockets(
    start: Start, silent: Silent, tls_files: dict[str, str]
) -> None:
    websocket = WebSocket(host="127.0.0.1", port=-1, tls=Tls(**tls_files))
    served = await start(websocket=websocket, limits=Limits(max_connections=2))
    url = served.server.urls()["websocket"][0]
    shaking = [await silent.dial(url) for _ in range(2)]
    surplus = [await silent.dial(url) for _ in range(4)]
    for reader in surplus:
        assert await reader.read() == b""
    assert await served.met("handshakes") == 4
    assert not any(reader.at_eof() for reader in shaking)


async def test_handshakes_per_second(
    start: Start, silent: Silent, tls_files: dict[str, str]
) -> None:
    clock = ManualClock()
    served = await start(clock=clock, tls=Tls(**tls_files, connection_rate_limit=2))
    url = served.server.urls()["nats"][0]
    for admitted, met in ((2, 3), (2, 6)):
        for _ in range(admitted):
            assert (await (await silent.dial(url)).readline()).startswith(b"INFO ")
        for _ in range(3):
            assert b"Connection throttling is active" in await (await silent.dial(url)).read()
        assert await served.met("handshakes_per_second") == met
        clock.advance(1)


async def test_handshakes_of_websockets_per_second(
    start: Start, silent: Silent, tls_files: dict[str, str]
) -> None:
    table = Tls(**tls_files, connection_rate_limit=2)
    websocket = WebSocket(host="127.0.0.1", port=-1, tls=table)
    served = await start(clock=ManualClock(), websocket=websocket)
    url = served.server.urls()["websocket"][0]
    admitted = [await silent.dial(url) for _ in range(2)]
    for _ in range(3):
        assert await (await silent.dial(url)).read() == b""
    assert await served.met("handshakes_per_second") == 3
    assert not any(reader.at_eof() for reader in admitted)


async def test_the_rate_of_handshakes_can_be_changed(
    start: Start, silent: Silent, tls_files: dict[str, str]
) -> None:
    served = await start(clock=ManualClock(), tls=Tls(**tls_files))
    server = served.server
    url = server.urls()["nats"][0]
    limited = structs.replace(server.options.tls, connection_rate_limit=1)
    await server.reload(structs.replace(server.options, tls=limited))
    assert b"throttling" not in await (await silent.dial(url)).readline()
    assert b"Connection throttling is active" in await (await silent.dial(url)).read()
    assert await served.met("handshakes_per_second") == 1


async def test_bytes_before_authentication(start: Start) -> None:
    asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    decide = asyncio.Event()

    async def hook(request: Any) -> None:
        asked.set_result(None)
        await decide.wait()

    served = await start(authorization=Authorization(hook="tests.support.hooks:authenticate"))
    from tests.support import hooks

    before, hooks.current = hooks.current, hook
    try:
        client = await served.dial()
        client.send(b'CONNECT {"verbose":false}')
        await asked
        client.send(b"PUB a 8\r\n12345678" * 20_000)
        while await served.met("bytes_before_authentication") == 0:
            await asyncio.sleep(0.01)
        (connection,) = served.server.connections()
        assert connection.channel.inbound.held_bytes() <= 64 * 1024 + 256 * 1024
        decide.set()
        assert b"Authorization Violation" in await client.until_end()
    finally:
        hooks.current = before


async def test_time_before_authentication(start: Start) -> None:
    served = await start(authorization=Authorization(token="t", timeout_s=0.05))
    assert b"Authentication Timeout" in await (await served.dial()).until_end()
    assert await served.met("time_before_authentication") == 1


async def test_subscriptions(start: Start) -> None:
    served = await start(limits=Limits(max_subscriptions=1))
    client = await served.dial(name="x")
    answer = await client.ask(b"SUB a 1", b"SUB b 2", b"SUB c 3")
    assert answer == b"-ERR 'maximum subscriptions exceeded'\r\n" * 2
    assert await served.met("subscriptions") == 2


async def test_subscription_tokens(start: Start) -> None:
    served = await start(limits=Limits(max_subscription_tokens=3))
    client = await served.dial(name="x")
    assert b"too many tokens" in await client.ask(b"SUB a.b.c 1", b"SUB a.b.c.d 2")
    assert await served.met("subscription_tokens") == 1


async def test_control_line(start: Start) -> None:
    served = await start()
    client = await served.dial(name="x")
    client.send(b"SUB " + b"a" * 5000)
    assert b"maximum control line exceeded" in await client.until_end()
    assert await served.met("control_line") == 1


async def test_payload(start: Start) -> None:
    served = await start(limits=Limits(max_payload_bytes=10))
    client = await served.dial(name="x")
    client.send(b"PUB a 11")
    assert b"Maximum Payload Violation" in await client.until_end()
    assert await served.met("payload") == 1


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        (Limits(max_pending_bytes=1 << 20), "pending_bytes"),
        (Limits(write_deadline_s=0.2), "write_deadline"),
    ],
)
async def test_what_waits_for_a_client(start: Start, limits: Limits, limit: str) -> None:
    served = await start(limits=limits)
    slow, publisher = await served.dial(name="slow"), await served.dial(name="x")
    assert await slow.ask(b"SUB a 1") == b""
    slow.pause()
    for _ in range(16):
        publisher.send(b"PUB a 1000000", b"x" * 1_000_000)
    while await served.met(limit) == 0:
        await asyncio.sleep(0.01)


async def test_last_words(start: Start) -> None:
    served = await start(limits=Limits(write_deadline_s=0.5))
    slow, publisher = await served.dial(name="slow"), await served.dial(name="x")
    assert await slow.ask(b"SUB a 1") == b""
    (connection, _) = served.server.connections()
    slow.pause()
    for _ in range(16):
        publisher.send(b"PUB a 1000000", b"x" * 1_000_000)
    while connection.outbound.pending_bytes() < 1_000_000:
        await asyncio.sleep(0.01)
    connection.close(ClosedReason.KICKED)
    while await served.met("last_words") == 0:
        await asyncio.sleep(0.01)
    await asyncio.wait_for(_gone(served, connection), 60.0)
    assert await served.met("last_words") == 1


async def _gone(served: Served, connection: Connection) -> None:
    while connection in served.server.broker._transports:
        await asyncio.sleep(0.01)


async def test_system_requests(start: Start) -> None:
    served = await start()
    client = await served.dial(name="x")
    assert await client.ask(b"SUB answer 1") == b""
    client.send(*[b"PUB $SYS.REQ.ACCOUNT.PING.STATZ answer 0", b""] * 1000)
    answers = (await client.ask()).count(b"MSG answer 1")
    unanswered = await served.met("system_requests")
    assert unanswered > 0
    while answers + unanswered < 1000:
        answers += (await client.ask()).count(b"MSG answer 1")
    assert answers + unanswered == 1000


async def test_jetstream_messages(start: Start, tmp_path: Path) -> None:
    options = JetStream(enabled=True, store_dir=str(tmp_path), max_buffered_messages=2)
    client = await (served := await start(jetstream=options)).dial(name="x")
    client.send(b"SUB answer 1", *api(b"STREAM.CREATE.S", b'{"name":"S"}'))
    while b'"did_create":true' not in await client.ask():
        pass  # it is answered when it is on the disk
    client.send(*[b"PUB S answer 0", b""] * 10)
    while await served.met("jetstream_messages") < 8:
        await asyncio.sleep(0.01)
    assert (await client.ask()).count(b"429 Too Many Requests") == 8


async def test_jetstream_requests(start: Start) -> None:
    options = JetStream(enabled=True, in_memory=True, request_queue_limit=2)
    client = await (served := await start(jetstream=options)).dial(name="x")
    client.send(b"SUB answer 1", *api(b"INFO", b"") * 1000)
    answers = (await client.ask()).count(b"MSG answer 1")
    assert await served.met("jetstream_requests") > 0
    while answers + await served.met("jetstream_requests") < 1000:
        answers += (await client.ask()).count(b"MSG answer 1")


def api(subject: bytes, body: bytes) -> list[bytes]:
    return [b"PUB $JS.API.%b answer %d" % (subject, len(body)), body]


async def test_monitoring_connections(start: Start) -> None:
    monitoring = Monitoring(http_port=-1, max_connections=1)
    served = await start(monitoring=monitoring)
    host, port = served.server.urls()["monitoring"][0].removeprefix("http://").split(":")
    opened = [await asyncio.open_connection(host, int(port)) for _ in range(6)]
    assert await opened[0][0].read() == b""  # without a request there is room for four
    assert await served.met("monitoring_connections") >= 1
    for _, writer in opened:
        writer.close()


async def test_closed_clients(start: Start) -> None:
    served = await start(limits=Limits(max_closed_clients=2))
    for _ in range(5):
        await (await served.dial(name="x")).close()
    while await served.met("closed_clients") < 3:
        await asyncio.sleep(0.01)
    assert len(served.server.broker.closed) == 2


async def test_closed_clients_are_bounded_by_their_bytes_too(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midge.server.clients.closed_clients.KEPT_MAX_BYTES", 100_000)
    served = await start()
    for _ in range(10):
        client = await served.dial(name="x" * 2_000)
        await client.ask(*(b"SUB %b.%d %d" % (b"s" * 500, i, i) for i in range(20)))
        await client.close()
    while await served.met("closed_clients") < 6:
        await asyncio.sleep(0.01)
    assert len(served.server.broker.closed) == 4


async def test_log_lines_per_offender(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    JOURNAL.configure(Logging(max_lines_per_offender_per_s=2))
    try:
        served = await start()
        for _ in range(20):
            client = await served.dial()
            client.send(b"NONSENSE")
            await client.until_end()
        assert await served.met("log_lines_per_offender") >= 10
        assert capsys.readouterr().err.count("protocol_error") <= 10
    finally:
        JOURNAL.reset()


async def test_hook_calls(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    decide = asyncio.Event()

    async def hang(request: Any) -> None:
        while not decide.is_set():
            with contextlib.suppress(asyncio.CancelledError):  # its place stays taken
                await decide.wait()

    monkeypatch.setattr("tests.support.hooks.current", hang)
    table = Authorization(
        hook="tests.support.hooks:authenticate", hook_timeout_s=0.2, hook_concurrency=2
    )
    served = await start(authorization=table)
    crowd = [await served.dial() for _ in range(5)]
    for client in crowd:
        client.send(b'CONNECT {"verbose":false}')
    for client in crowd:
        assert b"Authorization Violation" in await client.until_end()
    assert await served.met("hook_calls") == 3
    decide.set()


async def test_response_grants(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midge.server.auth.permissions.RESPONSES_MAX", 4)
    rules = Permissions(allow_responses=AllowResponses())
    users = (User(user="r", password="p", permissions=rules), User(user="x", password="p"))
    served = await start(authorization=Authorization(users=users))
    answering, asker = [await served.dial(user=name, **{"pass": "p"}) for name in "rx"]
    await answering.ask(b"SUB a 1")
    await asker.ask(*(b"PUB a reply.%d 0\r\n" % i for i in range(10)))
    assert await served.met("response_grants") == 6


async def test_service_requests(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midge.server.accounts.service_link.REQUESTS_MAX", 4)
    source = ImportSource(account="A", subject="svc")
    served = await start(
        accounts=(
            Account(
                name="A", users=(User(user="a", password="p"),), exports=(Export(service="svc"),)
            ),
            Account(
                name="B", users=(User(user="b", password="p"),), imports=(Import(service=source),)
            ),
        )
    )
    service, asker = [await served.dial(user=name, **{"pass": "p"}) for name in "ab"]
    await service.ask(b"SUB svc 1")
    await asker.ask(*(b"PUB svc reply.%d 0\r\n" % i for i in range(10)))
    assert await served.met("service_requests") == 6


async def test_the_security_page_tells_of_every_limit(start: Start, root: Path) -> None:
    served = await start()
    page = (root / "docs/security.md").read_text().partition("## Limits")[2].partition("## ")[0]
    told = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert told == list(await served.limits())
