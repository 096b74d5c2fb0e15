"""Clients that show tokens of an operator's accounts."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from midge.server.auth.nkeys import KeyKind
from midge.server.config.options import JetStream, Operator
from tests.support.keys import KeyPair, make_token
from tests.support.raw import Raw
from tests.support.users import VIOLATION, Open, Start


class TestOperatorMode:
    OPERATOR, ACCOUNT, USER = (
        KeyPair(KeyKind.OPERATOR),
        KeyPair(KeyKind.ACCOUNT),
        KeyPair(KeyKind.USER),
    )

    def account_token(self, **nats: Any) -> str:
        return make_token(self.OPERATOR, self.ACCOUNT.public, "account", nats=nats)

    def user_token(self, account: KeyPair | None = None, **claims: Any) -> str:
        nats = {"subs": -1, "data": -1, "payload": -1, **claims.pop("nats", {})}
        return make_token(account or self.ACCOUNT, self.USER.public, "user", nats=nats, **claims)

    def operator(self, folder: Path, **fields: Any) -> Operator:
        return Operator(
            trusted_keys=(self.OPERATOR.public,),
            resolver="directory",
            resolver_directory=str(folder),
            **fields,
        )

    async def sign_in(self, raw: Raw, token: str) -> bytes:
        signature = self.USER.signature(raw.info["nonce"].encode())
        return await raw.connect(jwt=token, sig=signature, protocol=1)

    async def test_tokens_let_in_and_bring_permissions(
        self, start: Start, dial: Open, tmp_path: Path
    ) -> None:
        (tmp_path / f"{self.ACCOUNT.public}.jwt").write_text(self.account_token())
        server = await start(operator=self.operator(tmp_path))
        raw = await dial(server)
        token = self.user_token(nats={"pub": {"deny": ["no"]}})
        assert await self.sign_in(raw, token) == b""
        assert b"Permissions Violation" in await raw.ask(b"PUB no 0", b"")
        assert self.ACCOUNT.public.encode() in raw.received
        stranger = await dial(server)
        assert await stranger.connect(user="x") == VIOLATION

    async def test_a_token_that_ends_takes_its_connection_along(
        self, start: Start, dial: Open, tmp_path: Path
    ) -> None:
        (tmp_path / f"{self.ACCOUNT.public}.jwt").write_text(self.account_token())
        server = await start(operator=self.operator(tmp_path))
        raw = await dial(server)
        assert await self.sign_in(raw, self.user_token(exp=int(time.time()) + 1)) == b""
        ended = await raw.until_end()
        assert ended.endswith(b"-ERR 'User Authentication Expired'\r\n")

    async def test_a_revoked_user_is_sent_away_by_the_next_scan(
        self, start: Start, dial: Open, tmp_path: Path
    ) -> None:
        file = tmp_path / f"{self.ACCOUNT.public}.jwt"
        file.write_text(self.account_token())
        server = await start(operator=self.operator(tmp_path, resolver_interval_s=1))
        raw = await dial(server)
        assert await self.sign_in(raw, self.user_token()) == b""
        file.write_text(self.account_token(revocations={self.USER.public: 5000}))
        ended = await raw.until_end()
        assert ended.endswith(b"-ERR 'User Authentication Revoked'\r\n")

    async def test_a_changed_scope_holds_for_those_who_are_there(
        self, start: Start, dial: Open, tmp_path: Path
    ) -> None:
        scoped = KeyPair(KeyKind.ACCOUNT)

        def account_token(*allowed: str) -> str:
            template = {"subs": -1, "data": -1, "payload": -1, "pub": {"allow": allowed}}
            key = {"kind": "user_scope", "key": scoped.public, "template": template}
            return self.account_token(signing_keys=[key])

        file = tmp_path / f"{self.ACCOUNT.public}.jwt"
        file.write_text(account_token("old", "new"))
        server = await start(operator=self.operator(tmp_path, resolver_interval_s=1))
        raw = await dial(server)
        own = {"issuer_account": self.ACCOUNT.public}
        token = make_token(scoped, self.USER.public, "user", nats=own)
        assert await self.sign_in(raw, token) == b""
        assert b"-ERR" not in await raw.ask(b"PUB old 0", b"")
        file.write_text(account_token("new"))
        async with asyncio.timeout(60):
            while b"Permissions Violation" not in await raw.ask(b"PUB old 0", b""):
                await asyncio.sleep(0.05)
        assert await raw.ask(b"PUB new 0", b"") == b""

    async def test_a_bearer_is_sent_away_when_the_account_wants_none_any_more(
        self, start: Start, dial: Open, tmp_path: Path
    ) -> None:
        file = tmp_path / f"{self.ACCOUNT.public}.jwt"
        file.write_text(self.account_token())
        server = await start(operator=self.operator(tmp_path, resolver_interval_s=1))
        raw = await dial(server)
        token = self.user_token(nats={"bearer_token": True})
        assert await raw.connect(jwt=token) == b""
        limits = {"subs": -1, "conn": -1, "payload": -1, "disallow_bearer": True}
        file.write_text(self.account_token(limits=limits))
        assert (await raw.until_end()).endswith(VIOLATION)

    async def test_an_activation_that_expires_ends_the_import(
        self, start: Start, dial: Open
    ) -> None:
        """With the accounts in memory as well, where nothing else ever changes."""
        other = KeyPair(KeyKind.ACCOUNT)
        activation = make_token(
            self.ACCOUNT,
            other.public,
            "activation",
            nats={"subject": "private", "kind": "stream"},
            exp=int(time.time()) + 2,
        )
        export = {"subject": "private", "type": "stream", "token_req": True}
        imported = {"account": self.ACCOUNT.public, "subject": "private", "type": "stream"}
        tokens = {
            self.ACCOUNT.public: self.account_token(exports=[export]),
            other.public: make_token(
                self.OPERATOR,
                other.public,
                "account",
                nats={"imports": [{**imported, "token": activation}]},
            ),
        }
        operator = Operator(
            trusted_keys=(self.OPERATOR.public,), resolver_preload=tokens, resolver_interval_s=1
        )
        server = await start(operator=operator)
        a, b = await dial(server), await dial(server)
        assert await self.sign_in(a, self.user_token()) == b""
        assert await self.sign_in(b, self.user_token(other)) == b""
        await b.ask(b"SUB private 1")
        await a.ask(b"PUB private 1", b"1")
        assert b"MSG private 1 1\r\n1\r\n" in await b.ask()
        async with asyncio.timeout(60):
            while True:
                await a.ask(b"PUB private 1", b"1")
                if b"MSG" not in await b.ask():
                    return
                await asyncio.sleep(0.05)

    async def test_accounts_of_tokens_import_from_each_other(
        self, start: Start, dial: Open, tmp_path: Path
    ) -> None:
        other = KeyPair(KeyKind.ACCOUNT)
        exports = [
            {"name": "open", "subject": "st.>", "type": "stream"},
            {"name": "closed", "subject": "private", "type": "stream", "token_req": True},
        ]
        imports = [
            {"account": self.ACCOUNT.public, "subject": subject, "type": "stream"}
            for subject in ("st.>", "private")
        ]
        (tmp_path / f"{self.ACCOUNT.public}.jwt").write_text(self.account_token(exports=exports))
        (tmp_path / f"{other.public}.jwt").write_text(
            make_token(self.OPERATOR, other.public, "account", nats={"imports": imports})
        )
        server = await start(operator=self.operator(tmp_path))
        a, b = await dial(server), await dial(server)
        assert await self.sign_in(a, self.user_token()) == b""
        assert await self.sign_in(b, self.user_token(other)) == b""
        await b.ask(b"SUB > 1")
        await a.ask(b"PUB st.x 1", b"1", b"PUB private 1", b"2", b"PUB own 1", b"3")
        assert b"MSG st.x 1 1\r\n1\r\n" in (got := await b.ask())
        assert b"private" not in got

    async def test_streams_of_tokens_accounts_are_there_before_their_clients(
        self, start: Start, dial: Open, tmp_path: Path
    ) -> None:
        limits = {"subs": -1, "conn": -1, "payload": -1, "data": -1, "disk_storage": -1}
        tokens = tmp_path / "tokens"
        tokens.mkdir()
        file = tokens / f"{self.ACCOUNT.public}.jwt"
        file.write_text(self.account_token(limits={**limits, "streams": 1}))
        jetstream = JetStream(enabled=True, store_dir=str(tmp_path / "store"))
        settings = {"operator": self.operator(tokens, resolver_interval_s=1)}
        server = await start(**settings, jetstream=jetstream)
        raw = await dial(server)
        assert await self.sign_in(raw, self.user_token()) == b""
        assert b"stream_create_response" in await self.ask_for_stream(raw, "ONE")
        assert b"maximum number of streams" in await self.ask_for_stream(raw, "TWO")
        file.write_text(self.account_token(limits={**limits, "streams": 2}))
        async with asyncio.timeout(60):
            while b"maximum number of streams" in await self.ask_for_stream(raw, "TWO"):
                await asyncio.sleep(0.05)
        await server.stop()
        again = await start(**settings, jetstream=jetstream)
        assert again.jetstream is not None
        assert set(again.jetstream.accounts[self.ACCOUNT.public].streams.streams) == {"ONE", "TWO"}

    async def ask_for_stream(self, raw: Raw, name: str) -> bytes:
        """Request a stream; return the answer."""
        body = json.dumps({"name": name, "subjects": [name]}).encode()
        await raw.ask(b"SUB inbox 1")
        command = b"PUB $JS.API.STREAM.CREATE.%b inbox %d" % (name.encode(), len(body))
        answer = await raw.ask(command, body)
        while b"stream_create_response" not in answer:
            answer += await raw.ask(b"PUB nowhere 0", b"")
        return answer
