"""Every page has the same fields with the same types on both servers, in many set-ups."""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import TYPE_CHECKING, Any

import pytest

from midge.server.auth.nkeys import KeyKind
from midge.testing import SettlingClient
from tests.differential.pages import Site
from tests.support.keys import UNLIMITED_ACCOUNT, Authority, KeyPair, make_token, pem
from tests.support.processes import Server, midge_command, nats_server_command
from tests.support.raw import Raw

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

Fields = dict[str, dict[str, str]]
"""The types of the fields, by page."""

AUTHORITY = Authority()
CERTIFICATE, KEY = AUTHORITY.issue("CN=localhost")
FILES = {"cert.pem": pem(CERTIFICATE), "key.pem": KEY, "ca.pem": AUTHORITY.pem}
OPERATOR, SYSTEM, ACCOUNT = (
    KeyPair(KeyKind.OPERATOR),
    KeyPair(KeyKind.ACCOUNT),
    KeyPair(KeyKind.ACCOUNT),
)
USER = KeyPair(KeyKind.USER)
EXPORT = {"name": "e", "subject": "e", "type": "service"}
TOKENS = {
    OPERATOR: make_token(OPERATOR, OPERATOR.public, "operator"),
    SYSTEM: make_token(OPERATOR, SYSTEM.public, "account"),
    ACCOUNT: make_token(
        OPERATOR,
        ACCOUNT.public,
        "account",
        nats={"exports": [EXPORT], "limits": {**UNLIMITED_ACCOUNT, "exports": -1}},
    ),
    USER: make_token(
        ACCOUNT,
        USER.public,
        "user",
        nats={"subs": -1, "data": -1, "payload": -1, "tags": ["x:y"]},
        name="bob",
    ),
}
STREAMS: dict[str, dict[str, Any]] = {
    "STREAM.CREATE.S": {"name": "S", "subjects": ["s.>"], "storage": "file"},
    "STREAM.CREATE.M": {"name": "M", "storage": "memory", "mirror": {"name": "S"}},
    "STREAM.CREATE.X": {"name": "X", "storage": "memory", "sources": [{"name": "S"}]},
    "CONSUMER.DURABLE.CREATE.S.c": {
        "stream_name": "S",
        "config": {"durable_name": "c", "ack_policy": "explicit"},
    },
    "CONSUMER.DURABLE.CREATE.S.p": {
        "stream_name": "S",
        "config": {"durable_name": "p", "deliver_subject": "d", "ack_policy": "none"},
    },
}
TLS = 'cert_file: "@directory@/cert.pem", key_file: "@directory@/key.pem"'

SETUPS = {
    "plain": "",
    "tls": f"tls {{ {TLS} }}",
    "verify": f'tls {{ {TLS}, ca_file: "@directory@/ca.pem", verify: true }}',
    "websocket": f"websocket {{ port: -1, tls {{ {TLS} }} }}",
    "leafnodes": "leafnodes { port: -1 }",
    "leafnodes-tls": f"leafnodes {{ port: -1, tls {{ {TLS} }} }}",
    "remotes": """leafnodes { remotes: [ {
        url: "nats://127.0.0.1:1", deny_imports: [a], deny_exports: b, tls { insecure: true }
    } ] }""",
    "cluster": 'cluster { name: c, port: -1, routes: ["nats://127.0.0.1:1"] }',
    "jetstream": 'jetstream { store_dir: "@directory@/js" }',
    "jetstream-limits": """jetstream {
        store_dir: "@directory@/js", max_mem: 1G, max_file: 1G
        limits { max_ack_pending: 5, max_request_batch: 5, duplicate_window: "1m" }
    }""",
    "users": "authorization { users: [{ user: a, password: a }] }",
    "token": "authorization { token: t }",
    "tags": "server_tags: [a, b], server_metadata { x: y }, server_name: n",
    "accounts": """accounts {
        A { exports: [{ service: s }, { stream: t, accounts: [B] }], mappings { m: n } }
        B { imports: [{ service: { account: A, subject: s } }], jetstream: disabled }
        C { users: [{ user: a, password: a }] }
    }""",
    "limits": 'max_connections: 5, max_subs: 6, max_payload: 1KB, write_deadline: "3s"',
    "flags": "feature_flags { js_ack_fc_v2: true }",
    "encrypted-first": f"tls {{ {TLS}, handshake_first: true }}",
    "encrypted-client": f'tls {{ {TLS}, ca_file: "@directory@/ca.pem", verify: true }}',
    "tokens": f"""operator: {TOKENS[OPERATOR]}
        system_account: {SYSTEM.public}
        resolver: MEMORY
        resolver_preload: {{
            {SYSTEM.public}: {TOKENS[SYSTEM]}
            {ACCOUNT.public}: {TOKENS[ACCOUNT]}
        }}
    """,
    "nkeys": f"accounts {{ A {{ users: [{{ nkey: {USER.public} }}] }} }}",
    "streams": 'jetstream { store_dir: "@directory@/js" }',
}
PAGES = (
    *("/varz", "/connz?auth=1&subs=detail", "/connz?state=closed&subs=1", "/routez", "/leafz"),
    *("/subsz?subs=1", "/gatewayz", "/accountz", "/accountz?acc=A", "/accstatz?unused=1"),
    *("/jsz?accounts=1&streams=1&consumers=1&config=1", "/jsz?acc=X", "/healthz?details=1"),
    *("/jsz?accounts=1&streams=1&raft=1", "/connz?state=all&auth=1", "/ipqueuesz", "/raftz"),
    *("/ipqueuesz?all=x", f"/connz?limit={-(1 << 63)}", f"/subsz?offset={-(1 << 63)}"),
    *(f"/accountz?acc={ACCOUNT.public}", "/leafz?subs=1", "/routez?subs=detail"),
)
MEANT = {
    ("/varz", ".midge_version"),
    ("/varz", ".midge_build"),
    ("/varz", ".jetstream.config.sync_always"),
    ("/jsz", ".config.sync_always"),
}
"""Fields that midge adds; `sync_always` is what its default is called there."""

IN_EVERY_ACCOUNT = (".account_detail.imports", ".subscriptions_list")
"""The system's services are imports and subscriptions of each account there, and not here."""

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("name", SETUPS)
async def test_every_page_has_the_fields_of_nats_server(name: str) -> None:
    found = []
    for command in (nats_server_command(), midge_command()):
        config = f"http: 127.0.0.1:-1\n{SETUPS[name]}\n"
        with Server(command, config, files=FILES) as server:
            found.append(await asyncio.wait_for(look(server, name), 60))
    theirs, ours = found
    different = [
        (page, field, theirs[page].get(field), ours[page].get(field))
        for page in PAGES
        for field in sorted(theirs[page].keys() | ours[page].keys())
        if theirs[page].get(field) != ours[page].get(field)
        and (page.partition("?")[0], field) not in MEANT
        and not field.startswith(IN_EVERY_ACCOUNT)
    ]
    assert not different


async def look(server: Server, name: str) -> Fields:
    """Return the fields of each page, with their types, once a client has come and gone."""
    login: dict[str, Any] = {}
    if name in {"users", "accounts"}:
        login = {"user": "a", "password": "a"}
    elif name == "token":
        login = {"token": "t"}
    if name in OPEN:
        return await look_at(server, OPEN[name])
    if "tls" in SETUPS[name].partition(" ")[0]:
        return read(server)
    for _ in range(2):
        client = await SettlingClient.connected(server.url, allow_reconnect=False, **login)
        await client.subscribe("x")
        await client.flush()
        if not _:
            await client.close()
    try:
        return read(server)
    finally:
        await client.close()


async def with_certificate(server: Server) -> Raw:
    """Connect with a certificate of the authority."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(
        server.config_path.with_name("cert.pem"), server.config_path.with_name("key.pem")
    )
    is_first = "handshake_first" in server.config_path.read_text()
    raw = await Raw.open(server.url, context, is_tls_first=is_first)
    await raw.connect(tls_required=True)
    return raw


async def with_token(server: Server) -> Raw:
    raw = await Raw.open(server.url)
    await raw.connect(jwt=TOKENS[USER], sig=USER.signature(raw.info["nonce"].encode()))
    return raw


async def with_nkey(server: Server) -> Raw:
    raw = await Raw.open(server.url)
    await raw.connect(nkey=USER.public, sig=USER.signature(raw.info["nonce"].encode()))
    return raw


async def with_streams(server: Server) -> Raw:
    """Make streams and consumers, store a message, and wait for its copies."""
    raw = await Raw.open(server.url)
    await raw.connect()
    raw.send(b"SUB r 1")
    for request, document in STREAMS.items():
        body = json.dumps(document).encode()
        raw.send(b"PUB $JS.API.%b r %d" % (request.encode(), len(body)), body)
        assert b"error" not in await raw.until(b"created")
    raw.send(b"PUB s.a r 1", b"x")
    await raw.until(b'"seq"')
    site = Site(server)
    while site.get("/jsz").page["messages"] < len(("S", "M", "X")):
        await asyncio.sleep(0.02)
    return raw


OPEN: dict[str, Callable[[Server], Awaitable[Raw]]] = {
    "encrypted-client": with_certificate,
    "encrypted-first": with_certificate,
    "tokens": with_token,
    "nkeys": with_nkey,
    "streams": with_streams,
}
"""How a client connects in a set-up where the official client's way is not enough."""


async def look_at(server: Server, connect: Callable[[Server], Awaitable[Raw]]) -> Fields:
    """Return the fields of each page, once a client has come and gone and another one stays."""
    if connect is not with_streams:
        gone = await connect(server)
        await gone.close()
        site = Site(server)
        while not site.get("/connz?state=closed").page["connections"]:
            await asyncio.sleep(0.02)
    stays = await connect(server)
    try:
        return read(server)
    finally:
        await stays.close()


def read(server: Server) -> Fields:
    site = Site(server)
    return {page: dict(fields(json_of(site, page))) for page in PAGES}


def json_of(site: Site, path: str) -> Any:
    answer = site.get(path)
    return answer.page if answer.status == 200 else {"status": answer.status}


def fields(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each field of a page with its type; lists are one with all that their items have."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from fields(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from fields(inner, f"{path}[]")
    elif isinstance(value, bool):
        yield path, "bool"
    else:
        yield path, "number" if isinstance(value, int | float) else type(value).__name__
