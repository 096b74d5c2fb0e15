"""Asking a service about a client: leftovers of the question, and changes by a reload."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import structs

import midge
from midge.server.auth import AuthRequest, Identity, Refusal
from midge.server.auth.nkeys import KeyKind
from midge.server.config.options import (
    Account,
    AuthCallout,
    Authorization,
    Options,
    User,
)
from midge.server.peers.leaf_nodes import LeafNodes as Nodes
from midge.server.peers.leaf_solicited import LEAF_ENDS
from midge.server.peers.ledger import Ledger
from midge.testing import ManualClock
from tests.support.callout import Asked, CalloutService
from tests.support.keys import KeyPair
from tests.support.raw import Raw

ISSUER = KeyPair(KeyKind.ACCOUNT)
ACCOUNTS = (
    Account(name="AUTH", users=(User(user="auth", password="p"),)),
    Account(name="APP", users=(User(user="app", password="p"),)),
)
CALLOUT = AuthCallout(issuer=ISSUER.public, account="AUTH", auth_users=("auth",))
PLAIN = Options(accounts=ACCOUNTS)
OPTIONS = Options(accounts=ACCOUNTS, authorization=Authorization(auth_callout=CALLOUT))
SERVICE: dict[str, Any] = {"user": "auth", "pass": "p"}


def place(asked: Asked) -> bytes:
    return asked.response(jwt=asked.user(aud="APP", name="ann"))


async def test_a_client_that_leaves_before_the_answer_leaves_nothing() -> None:
    async with midge.Server(OPTIONS, port=-1) as server:
        asked = asyncio.Event()

        def keep_silent(_: Asked) -> None:
            asked.set()

        service = await CalloutService.start(server.url, ISSUER, keep_silent, dict(SERVICE))
        account = server.broker.accounts["AUTH"]
        before = len(account.sublist)
        client = await Raw.open(server.url)
        client.send(b'CONNECT {"user":"x"}')
        await asked.wait()
        assert len(account.sublist) == before + 1
        await client.close()
        while len(account.sublist) > before:
            await asyncio.sleep(0)
        await service.stop()


async def test_without_an_answer_in_time_nobody_gets_in() -> None:
    clock = ManualClock()
    async with midge.Server(OPTIONS, port=-1, clock=clock) as server:
        waiting = server.broker.accounts["AUTH"].sublist
        before = len(waiting)
        client = await Raw.open(server.url)
        client.send(b'CONNECT {"user":"x"}', b"PING")
        while len(waiting) == before:
            await asyncio.sleep(0)
        clock.advance(1.9)
        assert len(waiting) > before
        clock.advance(0.2)
        assert await client.until_end() == b"-ERR 'Authorization Violation'\r\n"
        await client.close()
        assert len(waiting) == before


async def test_a_reload_that_brings_a_service_has_it_asked() -> None:
    async with midge.Server(PLAIN, port=-1) as server:
        server_id = server.broker.keys.server_id
        await server.reload(structs.replace(server.options, authorization=OPTIONS.authorization))
        service = await CalloutService.start(server.url, ISSUER, place, dict(SERVICE))
        client = await Raw.open(server.url)
        await client.connect(user="x", protocol=1)
        assert b'"remote_account":"APP"' in await client.ask()
        assert service.asked[0].server_id == server_id
        (name,) = (
            one.identity.user
            for one in server.broker.clients.values()
            if one.account.name == "APP" and one.identity is not None
        )
        assert name == "ann"
        await client.close()
        await service.stop()


async def test_leaf_nodes_by_users_of_clients_are_asked_about() -> None:
    async with midge.Server(OPTIONS, port=-1) as server:
        nodes = Nodes(server.broker, Ledger(), LEAF_ENDS)
        service = await CalloutService.start(server.url, ISSUER, place, dict(SERVICE))
        for user, account in (("app", "APP"), ("auth", "AUTH")):
            request = AuthRequest(user=user, password="p", connection_type="LEAFNODE")
            verdict = nodes.authenticate(request)
            if not isinstance(verdict, Identity | Refusal):
                verdict = await verdict
            assert isinstance(verdict, Identity)
            assert verdict.account == account
        assert [one.claims["nats"]["client_info"]["kind"] for one in service.asked] == ["Leafnode"]
        await service.stop()
