"""Every page has the same fields with the same types on both servers, in many set-ups."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from midge.testing import SettlingClient
from tests.differential.pages import Site
from tests.support.keys import Authority, pem
from tests.support.processes import Server, midge_command, nats_server_command

if TYPE_CHECKING:
    from collections.abc import Iterator

AUTHORITY = Authority()
CERTIFICATE, KEY = AUTHORITY.issue("CN=localhost")
FILES = {"cert.pem": pem(CERTIFICATE), "key.pem": KEY, "ca.pem": AUTHORITY.pem}
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
}
PAGES = (
    *("/varz", "/connz?auth=1&subs=detail", "/connz?state=closed&subs=1", "/routez", "/leafz"),
    *("/subsz?subs=1", "/gatewayz", "/accountz", "/accountz?acc=A", "/accstatz?unused=1"),
    *("/jsz?accounts=1&streams=1&consumers=1&config=1", "/jsz?acc=X", "/healthz?details=1"),
)
MEANT = {
    ("/varz", ".midge_version"),
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


async def look(server: Server, name: str) -> dict[str, dict[str, str]]:
    """Return the fields of each page, with their types, once a client has come and gone."""
    login: dict[str, Any] = {}
    if name in {"users", "accounts"}:
        login = {"user": "a", "password": "a"}
    elif name == "token":
        login = {"token": "t"}
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


def read(server: Server) -> dict[str, dict[str, str]]:
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
