"""The authentication of a leaf node, and the encryption of the link, at either server."""

from __future__ import annotations

import json
import time
import urllib.request
from ipaddress import IPv4Address
from typing import Any

import pytest
from cryptography.x509 import IPAddress

from midge.server.auth.nkeys import KeyKind
from tests.support.keys import Authority, KeyPair, credentials_file, make_token, pem
from tests.support.leafnodes import Inbox, Pair, settle, until

OWN_PAIR = pytest.param("midge", "midge", marks=pytest.mark.full)
PAIRS = [("real", "midge"), ("midge", "real"), OWN_PAIR]
BOTH = pytest.mark.parametrize(("hub", "leaf"), PAIRS)

OPERATOR, ACCOUNT, SYSTEM = (
    KeyPair(KeyKind.OPERATOR),
    KeyPair(KeyKind.ACCOUNT),
    KeyPair(KeyKind.ACCOUNT),
)
LIMITS = {"subs": -1, "conn": -1, "payload": -1, "data": -1, "leaf": -1, "imports": -1}


def account_token(key: KeyPair = ACCOUNT, **nats: Any) -> str:
    limits = {**LIMITS, **nats.pop("limits", {})}
    return make_token(OPERATOR, key.public, "account", nats={"limits": limits, **nats}, name="A")


def user_credentials(**claims: Any) -> bytes:
    user = KeyPair(KeyKind.USER)
    nats = {"subs": -1, "data": -1, "payload": -1, **claims.pop("nats", {})}
    token = make_token(ACCOUNT, user.public, "user", nats=nats, **claims)
    return credentials_file(token, user)


def operated(account: str | None = None) -> str:
    """A configuration in operator mode."""
    operator = make_token(
        OPERATOR, OPERATOR.public, "operator", nats={"system_account": SYSTEM.public}
    )
    preload = {ACCOUNT.public: account or account_token(), SYSTEM.public: account_token(SYSTEM)}
    resolver = "http: 127.0.0.1:-1\nresolver: MEMORY"
    lines = "".join(f"  {key}: {token}\n" for key, token in preload.items())
    return f"operator: {operator}\n{resolver}\nresolver_preload {{\n{lines}}}\n"


async def linked(pair: Pair) -> None:
    await until(lambda: "Leafnode connection created" in pair.hub.log)


async def exchanged(pair: Pair, **options: Any) -> None:
    """Send a message each way; `options` are for the client at the hub."""
    at_hub, at_leaf = await pair.at_hub(**options), await pair.at_leaf()
    for receiver, sender in ((at_leaf, at_hub), (at_hub, at_leaf)):
        got = Inbox()
        await receiver.subscribe("a.b", cb=got.take)
        await settle(receiver, sender)
        await sender.publish("a.b", b"x")
        await got.has(b"x")


@BOTH
async def test_an_nkey(hub: str, leaf: str) -> None:
    user = KeyPair(KeyKind.USER)
    config = f"authorization {{ users: [ {{nkey: {user.public}}}, {{user: c, password: c}} ] }}"
    remote = f'url: "nats-leaf://127.0.0.1:@port@", nkey: {user.seed}'
    async with Pair(hub, leaf, hub_config=config, remote=remote) as pair:
        await exchanged(pair, user="c", password="c")


@BOTH
@pytest.mark.full
async def test_a_user_of_the_port_alone(hub: str, leaf: str) -> None:
    config = "accounts { A { users: [ {user: c, password: c} ] } }"
    own = "authorization { user: l, password: secret, account: A }"
    remote = 'url: "nats-leaf://l:secret@127.0.0.1:@port@"'
    async with Pair(hub, leaf, hub_config=config, leafnodes=own, remote=remote) as pair:
        await exchanged(pair, user="c", password="c")


TLS = 'tls { cert_file: "@directory@/cert.pem", key_file: "@directory@/key.pem"'
FIRST = ", handshake_first: true"
VERIFY = ', ca_file: "@directory@/ca.pem", verify: true, timeout: 5'
CA = ', tls { ca_file: "@directory@/ca.pem", timeout: 5'
OWN = ', cert_file: "@directory@/own.pem", key_file: "@directory@/own-key.pem"'


@BOTH
@pytest.mark.parametrize(
    ("port", "remote"),
    [
        pytest.param("", "", id="plain", marks=pytest.mark.full),
        pytest.param(FIRST, FIRST, id="first", marks=pytest.mark.full),
        pytest.param(VERIFY, OWN, id="verified", marks=pytest.mark.full),
        pytest.param(VERIFY + FIRST, OWN + FIRST, id="verified-first"),
    ],
)
async def test_encryption(hub: str, leaf: str, port: str, remote: str) -> None:
    authority = Authority("ca")
    certificate, key = authority.issue("CN=hub", [IPAddress(IPv4Address("127.0.0.1"))])
    own, own_key = authority.issue("CN=leaf")
    files = {
        "ca.pem": authority.pem,
        "cert.pem": pem(certificate),
        "key.pem": key,
        "own.pem": pem(own),
        "own-key.pem": own_key,
    }
    remote = f'url: "tls://127.0.0.1:@port@"{CA}{remote} }}'
    async with Pair(hub, leaf, leafnodes=f"{TLS}{port} }}", remote=remote, files=files) as pair:
        await exchanged(pair)


@BOTH
@pytest.mark.full
@pytest.mark.parametrize("trusted", [False, True], ids=["unknown-authority", "wrong-name"])
async def test_a_certificate_that_is_not_the_hubs(hub: str, leaf: str, trusted: bool) -> None:
    authority = Authority("ca")
    certificate, key = authority.issue("CN=hub", [IPAddress(IPv4Address("127.0.0.2"))])
    known = authority if trusted else Authority("other")
    files = {"ca.pem": known.pem, "cert.pem": pem(certificate), "key.pem": key}
    remote = f'url: "tls://127.0.0.1:@port@"{CA} }}'
    async with Pair(hub, leaf, leafnodes=f"{TLS} }}", remote=remote, files=files) as pair:
        word = "handshake error" if leaf == "real" else "certificate of the other server"
        await until(lambda: word in pair.leaf.log)


CREDENTIALS = 'url: "nats-leaf://127.0.0.1:@port@", credentials: "@directory@/user.creds"'


@BOTH
async def test_a_token_of_an_operators_account(hub: str, leaf: str) -> None:
    files = {"user.creds": user_credentials(nats={"sub": {"allow": ["in.>", "probe.>"]}})}
    config = operated()
    async with Pair(hub, leaf, hub_config=config, remote=CREDENTIALS, files=files) as pair:
        await linked(pair)
        client = await pair.at_leaf()
        got = Inbox()
        await client.subscribe("in.x", cb=got.take)
        await client.subscribe("out.x", cb=got.take)
        host, port = pair.hub.address("monitoring")

        def listed() -> list[str]:
            with urllib.request.urlopen(f"http://{host}:{port}/leafz?subs=1") as answer:
                leafs = json.load(answer)["leafs"]
            if not leafs:
                return []  # the leaf is ready a little before the hub lists it
            (entry,) = leafs
            assert entry["account"] == ACCOUNT.public
            return list(entry.get("subscriptions_list", ()))  # absent where there is none

        await until(lambda: "in.x" in listed())
        assert "out.x" not in listed()


@BOTH
@pytest.mark.full
async def test_a_token_that_ends_takes_the_link_along(hub: str, leaf: str) -> None:
    files = {"user.creds": user_credentials(exp=int(time.time()) + 3)}
    async with Pair(hub, leaf, hub_config=operated(), remote=CREDENTIALS, files=files) as pair:
        await linked(pair)
        await until(lambda: "User Authentication Expired" in pair.leaf.log)


@pytest.mark.parametrize(("hub", "leaf"), [("midge", "real")])
async def test_an_account_that_takes_no_leaf_nodes(hub: str, leaf: str) -> None:
    files = {"user.creds": user_credentials()}
    config = operated(account_token(limits={"leaf": 0}))
    async with Pair(hub, leaf, hub_config=config, remote=CREDENTIALS, files=files) as pair:
        await until(lambda: "maximum account active connections exceeded" in pair.leaf.log)


@BOTH
@pytest.mark.full
async def test_a_user_for_clients_only(hub: str, leaf: str) -> None:
    files = {"user.creds": user_credentials(nats={"allowed_connection_types": ["STANDARD"]})}
    async with Pair(hub, leaf, hub_config=operated(), remote=CREDENTIALS, files=files) as pair:
        await until(lambda: "Authorization Violation" in pair.leaf.log)
