"""Both servers say alike whether it was the account or the user that has expired."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from midge.server.auth.nkeys import KeyKind
from tests.support.keys import KeyPair, make_token
from tests.support.processes import Server, midge_command, nats_server_command
from tests.support.raw import Raw

ACCOUNT_EXPIRED = b"-ERR 'Account Authentication Expired'\r\n"
USER_EXPIRED = b"-ERR 'User Authentication Expired'\r\n"
VIOLATION = b"-ERR 'Authorization Violation'\r\n"
OPERATOR, SYSTEM = KeyPair(KeyKind.OPERATOR), KeyPair(KeyKind.ACCOUNT)
LIVES_S = (3, 6, 9)
"""How long tokens hold; a longer life is tried where clients took longer than that to connect."""
COMMANDS = {"midge-server": midge_command, "nats-server": nats_server_command}


class Tenant:
    """An account and its only user, whose tokens end when asked."""

    def __init__(self, account_s: int | None, user_s: int | None) -> None:
        self._account, self._user = KeyPair(KeyKind.ACCOUNT), KeyPair(KeyKind.USER)
        self.key = self._account.public
        self.account_token = make_token(OPERATOR, self.key, "account", **_ending(account_s))
        unlimited = {"subs": -1, "data": -1, "payload": -1}
        self._user_token = make_token(
            self._account, self._user.public, "user", nats=unlimited, **_ending(user_s)
        )

    async def connect(self, server: Server, signer: KeyPair | None = None) -> Raw:
        raw = await Raw.open(server.url)
        signature = (signer or self._user).signature(raw.info["nonce"].encode())
        await raw.connect(jwt=self._user_token, sig=signature)
        return raw


def _ending(end_s: int | None) -> dict[str, Any]:
    return {} if end_s is None else {"exp": int(time.time()) + end_s}


@pytest.mark.parametrize("program", COMMANDS)
async def test_what_ends_first_is_named(program: str) -> None:
    for life_s in LIVES_S:
        if await _is_named(program, life_s):
            return
    pytest.fail(f"the clients took longer than {LIVES_S[-1]} s to connect")


async def _is_named(program: str, life_s: int) -> bool:
    """Check the errors at the expiry of tokens; return False if the run took too long."""
    end_s = int(time.time()) + life_s
    cases = {
        Tenant(life_s, None): (ACCOUNT_EXPIRED, VIOLATION),
        Tenant(None, life_s): (USER_EXPIRED, USER_EXPIRED),
        Tenant(life_s, life_s + 60): (ACCOUNT_EXPIRED, VIOLATION),
        Tenant(life_s + 60, life_s): (USER_EXPIRED, USER_EXPIRED),
    }
    tokens = {tenant.key: tenant.account_token for tenant in cases}
    tokens[SYSTEM.public] = make_token(OPERATOR, SYSTEM.public, "account")
    config = (
        f"operator: {make_token(OPERATOR, OPERATOR.public, 'operator')}\n"
        f"system_account: {SYSTEM.public}\nresolver: MEMORY\nresolver_preload: {{\n"
        + "\n".join(f"{key}: {token}" for key, token in tokens.items())
        + "\n}\n"
    )
    with Server(COMMANDS[program](), config) as server:
        connected = [await tenant.connect(server) for tenant in cases]
        if time.time() >= end_s:
            return False
        assert await _last_lines(connected) == [first for first, _ in cases.values()]
        returned = [await tenant.connect(server) for tenant in cases]
        ends = await _last_lines(returned)
        if time.time() >= end_s + 1:  # behind the second in which it ends, a token is refused
            return False
        assert ends == [late for _, late in cases.values()]
        stranger = await list(cases)[1].connect(server, KeyPair(KeyKind.USER))
        assert await _last_lines([stranger]) == [VIOLATION]
    return True


async def _last_lines(connections: list[Raw]) -> list[bytes]:
    """Return the last error that the server sends to each, and close them.

    nats-server may answer PING behind the error that it closes a connection with.
    """
    await asyncio.gather(*(raw.until_end() for raw in connections))
    await asyncio.gather(*(raw.close() for raw in connections))
    return [
        [line for line in raw.received.splitlines(keepends=True) if line.startswith(b"-ERR")][-1]
        for raw in connections
    ]
