"""A callout service for tests, which answers a server's questions about clients as configured."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.keys import KeyPair, make_token
from tests.support.raw import Raw

SUBJECT = b"$SYS.REQ.USER.AUTH"
UNLIMITED_USER = {"subs": -1, "data": -1, "payload": -1}

Answer = Callable[["Asked"], bytes | None]


@dataclass
class Asked:
    """One request: its claims, its headers, and how the service signs."""

    claims: dict[str, Any]
    header: bytes
    issuer: KeyPair

    @property
    def user_key(self) -> str:
        return str(self.claims["nats"]["user_nkey"])

    @property
    def server_id(self) -> str:
        return str(self.claims["nats"]["server_id"]["id"])

    def user(
        self,
        *,
        issuer: KeyPair | None = None,
        subject: str = "",
        nats: dict[str, Any] | None = None,
        **claims: Any,
    ) -> str:
        """Sign the token of the user that was asked about."""
        rights = {**UNLIMITED_USER, **(nats or {})}
        who = subject or self.user_key
        return make_token(issuer or self.issuer, who, "user", nats=rights, **claims)

    def response(
        self,
        *,
        jwt: str = "",
        error: str = "",
        issuer: KeyPair | None = None,
        subject: str = "",
        **claims: Any,
    ) -> bytes:
        """Sign the answer."""
        said = {name: text for name, text in (("jwt", jwt), ("error", error)) if text}
        who = subject or self.user_key
        aud = {"aud": self.server_id, **claims}
        by = issuer or self.issuer
        return make_token(by, who, "authorization_response", nats=said, **aud).encode()


@dataclass
class CalloutService:
    """The service's connection, and what it was asked; `opened` decrypts requests."""

    raw: Raw
    issuer: KeyPair
    answer: Answer
    opened: Callable[[bytes], bytes] = bytes
    asked: list[Asked] = field(default_factory=list)
    _task: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        url: str,
        issuer: KeyPair,
        answer: Answer,
        credentials: dict[str, Any],
        tls: ssl.SSLContext | None = None,
    ) -> CalloutService:
        """Connect, subscribe, and answer from now on by `answer`."""
        raw = await Raw.open(url, tls)
        if callable(sign := credentials.pop("sign", None)):
            credentials["sig"] = sign(raw.info["nonce"].encode())
        said = await raw.connect(lang="service", **credentials)
        assert b"-ERR" not in said, said
        assert b"-ERR" not in await raw.ask(b"SUB " + SUBJECT + b" 1")
        service = cls(raw, issuer, answer)
        service._task = asyncio.ensure_future(service._serve())
        return service

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        await self.raw.close()

    async def _serve(self) -> None:
        while line := await self.raw._reader.readline():
            if line == b"PING\r\n":
                self.raw.send(b"PONG")
            words = line.split()
            if not words or words[0] not in (b"MSG", b"HMSG"):
                continue
            whole = await self.raw._reader.readexactly(int(words[-1]) + 2)
            headers = int(words[-2]) if words[0] == b"HMSG" else 0
            self._take(words[3], whole[:headers], whole[headers:-2])

    def _take(self, reply: bytes, header: bytes, payload: bytes) -> None:
        asked = Asked(claims_of(self.opened(payload)), header, self.issuer)
        self.asked.append(asked)
        answer = self.answer(asked)
        if answer is not None:
            self.raw.send(b"PUB %b %d" % (reply, len(answer)), answer)


def claims_of(token: bytes) -> dict[str, Any]:
    """Read the claims of a token, unverified."""
    part = token.split(b".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4)))
    return claims
