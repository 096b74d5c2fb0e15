"""Operator mode with account tokens from a web server."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from midge.server.auth import url_resolver
from midge.server.auth.nkeys import KeyKind
from midge.server.config.options import ClientTls, Operator
from midge.server.errors import ConfigError
from tests.support.keys import Authority, KeyPair, make_token, pem
from tests.support.processes import Server, midge_command, nats_server_command
from tests.support.raw import Raw
from tests.support.users import VIOLATION, Open, Start

OPERATOR = KeyPair(KeyKind.OPERATOR)
ACCOUNT, EXPORTER, SYSTEM = (KeyPair(KeyKind.ACCOUNT) for _ in range(3))
USER = KeyPair(KeyKind.USER)
WAIT_S = 60.0


def account_token(account: KeyPair = ACCOUNT, **nats: Any) -> str:
    return make_token(OPERATOR, account.public, "account", nats=nats)


def user_token(account: KeyPair = ACCOUNT) -> str:
    return make_token(account, USER.public, "user", nats={"subs": -1, "data": -1, "payload": -1})


class Web:
    """A web server with tokens; `asked` counts requests by path."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.tokens: dict[str, str] = {SYSTEM.public: account_token(SYSTEM)}
        self.asked: Counter[str] = Counter()
        self.gate = threading.Event()
        self.gate.set()
        self.status = 200
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.answer(self)

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self._server.server_port}/jwt/v1"
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        key = handler.path.removeprefix("/jwt/v1/")
        self.asked[key] += 1
        self.gate.wait(WAIT_S)
        found = self.tokens.get(key, "") if key else "up"
        with suppress(OSError):  # the client may have gone
            handler.send_response(self.status if found else 404)
            handler.end_headers()
            handler.wfile.write(found.encode())

    def stop(self) -> None:
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[Web]:
    web = Web(context)
    try:
        yield web
    finally:
        web.stop()


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as made:
        yield made


def operator(web: Web, **fields: Any) -> Operator:
    trusted = (OPERATOR.public,)
    return Operator(trusted_keys=trusted, resolver="url", resolver_url=web.url, **fields)


async def sign_in(raw: Raw, token: str) -> bytes:
    signature = USER.signature(raw.info["nonce"].encode())
    return await raw.connect(jwt=token, sig=signature, protocol=1)


@pytest.mark.parametrize("command", [nats_server_command(), midge_command()])
async def test_a_file_of_nats_server(command: list[str], web: Web) -> None:
    web.tokens[ACCOUNT.public] = account_token()
    operator_token = make_token(OPERATOR, OPERATOR.public, "operator")
    config = f"operator: {operator_token}\nsystem_account: {SYSTEM.public}\n"
    with Server(command, f'{config}resolver: URL("{web.url}")') as server:
        assert set(web.asked) == {"", SYSTEM.public}
        raw = await Raw.open(server.url)
        assert await sign_in(raw, user_token()) == b""
        stranger = await Raw.open(server.url)
        assert await sign_in(stranger, user_token(EXPORTER)) == VIOLATION
        await raw.close()
        await stranger.close()


@pytest.mark.parametrize("command", [nats_server_command(), midge_command()])
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('resolver: URL("http://127.0.0.1:1/x")', "127.0.0.1:1/x"),
        ('resolver: URL("ftp://127.0.0.1/x")', "ftp:"),
        ("resolver: URL()", ""),
        ('resolver { type: URL, dir: "x" }', "resolver.conf"),
        (
            (
                'resolver: URL("http://127.0.0.1:1/")\n'
                f"resolver_preload {{ {ACCOUNT.public}: {account_token()} }}"
            ),
            "MEM/DIR/CACHE_DIR",
        ),
    ],
)
def test_what_does_not_start(command: list[str], line: str, said: str) -> None:
    config = f"operator: {make_token(OPERATOR, OPERATOR.public, 'operator')}\n{line}"
    server = Server(command, config)
    with pytest.raises(RuntimeError) as caught:
        server.wait_ready()
    assert said.replace("resolver.conf", "server.conf:2") in str(caught.value)


async def test_a_web_server_that_is_not_ready(start: Start, web: Web) -> None:
    web.status = 503
    with pytest.raises(ConfigError, match=r"could not fetch .*/jwt/v1/.*Service Unavailable"):
        await start(operator=operator(web))


async def test_imports_are_asked_for_and_tokens_are_kept(
    start: Start, dial: Open, web: Web
) -> None:
    export = {"name": "e", "subject": "news", "type": "stream"}
    taken = {"name": "e", "subject": "news", "account": EXPORTER.public, "type": "stream"}
    web.tokens[EXPORTER.public] = account_token(EXPORTER, exports=[export])
    web.tokens[ACCOUNT.public] = account_token(imports=[taken])
    server = await start(operator=operator(web))
    reader, writer = await dial(server), await dial(server)
    assert await sign_in(reader, user_token()) == b""
    await reader.ask(b"SUB news 1")
    assert await sign_in(writer, user_token(EXPORTER)) == b""
    await writer.ask(b"PUB news 2", b"hi")
    assert b"MSG news 1 2\r\nhi" in await reader.ask()
    again = await dial(server)
    assert await sign_in(again, user_token()) == b""
    assert web.asked[ACCOUNT.public] == web.asked[EXPORTER.public] == 1


async def test_a_revocation_arrives_and_an_absent_web_server_changes_nothing(
    start: Start, dial: Open, web: Web
) -> None:
    web.tokens[ACCOUNT.public] = account_token()
    server = await start(operator=operator(web, resolver_interval_s=1))
    raw = await dial(server)
    assert await sign_in(raw, user_token()) == b""
    web.status = 500
    async with asyncio.timeout(WAIT_S):
        while web.asked[ACCOUNT.public] < 3:
            await asyncio.sleep(0.05)
    assert b"-ERR" not in await raw.ask()
    web.tokens[ACCOUNT.public] = account_token(revocations={USER.public: 5000})
    web.status = 200
    assert (await raw.until_end()).endswith(b"-ERR 'User Authentication Revoked'\r\n")


async def test_many_unknown_accounts_are_asked_for_a_few_at_a_time(
    start: Start, dial: Open, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(url_resolver, "_WAITING_MAX", 8)
    web.tokens[ACCOUNT.public] = account_token()
    server = await start(operator=operator(web))
    known = await dial(server)
    assert await sign_in(known, user_token()) == b""
    web.gate.clear()
    strangers = [await dial(server) for _ in range(30)]
    asking = [
        asyncio.ensure_future(sign_in(raw, user_token(KeyPair(KeyKind.ACCOUNT))))
        for raw in strangers
    ]
    done, waiting = await asyncio.wait(asking, timeout=WAIT_S, return_when="FIRST_COMPLETED")
    assert {one.result() for one in done} == {VIOLATION}
    another = await dial(server)
    assert await sign_in(another, user_token()) == b"", "a known account needs no web server"
    web.gate.set()
    assert set(await asyncio.gather(*waiting)) <= {VIOLATION}
    assert sum(web.asked.values()) <= len(("", SYSTEM, ACCOUNT)) + 8
    same = KeyPair(KeyKind.ACCOUNT)
    for _ in range(3):
        assert await sign_in(await dial(server), user_token(same)) == VIOLATION
    assert web.asked[same.public] == 1


async def test_a_reload_keeps_the_tokens(start: Start, dial: Open, web: Web) -> None:
    web.tokens[ACCOUNT.public] = account_token()
    server = await start(operator=operator(web))
    raw = await dial(server)
    assert await sign_in(raw, user_token()) == b""
    web.gate.clear()
    await server.reload(server.options)
    assert b"-ERR" not in await raw.ask()
    assert web.asked[ACCOUNT.public] == 1


async def test_encryption(start: Start, dial: Open, tmp_path: Path) -> None:
    authority = Authority()
    certificate, key = authority.issue(
        "CN=server", [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    for name, content in (("c", pem(certificate)), ("k", key), ("ca", authority.pem)):
        (tmp_path / name).write_bytes(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "c", tmp_path / "k")
    with serving(context) as web:
        web.tokens[ACCOUNT.public] = account_token()
        with pytest.raises(ConfigError, match="CERTIFICATE_VERIFY_FAILED"):
            await start(operator=operator(web))
        tls = ClientTls(ca_file=str(tmp_path / "ca"))
        server = await start(operator=operator(web, resolver_tls=tls))
        assert await sign_in(await dial(server), user_token()) == b""
