"""A callout service decides on clients with the same outcome behind both servers.

An outcome is the client's errors, the number of questions to the service, and the events of
refusals in the service's account.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from midge.server.auth.nkeys import KeyKind
from midge.server.auth.xkeys import CurveKey
from tests.support.callout import UNLIMITED_USER, Answer, Asked, CalloutService
from tests.support.keys import UNLIMITED_ACCOUNT, Authority, KeyPair, make_token, pem
from tests.support.processes import Server, midge_command, nats_server_command
from tests.support.raw import Raw

OPERATOR = KeyPair(KeyKind.OPERATOR)
SYSTEM, AUTH, APP, OTHER, STRANGER, SIGNING, APP_SIGNING, SCOPED = (
    KeyPair(KeyKind.ACCOUNT) for _ in range(8)
)
SERVICE, CLIENT = KeyPair(KeyKind.USER), KeyPair(KeyKind.USER)
CURVE = CurveKey()
NOW_S = int(time.time())
TIMEOUT_S = 0.5
PROBES = (
    b"PUB other 2", b"ab", b"PUB a 0", b"", b"PUB own.x 0", b"", b"PUB default.x 0", b"",
    b"PUB $SYS.REQ.USER.AUTH 0", b"", b"SUB s 1", b"SUB t 2",
)  # fmt: skip


def admits(*, response: dict[str, Any] | None = None, **claims: Any) -> Answer:
    """Answer with a user's token of such `claims`."""
    return lambda asked: asked.response(jwt=asked.user(**claims), **(response or {}))


def places(account: str = "APP", **claims: Any) -> Answer:
    """Answer with a user in a configured account."""
    return admits(aud=account, **claims)


def refuses(error: str) -> Answer:
    return lambda asked: asked.response(error=error)


@dataclass
class Case:
    """One client, and what the service says of it; `signs` adds the client's signature."""

    answer: Answer
    said: dict[str, Any] = field(default_factory=lambda: {"user": "x"})
    signs: KeyPair | None = None


@dataclass
class Stage:
    """One server with its service, and a listener to the events of the service's account."""

    server: Server
    service: CalloutService
    events: Raw
    tls: ssl.SSLContext | None = None

    async def play(self, case: Case) -> tuple[list[str], int, list[tuple[str, ...]]]:
        """Return the outcome of `case`."""
        self.service.answer = case.answer
        asked, heard = len(self.service.asked), len(self.events.received)
        raw = await Raw.open(self.server.url, self.tls)
        said = dict(case.said)
        if case.signs is not None:
            said["sig"] = case.signs.signature(raw.info["nonce"].encode())
        told = await raw.connect(protocol=1, **said)
        if b"-ERR" not in told:
            told += await raw.ask(*PROBES)
        else:
            await self.events.until(b'"reason"')
        await self.events.ask()
        await raw.close()
        events = [_event(line) for line in self.events.received[heard:].split(b"\r\n")]
        count = len(self.service.asked) - asked
        return _lines(told), count, [event for event in events if event]


def _lines(told: bytes) -> list[str]:
    """Return the errors, and the fields of INFO that depend on the client's identity."""
    lines = []
    for line in told.split(b"\r\n"):
        if line.startswith(b"INFO "):
            info = json.loads(line[5:])
            lines.append(f"in {info['remote_account']}, {info['max_payload']} bytes")
        elif line:
            lines.append(line.decode())
    return lines


def _event(line: bytes) -> tuple[str, ...]:
    if not line.startswith(b"{"):
        return ()
    event = json.loads(line)
    client = event["client"]
    reason = event["reason"].split(" but got ")[0].split(" of ")[0]  # behind it are new keys
    return (event["type"], client["acc"], client.get("user", ""), reason)


@asynccontextmanager
async def stage(
    server: Server, credentials: Callable[[], dict[str, Any]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[Stage]:
    """Start the service and the listener on `server`."""
    service = await CalloutService.start(server.url, AUTH, refuses("none"), credentials(), tls)
    events = await Raw.open(server.url, tls)
    said = credentials()
    if callable(sign := said.pop("sign", None)):
        said["sig"] = sign(events.info["nonce"].encode())
    await events.connect(**said)
    await events.ask(b"SUB $SYS.ACCOUNT.> 1")
    try:
        yield Stage(server, service, events, tls)
    finally:
        await service.stop()
        await events.close()


def pair(config: str, files: dict[str, bytes] | None = None) -> Iterator[list[Server]]:
    """Start nats-server and midge with `config`."""
    commands = (nats_server_command(), midge_command())
    servers = [Server(command, config, files=files or {}) for command in commands]
    try:
        yield [server.wait_ready() for server in servers]
    finally:
        for server in servers:
            server.stop()


async def outcomes(
    servers: list[Server], credentials: Callable[[], dict[str, Any]], case: Case
) -> list[Any]:
    """Play `case` on both servers at once."""

    async def one(server: Server) -> Any:
        async with stage(server, credentials) as played:
            return await played.play(case)

    return await asyncio.gather(*map(one, servers))


# Accounts of the configuration.

CONFIGURED = f"""
server_name: A
server_tags: [ "zone:one", two ]
accounts {{
  AUTH: {{ users: [ {{ user: auth, password: p }}, {{ user: insider, password: p }} ] }}
  APP: {{
    users: [ {{ user: app, password: p }} ], default_permissions: {{ publish: "default.>" }}
  }}
  FREE: {{ users: [ {{ user: free, password: p }} ] }}
}}
authorization {{
  timeout: {TIMEOUT_S}
  auth_callout {{
    issuer: {AUTH.public}, account: AUTH, auth_users: [ auth ], allowed_accounts: [ APP, AUTH ]
  }}
}}
"""


def password(user: str, secret: str = "p") -> dict[str, str]:
    return {"user": user, "pass": secret}


@pytest.fixture(scope="module")
def configured() -> Iterator[list[Server]]:
    yield from pair(CONFIGURED)


IN_CONFIGURATION = {
    "accepted": Case(places()),
    "named": Case(places(name="bob"), {"auth_token": "t"}),
    "permissions": Case(places(nats={"pub": {"allow": ["a"]}, "sub": {"deny": ["s"]}}), {}),
    "responses": Case(places(nats={"resp": {"max": 1, "ttl": 1000}})),
    "global account": Case(places("$G")),
    "account of the service": Case(places("AUTH")),
    "no account": Case(places("")),
    "unknown account": Case(places("NOWHERE")),
    "refused": Case(refuses("not today")),
    "nothing": Case(lambda _: b""),
    "error and token": Case(lambda asked: asked.response(jwt=asked.user(), error="e")),
    "neither": Case(lambda asked: asked.response()),
    "answer about another user": Case(
        lambda asked: asked.response(jwt=asked.user(aud="APP"), subject=CLIENT.public)
    ),
    "token of another user": Case(places(subject=CLIENT.public)),
    "answer for another server": Case(places(response={"aud": KeyPair(KeyKind.SERVER).public})),
    "answer for nobody": Case(places(response={"aud": ""})),
    "user of another issuer": Case(places(issuer=STRANGER)),
    "answer of another issuer": Case(places(response={"issuer": STRANGER})),
    "expired user": Case(places(exp=NOW_S - 60)),
    "expired answer": Case(places(response={"exp": NOW_S - 60})),
    "user of the future": Case(places(nbf=NOW_S + 600)),
    "issuer account": Case(places(nats={"issuer_account": AUTH.public})),
    "other listeners": Case(places(nats={"allowed_connection_types": ["WEBSOCKET"]})),
    "unknown listeners": Case(places(nats={"allowed_connection_types": ["PIGEON"]})),
    "other addresses": Case(places(nats={"src": ["10.0.0.0/8"]})),
    "own limits": Case(places(nats={"subs": 0, "payload": 1})),
    "never": Case(places(nats={"times": [{"start": "00:00:00", "end": "00:00:00"}]})),
    "through a proxy": Case(places(nats={"proxy_required": True})),
    "silence": Case(lambda _: None),
    "configured": Case(places(name="z"), password("app")),
    "configured, wrong password": Case(places(), password("app", "no")),
    "configured elsewhere": Case(places(), password("free")),
    "configured elsewhere, wrong password": Case(places(), password("free", "no")),
    "the service itself": Case(places(), password("auth")),
    "the service itself, wrong password": Case(places(), password("auth", "no")),
    "beside the service": Case(places("AUTH"), password("insider")),
}


@pytest.mark.parametrize("name", IN_CONFIGURATION)
async def test_outcomes_with_configured_accounts(configured: list[Server], name: str) -> None:
    theirs, ours = await outcomes(configured, lambda: password("auth"), IN_CONFIGURATION[name])
    assert ours == theirs


async def test_a_bad_permission_refuses(configured: list[Server]) -> None:
    case = Case(places(nats={"pub": {"allow": ["a b"]}}))
    theirs, ours = await outcomes(configured, lambda: password("auth"), case)
    assert ours[:2] == theirs[:2] == (["-ERR 'Authorization Violation'"], 1)


async def test_the_request(configured: list[Server]) -> None:
    said = {"user": "joe", "pass": "p", "name": "n", "lang": "l", "version": "1"}
    requests = []
    for server in configured:
        async with stage(server, lambda: password("auth")) as played:
            await played.play(Case(places(), said))
            requests.append(_masked(played.service.asked[-1]))
    assert requests[0] == requests[1]


def _masked(asked: Asked) -> dict[str, Any]:
    """Return a request without what no two of them have in common."""
    claims = json.loads(json.dumps(asked.claims))
    assert claims["exp"] - claims.pop("iat") in (0, 1)
    assert claims["iss"] == claims["nats"]["server_id"]["id"]
    assert len(claims.pop("jti")) == 52
    for name in ("exp", "iss"):
        del claims[name]
    del claims["nats"]["server_id"]["id"], claims["nats"]["user_nkey"]
    assert claims["nats"]["client_info"].pop("id") > 0
    claims["nats"]["client_info"].pop("nonce", None)
    return dict(claims)


# Accounts of an operator.


def operator_config(**external: Any) -> str:
    scope = {"pub": {"allow": ["a", "{{name()}}.>"]}, "subs": -1, "data": -1, "payload": -1}
    accounts: dict[KeyPair, dict[str, Any]] = {
        SYSTEM: {},
        AUTH: {
            "authorization": {"auth_users": [SERVICE.public], **external},
            "signing_keys": [SIGNING.public],
        },
        APP: {
            "limits": {**UNLIMITED_ACCOUNT, "payload": 999},
            "default_permissions": {"sub": {"deny": ["s"]}},
            "signing_keys": [
                APP_SIGNING.public,
                {"kind": "user_scope", "key": SCOPED.public, "role": "r", "template": scope},
            ],
        },
        OTHER: {},
    }
    tokens = "\n".join(
        f"{account.public}: {make_token(OPERATOR, account.public, 'account', nats=nats)}"
        for account, nats in accounts.items()
    )
    return (
        f"server_name: A\nauthorization {{ timeout: {TIMEOUT_S} }}\n"
        f"operator: {make_token(OPERATOR, OPERATOR.public, 'operator')}\n"
        f"system_account: {SYSTEM.public}\nresolver: MEMORY\nresolver_preload: {{\n{tokens}\n}}\n"
    )


def user_token(account: KeyPair, user: KeyPair, **nats: Any) -> str:
    return make_token(account, user.public, "user", nats={**UNLIMITED_USER, **nats})


def service_token() -> dict[str, Any]:
    return {"jwt": user_token(AUTH, SERVICE), "sign": SERVICE.signature}


def sentinel(**said: Any) -> dict[str, Any]:
    """Connect with a token that any client may have, and that alone allows nothing."""
    nothing = {"deny": [">"]}
    token = user_token(AUTH, CLIENT, bearer_token=True, pub=nothing, sub=nothing)
    return {"jwt": token, **said}


def for_app(**nats: Any) -> dict[str, Any]:
    return {"issuer_account": APP.public, **nats}


@pytest.fixture(scope="module")
def operated() -> Iterator[list[Server]]:
    yield from pair(operator_config(allowed_accounts=[APP.public]))


NO_LIMITS = {"subs": 0, "data": 0, "payload": 0}
WITH_OPERATOR = {
    "account of the service": Case(admits(), sentinel()),
    "its signing key": Case(
        admits(issuer=SIGNING, nats={"issuer_account": AUTH.public}), sentinel()
    ),
    "named": Case(admits(name="bob"), sentinel(user="joe", auth_token="t")),
    "allowed account": Case(admits(issuer=APP), sentinel()),
    "its signing key, permissions": Case(
        admits(issuer=APP_SIGNING, nats=for_app(pub={"allow": ["a"]}, payload=5)), sentinel()
    ),
    "signing key alone": Case(admits(issuer=APP_SIGNING), sentinel()),
    "scoped key": Case(admits(issuer=SCOPED, name="own", nats=for_app(**NO_LIMITS)), sentinel()),
    "strange key": Case(admits(issuer=STRANGER, nats=for_app()), sentinel()),
    "account that is not allowed": Case(admits(issuer=OTHER), sentinel()),
    "answer by a signing key": Case(admits(response={"issuer": SIGNING}), sentinel()),
    "answer by a stranger": Case(admits(response={"issuer": STRANGER}), sentinel()),
    "answer by another account": Case(admits(response={"issuer": APP}), sentinel()),
    "refused": Case(refuses("no"), sentinel()),
    "audience": Case(admits(aud=APP.public), sentinel()),
    "own key": Case(admits(), {"jwt": user_token(AUTH, CLIENT)}, CLIENT),
    "the service itself": Case(admits(), {"jwt": user_token(AUTH, SERVICE)}, SERVICE),
    "account without a service": Case(admits(), {"jwt": user_token(APP, CLIENT)}, CLIENT),
    "posing as the service": Case(admits(), sentinel(user=SERVICE.public)),
    "own limits": Case(admits(issuer=APP, nats={"subs": 0, "payload": 3}), sentinel()),
}


@pytest.mark.parametrize("name", WITH_OPERATOR)
async def test_outcomes_with_an_operator(operated: list[Server], name: str) -> None:
    theirs, ours = await outcomes(operated, service_token, WITH_OPERATOR[name])
    assert ours == theirs


@pytest.mark.parametrize("signs", [None, STRANGER])
async def test_nobody_speaks_for_a_token_that_is_not_theirs(
    operated: list[Server], signs: KeyPair | None
) -> None:
    # nats-server asks in the wrong account, and waits for an answer that cannot come.
    case = Case(admits(), {"jwt": user_token(AUTH, CLIENT)}, signs)
    theirs, ours = await outcomes(operated, service_token, case)
    assert ours[:2] == theirs[:2] == (["-ERR 'Authorization Violation'"], 0)


@pytest.mark.parametrize("allowed", [["*"], []])
async def test_any_account(allowed: list[str]) -> None:
    for servers in pair(operator_config(allowed_accounts=allowed)):
        theirs, ours = await outcomes(
            servers, service_token, Case(admits(issuer=OTHER), sentinel())
        )
        assert ours == theirs


# Encryption.

SEALED = {
    "plain answer": admits(),
    "sealed answer": lambda asked: sealed(admits(), asked),
    "sealed answer by a stranger's key": lambda asked: sealed(
        admits(response={"issuer": STRANGER}), asked
    ),
    "sealed refusal": lambda asked: sealed(refuses("no"), asked),
    "sealed by another": lambda asked: sealed(admits(), asked, CurveKey()),
    "no box": lambda _: b"xkv1 and nothing that could be opened in any way",
    "short": lambda _: b"x",
}


def sealed(answer: Answer, asked: Asked, key: CurveKey = CURVE) -> bytes:
    said = answer(asked)
    assert said is not None
    return key.seal(said, asked.claims["nats"]["server_id"]["xkey"])


@pytest.fixture(scope="module", params=["configured", "operated"])
def encrypted(request: pytest.FixtureRequest) -> Iterator[tuple[list[Server], Any, Any]]:
    if request.param == "operated":
        for servers in pair(operator_config(xkey=CURVE.public)):
            yield servers, service_token, sentinel()
        return
    config = CONFIGURED.replace("account: AUTH,", f"account: AUTH, xkey: {CURVE.public},")
    for servers in pair(config):
        yield servers, lambda: password("auth"), {"user": "x"}


@pytest.mark.parametrize("name", SEALED)
async def test_outcomes_with_encryption(
    encrypted: tuple[list[Server], Any, Any], name: str
) -> None:
    servers, credentials, said = encrypted
    results, headers = [], []
    for server in servers:
        async with stage(server, credentials) as played:
            key = played.service.raw.info["xkey"]
            played.service.opened = partial(CURVE.open, sender=key)
            results.append(await played.play(Case(SEALED[name], said)))
            asked = played.service.asked[-1]
            headers.append(
                asked.header == b"NATS/1.0\r\nNats-Server-Xkey: %b\r\n\r\n" % key.encode()
            )
    assert results[0] == results[1]
    assert headers == [True, True]


# TLS.


async def test_certificates_are_in_the_request() -> None:
    authority = Authority()
    certificate, key = authority.issue("CN=127.0.0.1")
    files = {"cert.pem": pem(certificate), "key.pem": key, "ca.pem": authority.pem}
    tls = (
        "tls { cert_file: @directory@/cert.pem, key_file: @directory@/key.pem, "
        "ca_file: @directory@/ca.pem, verify: true }\n"
    )
    requests = []
    for servers in pair(CONFIGURED + tls, files):
        for server in servers:
            context = ssl.create_default_context(cadata=authority.pem.decode())
            context.check_hostname = False
            context.load_cert_chain(
                server.config_path.parent / "cert.pem", server.config_path.parent / "key.pem"
            )
            async with stage(server, lambda: password("auth"), context) as played:
                await played.play(Case(places()))
                requests.append(_masked(played.service.asked[-1]))
    assert requests[0]["nats"]["client_tls"]["version"] == "1.3"
    for request in requests:
        del request["nats"]["client_tls"]["cipher"]  # their preferences differ
    assert requests[0] == requests[1]
