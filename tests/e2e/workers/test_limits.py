"""Limits that count over all workers, and users that tokens or a service decide on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from midge.server.auth.nkeys import KeyKind
from tests.support.callout import Asked, CalloutService
from tests.support.keys import UNLIMITED_ACCOUNT, KeyPair, credentials_file, make_token
from tests.support.processes import Server, midge_command, nats_server_command
from tests.support.raw import Raw

TIMEOUT_S = 60
WORKERS = ("--workers", "2")
FULL = b"-ERR 'maximum connections exceeded'\r\n"
ACCOUNT_FULL = b"-ERR 'maximum account active connections exceeded'\r\n"

LIMITED = """
accounts {
    A { users: [ { user: a, password: p } ], limits { max_connections: 3 } }
    B { users: [ { user: b, password: p }, { user: c, password: p } ] }
}
"""
OPERATOR, ACCOUNT, OTHER, USER = (
    KeyPair(KeyKind.OPERATOR),
    KeyPair(KeyKind.ACCOUNT),
    KeyPair(KeyKind.ACCOUNT),
    KeyPair(KeyKind.USER),
)
ISSUER = KeyPair(KeyKind.ACCOUNT)
CALLOUT = f"""
accounts {{
    AUTH {{ users: [ {{ user: auth, password: p }} ] }}
    APP {{ users: [ {{ user: app, password: p }} ] }}
}}
authorization {{
    auth_callout {{ issuer: {ISSUER.public}, account: AUTH, auth_users: [ auth ] }}
}}
"""

Dial = Callable[[Server], Awaitable[Raw]]


@pytest.fixture
async def dial() -> AsyncIterator[Dial]:
    async with AsyncExitStack() as stack:

        async def dial_one(server: Server) -> Raw:
            raw = await Raw.open(server.url)
            stack.push_async_callback(raw.close)
            return raw

        yield dial_one


async def login(dial: Dial, server: Server, user: str) -> tuple[Raw, bytes]:
    raw = await dial(server)
    return raw, await raw.connect(**{"user": user, "pass": "p"})


async def admitted(dial: Dial, server: Server, user: str, count: int) -> list[Raw]:
    """Connect `count` clients at once, and return those that are let in."""
    found = await asyncio.gather(*(login(dial, server, user) for _ in range(count)))
    return [raw for raw, answer in found if answer == b""]


async def again(dial: Dial, server: Server, user: str) -> Raw:
    """Connect one more, as soon as there is a place for it."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            raw, answer = await login(dial, server, user)
            if answer == b"":
                return raw


async def test_an_account_has_so_many_connections_in_all_workers(dial: Dial) -> None:
    with Server(midge_command(), LIMITED, WORKERS) as server:
        inside = await admitted(dial, server, "a", 8)
        assert len(inside) == 3
        assert (await login(dial, server, "a"))[1] == ACCOUNT_FULL
        assert len(await admitted(dial, server, "b", 4)) == 4
        await inside[0].close()
        await again(dial, server, "a")
        assert (await login(dial, server, "a"))[1] == ACCOUNT_FULL


async def test_a_user_and_an_address_have_so_many_connections_in_all_workers(dial: Dial) -> None:
    limits = {"USER": 2, "ADDRESS": 5}
    settings = [f"MIDGE_LIMITS_MAX_CONNECTIONS_PER_{name}={most}" for name, most in limits.items()]
    with Server(["env", *settings, *midge_command()], LIMITED, WORKERS) as server:
        inside = await admitted(dial, server, "b", 5)
        assert len(inside) == 2
        await again(dial, server, "c")
        await again(dial, server, "c")
        assert (await login(dial, server, "c"))[1] == FULL
        await again(dial, server, "a")
        assert await (await dial(server)).until_end() == FULL
        await inside[0].close()
        await again(dial, server, "b")


async def test_a_limit_that_a_reload_brings_finds_everybody_counted(dial: Dial) -> None:
    with Server(midge_command(), LIMITED.replace("max_connections: 3", ""), WORKERS) as server:
        inside = await admitted(dial, server, "a", 5)
        assert len(inside) == 5
        server.signal("SIGHUP", LIMITED)
        ended = [asyncio.ensure_future(raw.until_end()) for raw in inside]
        async with asyncio.timeout(TIMEOUT_S):
            while sum(one.done() for one in ended) < 2:
                await asyncio.sleep(0.01)
        assert (await login(dial, server, "a"))[1] == ACCOUNT_FULL
        assert sum(one.done() for one in ended) == 2
        for one in ended:
            one.cancel()


async def test_the_newest_of_all_workers_leave_when_fewer_may_stay(dial: Dial) -> None:
    with Server(midge_command(), "max_connections: 9\n", WORKERS) as server:
        inside = [await dial(server) for _ in range(6)]
        for raw in inside:
            assert await raw.connect() == b""
        server.signal("SIGHUP", "max_connections: 3\n")
        for raw in inside[3:]:
            assert await raw.until_end() == FULL
        for raw in inside[:3]:
            assert await raw.ask() == b""


def account_token(account: KeyPair, **nats: Any) -> str:
    return make_token(OPERATOR, account.public, "account", nats=nats)


def user_token(account: KeyPair) -> str:
    return make_token(account, USER.public, "user", nats={"subs": -1, "data": -1, "payload": -1})


async def sign_in(raw: Raw, account: KeyPair = ACCOUNT) -> bytes:
    signature = USER.signature(raw.info["nonce"].encode())
    return await raw.connect(jwt=user_token(account), sig=signature, protocol=1)


def operator_config(interval_s: int = 1) -> str:
    return f"""
trusted: [ {OPERATOR.public} ]
resolver: {{ type: full, dir: "@directory@", interval: "{interval_s}s" }}
"""


def token_files(**tokens: str) -> dict[str, bytes]:
    return {f"{key}.jwt": token.encode() for key, token in tokens.items()}


async def test_tokens_limit_connections_and_are_revoked_in_all_workers(dial: Dial) -> None:
    limits = {"subs": -1, "conn": 3, "payload": -1}
    files = token_files(**{ACCOUNT.public: account_token(ACCOUNT, limits=limits)})
    with Server(midge_command(), operator_config(), WORKERS, files=files) as server:
        raws = [await dial(server) for _ in range(4)]
        answers = await asyncio.gather(*(sign_in(raw) for raw in raws))
        assert answers.count(ACCOUNT_FULL) == 1
        inside = [raw for raw, said in zip(raws, answers, strict=True) if said == b""]
        assert len(inside) == 3
        revoked = account_token(ACCOUNT, limits=limits, revocations={USER.public: 5000})
        (server.config_path.parent / f"{ACCOUNT.public}.jwt").write_text(revoked)
        for raw in inside:
            assert (await raw.until_end()).endswith(b"-ERR 'User Authentication Revoked'\r\n")


async def test_imports_of_accounts_by_token_work_from_every_worker(dial: Dial) -> None:
    exports = [{"name": "e", "subject": "news.>", "type": "stream"}]
    imports = [{"name": "i", "subject": "news.>", "account": OTHER.public, "type": "stream"}]
    files = token_files(
        **{
            ACCOUNT.public: account_token(ACCOUNT, imports=imports),
            OTHER.public: account_token(OTHER, exports=exports),
        }
    )
    with Server(midge_command(), operator_config(60), WORKERS, files=files) as server:
        raws = [await dial(server) for _ in range(4)]
        for raw, account in zip(raws, (OTHER, OTHER, ACCOUNT, OTHER), strict=True):
            assert await sign_in(raw, account) == b""
        importer = raws[2]
        await importer.ask(b"SUB news.> 1")
        for raw in (raws[0], raws[1], raws[3]):
            await raw.ask(b"PUB news.a 1", b"x")
        found = b""
        async with asyncio.timeout(TIMEOUT_S):
            while found.count(b"MSG news.a") < 3:
                found += await importer.ask()
        assert found.count(b"MSG news.a") == 3


async def test_an_account_that_only_a_leaf_node_has_is_known_to_every_worker(dial: Dial) -> None:
    exports = [{"name": "e", "subject": "news.>", "type": "stream"}]
    imports = [{"name": "i", "subject": "news.>", "account": OTHER.public, "type": "stream"}]
    files = token_files(
        **{
            ACCOUNT.public: account_token(
                ACCOUNT, imports=imports, limits={**UNLIMITED_ACCOUNT, "leaf": -1}
            ),
            OTHER.public: account_token(OTHER, exports=exports),
        }
    )
    hub = operator_config(60) + 'leafnodes { listen: "127.0.0.1:-1" }\n'
    with Server(midge_command(), hub, WORKERS, files=files) as server:
        raws = [await dial(server) for _ in range(2)]
        for raw in raws:
            assert await sign_in(raw, OTHER) == b""
        host, port = server.address("leafnodes")
        remote = f'url: "nats-leaf://{host}:{port}", credentials: "@directory@/user.creds"'
        leaf = f"leafnodes {{ remotes: [ {{ {remote} }} ] }}\n"
        creds = credentials_file(user_token(ACCOUNT), USER)
        with Server(nats_server_command(), leaf, files={"user.creds": creds}) as behind:
            subscriber = await dial(behind)
            await subscriber.connect()
            await subscriber.ask(b"SUB news.> 1")
            for i, raw in enumerate(raws):
                found = b""
                async with asyncio.timeout(TIMEOUT_S):
                    while b"MSG news.%d 1" % i not in found:
                        await raw.ask(b"PUB news.%d 1" % i, b"x")
                        found = await subscriber.ask()


def place(asked: Asked) -> bytes:
    return asked.response(jwt=asked.user(aud="APP", name="ann"))


async def test_a_service_in_one_worker_decides_on_the_clients_of_all(dial: Dial) -> None:
    with Server(midge_command(), CALLOUT, WORKERS) as server:
        credentials = {"user": "auth", "pass": "p"}
        service = await CalloutService.start(server.url, ISSUER, place, credentials)
        raws = [await dial(server) for _ in range(4)]
        for raw in raws:
            assert await raw.connect(user="x", protocol=1) == b""
            assert b'"remote_account":"APP"' in await raw.ask()
        assert len({asked.server_id for asked in service.asked}) == 1
        assert {asked.claims["iss"] for asked in service.asked} == {raws[0].info["server_id"]}
        await raws[0].ask(b"SUB x 1")
        await raws[1].ask(b"PUB x 1", b"1")
        await raws[0].until(b"1\r\n")
        await service.stop()
