"""Requests that store, list, look up and delete account tokens, and tokens for clients without."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest

from midge.server.auth.nkeys import KeyKind
from tests.e2e.security.test_url_resolver import serving
from tests.support.keys import UNLIMITED_ACCOUNT, KeyPair, make_token
from tests.support.processes import Server, command_of
from tests.support.raw import Raw

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

OPERATOR, STRANGER = KeyPair(KeyKind.OPERATOR), KeyPair(KeyKind.OPERATOR)
SYSTEM, FIRST, SECOND = (KeyPair(KeyKind.ACCOUNT) for _ in range(3))
MANAGER, USER, BEARER = (KeyPair(KeyKind.USER) for _ in range(3))
NO_LIMITS = {"subs": -1, "data": -1, "payload": -1}
VIOLATION = b"-ERR 'Authorization Violation'\r\n"

OPERATED = f"""
operator: {make_token(OPERATOR, OPERATOR.public, "operator")}
system_account: {SYSTEM.public}
"""
CONFIG = f"""{OPERATED}
resolver_preload: {{ {SYSTEM.public}: {make_token(OPERATOR, SYSTEM.public, "account")} }}
"""
RESOLVER = 'resolver {{ type: full, dir: "@directory@/tokens", {} }}\n'


def account(key: KeyPair, operator: KeyPair = OPERATOR) -> str:
    return make_token(operator, key.public, "account", nats={"limits": UNLIMITED_ACCOUNT})


def deletion(*keys: str, operator: KeyPair = OPERATOR) -> str:
    return make_token(operator, operator.public, "generic", nats={"accounts": list(keys)})


class Tool:
    """A client of the system account that sends requests."""

    def __init__(self, raw: Raw, server: Server) -> None:
        self.raw = raw
        self.server = server

    async def ask(self, subject: str, payload: str = "") -> list[bytes]:
        """Send a request; return the payloads of the answers, of which only PACK has several."""
        body = payload.encode()
        start = len(self.raw.received)
        self.raw.send(b"PUB %b answer %d" % (subject.encode(), len(body)), body)
        await self.raw.until(b"MSG answer" if not subject.endswith("PACK") else b" 0\r\n")
        await self.raw.ask()
        found = re.findall(rb"MSG answer 1 +(\d+)\r\n(.*)\r\n", self.raw.received[start:])
        return [content[: int(size)] for size, content in found]

    async def change(self, subject: str, payload: str = "") -> Any:
        """Send a request; return the answer without the server's fields."""
        (answer,) = await self.ask(subject, payload)
        document = json.loads(answer)
        assert document.pop("server")["ver"]
        return document

    async def admits(self, key: KeyPair) -> bool:
        """Return whether a user of an account may connect."""
        raw = await Raw.open(self.server.url)
        token = make_token(key, USER.public, "user", nats=NO_LIMITS)
        said = await raw.connect(jwt=token, sig=USER.signature(raw.info["nonce"].encode()))
        await raw.close()
        return said == b""


async def connected(server: Server) -> Tool:
    raw = await Raw.open(server.url)
    token = make_token(SYSTEM, MANAGER.public, "user", nats=NO_LIMITS)
    given = {"jwt": token, "sig": MANAGER.signature(raw.info["nonce"].encode())}
    assert await raw.connect(no_responders=True, **given) == b""
    await raw.ask(b"SUB answer 1")
    return Tool(raw, server)


@pytest.fixture(params=["real", "midge"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(request: pytest.FixtureRequest, kind: str) -> Iterator[Server]:
    options = getattr(request, "param", "")
    with Server(command_of(kind), CONFIG + RESOLVER.format(options)) as started:
        started.wait_ready()
        yield started


@pytest.fixture
async def tool(server: Server) -> AsyncIterator[Tool]:
    opened = await connected(server)
    yield opened
    await opened.raw.close()


def failed(text: str, key: str = "") -> Any:
    account_field = {"account": key} if key else {}
    return {"error": {**account_field, "code": 500, "description": text}}


async def test_tokens_are_stored_listed_and_found(tool: Tool) -> None:
    assert await tool.change("$SYS.REQ.CLAIMS.LIST") == {"data": [SYSTEM.public]}
    assert not await tool.admits(FIRST)
    for key, subject in (
        (FIRST, "$SYS.REQ.CLAIMS.UPDATE"),
        (SECOND, f"$SYS.REQ.ACCOUNT.{SECOND.public}.CLAIMS.UPDATE"),
    ):
        done = {"account": key.public, "code": 200, "message": "jwt updated"}
        assert await tool.change(subject, account(key)) == {"data": done}
        assert await tool.admits(key)
    listed = (await tool.change("$SYS.REQ.CLAIMS.LIST"))["data"]
    assert sorted(listed) == sorted(key.public for key in (SYSTEM, FIRST, SECOND))
    lookup = f"$SYS.REQ.ACCOUNT.{FIRST.public}.CLAIMS.LOOKUP"
    assert await tool.ask(lookup) == [account(FIRST).encode()]
    assert await tool.ask(f"$SYS.REQ.ACCOUNT.{OPERATOR.public}.CLAIMS.LOOKUP") == [b""]
    *lines, end = await tool.ask("$SYS.REQ.CLAIMS.PACK")
    assert end == b""
    assert {line.partition(b"|")[0].decode() for line in lines} == set(listed)


async def test_what_is_no_token_is_refused(tool: Tool) -> None:
    why = "jwt update resulted in error - "
    chunks = failed(f"{why}expected 3 chunks", "n/a")
    for text in ("", "x", "a.b"):
        assert await tool.change("$SYS.REQ.CLAIMS.UPDATE", text) == chunks
    other = f"$SYS.REQ.ACCOUNT.{SECOND.public}.CLAIMS.UPDATE"
    mismatch = failed(f"{why}subject does not match jwt content", SECOND.public)
    assert await tool.change(other, account(FIRST)) == mismatch
    off = f"delete accounts request by {OPERATOR.public} failed - delete must be enabled"
    answer = await tool.change("$SYS.REQ.CLAIMS.DELETE", deletion(FIRST.public))
    assert answer == failed(f"{off} in server config")


@pytest.mark.parametrize("kind", ["midge"], indirect=True)
async def test_a_token_of_another_operator_replaces_none(tool: Tool) -> None:
    """nats-server stores it, and admits none of the account's users from then on."""
    await tool.change("$SYS.REQ.CLAIMS.UPDATE", account(FIRST))
    answer = await tool.change("$SYS.REQ.CLAIMS.UPDATE", account(FIRST, STRANGER))
    assert "not signed by a trusted operator" in answer["error"]["description"]
    assert await tool.admits(FIRST)


@pytest.mark.parametrize(
    ("server", "kept"),
    [
        ("allow_delete: true", [".jwt.deleted"]),
        ("allow_delete: true, hard_delete: true", []),
    ],
    indirect=["server"],
)
async def test_an_operator_deletes_accounts(tool: Tool, kept: list[str]) -> None:
    await tool.change("$SYS.REQ.CLAIMS.UPDATE", account(FIRST))
    assert await tool.admits(FIRST)
    subject = "$SYS.REQ.CLAIMS.DELETE"
    for keys, operator, why in (
        ((FIRST.public,), STRANGER, "not trusted"),
        (("x",), OPERATOR, "malformed request"),
        ((SYSTEM.public,), OPERATOR, "not allowed to delete system account"),
    ):
        text = f"delete accounts request by {operator.public} failed - {why}"
        assert await tool.change(subject, deletion(*keys, operator=operator)) == failed(text)
    text = "delete accounts request by  failed - expected 3 chunks"
    assert await tool.change(subject, "x") == failed(text)
    done = {"data": {"code": 200, "message": "deleted 1 accounts"}}
    assert await tool.change(subject, deletion(FIRST.public)) == done
    assert not await tool.admits(FIRST)
    tokens = tool.server.config_path.with_name("tokens")
    names = [path.name for path in tokens.iterdir() if path.name.startswith(FIRST.public)]
    assert names == [FIRST.public + ending for ending in kept]


@pytest.mark.parametrize("server", ["limit: 2"], indirect=True)
async def test_a_full_directory_takes_no_more(tool: Tool) -> None:
    assert "data" in await tool.change("$SYS.REQ.CLAIMS.UPDATE", account(FIRST))
    full = failed("jwt update resulted in error - jwt store is full", SECOND.public)
    assert await tool.change("$SYS.REQ.CLAIMS.UPDATE", account(SECOND)) == full
    assert "data" in await tool.change("$SYS.REQ.CLAIMS.UPDATE", account(FIRST))


@pytest.fixture(params=["memory", "url"])
def kept(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the configuration of a resolver that has the tokens of two accounts in memory."""
    tokens = {key.public: account(key) for key in (SYSTEM, FIRST)}
    if request.param == "memory":
        preload = ", ".join(f"{key}: {token}" for key, token in tokens.items())
        yield f"{OPERATED}resolver: MEMORY\nresolver_preload: {{ {preload} }}\n"
        return
    with serving() as web:
        web.tokens.update(tokens)
        yield f'{OPERATED}resolver: URL("{web.url}/")\n'


async def test_an_account_in_use_gets_another_token(kind: str, kept: str) -> None:
    with Server(command_of(kind), kept) as server:
        tool = await connected(server)
        update = "$SYS.REQ.ACCOUNT.%s.CLAIMS.UPDATE"
        why = "jwt update resulted in error - "
        skipped = {"data": {"account": FIRST.public, "code": 200, "message": "jwt update skipped"}}
        assert await tool.change(update % FIRST.public, account(FIRST)) == skipped
        assert await tool.admits(FIRST)
        for payload, text in (
            ("", "jwt update error - request body is empty"),
            ("x", f"{why}expected 3 chunks"),
            (account(SECOND), f"{why}subject does not match jwt content"),
            (account(FIRST, STRANGER), f"{why}account validation failed"),
        ):
            assert await tool.change(update % FIRST.public, payload) == failed(text, FIRST.public)
        assert await tool.admits(FIRST)
        now = int(time.time()) + 60
        revoked = make_token(OPERATOR, FIRST.public, "account", nats={"revocations": {"*": now}})
        done = {"data": {"account": FIRST.public, "code": 200, "message": "jwt updated"}}
        for older in (update, update.replace("REQ.", "")):
            assert await tool.change(older % FIRST.public, revoked) == done
        assert not await tool.admits(FIRST)
        for subject in ("LIST", "UPDATE", "DELETE", "PACK"):
            asked = await tool.raw.ask(f"PUB $SYS.REQ.CLAIMS.{subject} answer 0".encode(), b"")
            assert b"NATS/1.0 503" in asked
        await tool.raw.close()


@pytest.mark.parametrize("has_sentinel", [False, True])
async def test_clients_without_a_token_have_the_default_one(kind: str, has_sentinel: bool) -> None:
    nats = {**NO_LIMITS, "bearer_token": True}
    sentinel = make_token(FIRST, BEARER.public, "user", nats=nats)
    config = CONFIG.replace("}", f"\n{FIRST.public}: {account(FIRST)} }}") + "resolver: MEMORY\n"
    config += f'default_sentinel: "{sentinel}"\n' if has_sentinel else ""
    with Server(command_of(kind), config) as server:
        server.wait_ready()
        raw = await Raw.open(server.url)
        said = await raw.connect()
        assert said == (b"" if has_sentinel else VIOLATION)
        await raw.close()


async def test_a_default_token_must_be_a_bearers(kind: str) -> None:
    token = make_token(FIRST, USER.public, "user", nats=NO_LIMITS)
    config = f'{CONFIG}resolver: MEMORY\ndefault_sentinel: "{token}"\n'
    with pytest.raises(RuntimeError, match="bearer"), Server(command_of(kind), config) as server:
        server.wait_ready()
