"""The claims of a token besides the identity have the same outcome on both servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from midge.server.auth.nkeys import KeyKind
from tests.support.keys import UNLIMITED_ACCOUNT, KeyPair, make_token
from tests.support.processes import Server, midge_command, nats_server_command
from tests.support.raw import Raw

OPERATOR, SYSTEM, ACCOUNT = (
    KeyPair(KeyKind.OPERATOR),
    KeyPair(KeyKind.ACCOUNT),
    KeyPair(KeyKind.ACCOUNT),
)
POOR, USER = KeyPair(KeyKind.ACCOUNT), KeyPair(KeyKind.USER)
"""An account that may have no subscriptions, and the user of both."""

ACCOUNTS = {
    SYSTEM: {},
    ACCOUNT: {},
    POOR: {"limits": {**UNLIMITED_ACCOUNT, "subs": 0}},
}
IN = b""
FULL = b"-ERR 'maximum subscriptions exceeded'\r\n"
VIOLATION = b"-ERR 'Authorization Violation'\r\n"


@pytest.fixture(scope="module", params=[midge_command, nats_server_command])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    tokens = "\n".join(
        f"{account.public}: {make_token(OPERATOR, account.public, 'account', nats=nats)}"
        for account, nats in ACCOUNTS.items()
    )
    config = (
        f"operator: {make_token(OPERATOR, OPERATOR.public, 'operator')}\n"
        f"system_account: {SYSTEM.public}\nresolver: MEMORY\nresolver_preload: {{\n{tokens}\n}}\n"
    )
    with Server(request.param(), config) as started:
        yield started


@pytest.mark.parametrize(
    ("account", "claims", "nats", "expected"),
    [
        (ACCOUNT, {}, {}, IN),
        (ACCOUNT, {"iat": -5}, {}, IN),
        (ACCOUNT, {"nbf": -5}, {}, IN),
        (ACCOUNT, {"exp": -5}, {}, b"-ERR 'User Authentication Expired'\r\n"),
        (ACCOUNT, {}, {"subs": 1}, IN),
        (ACCOUNT, {}, {"subs": 0}, FULL),
        (ACCOUNT, {}, {"subs": -5}, FULL),
        (POOR, {}, {}, FULL),
        (ACCOUNT, {}, {"src": ["127.0.0.1/8"]}, IN),
        (ACCOUNT, {}, {"src": ["127.0.0.1"]}, VIOLATION),
        (ACCOUNT, {}, {"src": ["127.0.0.0/255.0.0.0"]}, VIOLATION),
        (ACCOUNT, {}, {"src": ["127.0.0.0/8", "nowhere"]}, VIOLATION),
    ],
)
async def test_outcome(
    server: Server, account: KeyPair, claims: dict[str, Any], nats: dict[str, Any], expected: bytes
) -> None:
    unlimited = {"subs": -1, "data": -1, "payload": -1}
    token = make_token(account, USER.public, "user", nats={**unlimited, **nats}, **claims)
    raw = await Raw.open(server.url)
    signature = USER.signature(raw.info["nonce"].encode())
    said = await raw.connect(jwt=token, sig=signature)
    if expected:
        said += await raw.until_end()
    await raw.close()
    assert said == expected
