"""Clients that show tokens of an operator's accounts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from midge.server.auth.nkeys import KeyKind
from midge.server.options import Operator
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
