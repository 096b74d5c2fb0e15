"""Proxies that speak NATS and sign the nonce: which clients are admitted, and what shows it."""

from __future__ import annotations

import base64
import json
import socket
import urllib.request
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from midge.server.auth.nkeys import KeyKind, encode_public_key
from tests.support.processes import Server, command_of, link_port

TIMEOUT_S = 60.0
TRUSTED, OTHER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
KEY = encode_public_key(KeyKind.USER, TRUSTED.public_key().public_bytes_raw())
PROXIES = f'proxies {{ trusted: [ {{key: "{KEY}"}} ] }}\n'
USERS = "users: [ {user: a, password: a, proxy_required: true}, {user: b, password: b} ]"
A, B = {"user": "a", "pass": "a"}, {"user": "b", "pass": "b"}

Attempt = tuple[dict[str, str], Ed25519PrivateKey | str | None]
CASES: dict[str, tuple[str, list[Attempt]]] = {
    "users": (
        f"{PROXIES}authorization {{ {USERS} }}\n",
        [(A, None), (A, TRUSTED), (A, OTHER), (A, "AAAA"), (B, None), (B, TRUSTED), (B, OTHER)],
    ),
    "open": (PROXIES, [({}, None), ({}, TRUSTED), ({}, OTHER)]),
    "one user": (
        f"{PROXIES}authorization {{ user: a, password: a, proxy_required: true }}\n",
        [(A, None), (A, TRUSTED)],
    ),
    "a token": (
        f"{PROXIES}authorization {{ token: t, proxy_required: true }}\n",
        [({"auth_token": "t"}, None), ({"auth_token": "t"}, TRUSTED)],
    ),
    "users of an account": (
        f"{PROXIES}accounts {{ X {{ {USERS} }} }}\n",
        [(A, None), (A, TRUSTED), (B, None)],
    ),
    "none is trusted": (f"authorization {{ {USERS} }}\n", [(A, None), (B, None), (B, "AAAA")]),
}
PORT = 'leafnodes { listen: "127.0.0.1:-1", '
LEAFS = {
    "users": f"{PROXIES}{PORT} authorization {{ {USERS} }} }}\n",
    "one user": f"{PROXIES}{PORT} authorization {{ user: a, pass: a, proxy_required: true }} }}\n",
    "all users": f"{PROXIES}{PORT} authorization {{ proxy_required: true, {USERS} }} }}\n",
    "clients' users": f"{PROXIES}{PORT} }}\nauthorization {{ {USERS} }}\n",
    "only for users of leafs": f"""{PROXIES}{PORT} authorization {{ proxy_required: true }} }}
        authorization {{ users: [ {{user: a, password: a}}, {{user: b, password: b}} ] }}\n""",
    "open": f"{PROXIES}{PORT} }}\n",
    "none is trusted": f"{PORT} authorization {{ {USERS} }} }}\n",
}
"""Configurations for leaf nodes."""


@pytest.mark.parametrize("name", CASES)
def test_both_servers_admit_alike(name: str) -> None:
    midge, real = play("midge", *CASES[name]), play("real", *CASES[name])
    assert midge == real


@pytest.mark.parametrize("name", LEAFS)
def test_both_servers_admit_leaf_nodes_alike(name: str) -> None:
    midge, real = (play_leafs(kind, LEAFS[name]) for kind in ("midge", "real"))
    assert midge == real
    assert "admitted" in midge["answers"]


@pytest.mark.parametrize(
    "block", ['{ trusted: [{key: "nope"}] }', "{ trusted: {} }", '{ trusted: ["a"] }', "{ foo: 1 }"]
)
@pytest.mark.parametrize("kind", ["midge", "real"])
def test_malformed_blocks_are_refused(kind: str, block: str) -> None:
    with (
        pytest.raises(RuntimeError, match=r"prox|unknown field"),
        Server(command_of(kind), f"proxies {block}\n"),
    ):
        pass


def play(kind: str, config: str, attempts: list[Attempt]) -> dict[str, Any]:
    """Return what each attempt gets, and what monitoring shows in the end."""
    with Server(command_of(kind), f"http: 127.0.0.1:-1\n{config}") as server:
        clients = [socket.create_connection(server.address(), TIMEOUT_S) for _ in attempts]
        answers = []
        for client, (connect, proxy) in zip(clients, attempts, strict=True):
            lines = client.makefile("rb")
            info = json.loads(lines.readline()[5:])
            document = json.dumps({"verbose": False, **signed(connect, proxy, info)}).encode()
            client.sendall(b"CONNECT %b\r\nPING\r\n" % document)
            answers.append((lines.readline(), "nonce" in info))
        refused = sum(line.startswith(b"-ERR") for line, _ in answers)
        shown = connections(server)
        while list(map(len, shown.values())) != [len(attempts) - refused, refused]:
            shown = connections(server)  # nats-server lists closed ones a little later
        for client in clients:
            client.close()
        return {"answers": answers, **shown, "proxies": page(server, "varz").get("proxies")}


def connections(server: Server) -> dict[str, list[str]]:
    """Return what monitoring shows of each connection, by state."""
    return {
        state: sorted(
            str([one.get(name) for name in ("reason", "proxy", "authorized_user")])
            for one in page(server, f"connz?state={state}&auth=1")["connections"]
        )
        for state in ("open", "closed")
    }


def play_leafs(kind: str, config: str) -> dict[str, Any]:
    """Return how leafs of both users fare, and the proxies on the page of those that stay."""
    with Server(command_of(kind), f"http: 127.0.0.1:-1\n{config}") as server:
        address = ("127.0.0.1", link_port(server, "leafnode", TIMEOUT_S))
        attempts = [(user, proxy) for user in (A, B) for proxy in (None, TRUSTED, OTHER, "AAAA")]
        leafs = [socket.create_connection(address, TIMEOUT_S) for _ in attempts]
        answers = []
        for number, (leaf, (user, proxy)) in enumerate(zip(leafs, attempts, strict=True)):
            lines = leaf.makefile("rb")
            info = json.loads(lines.readline()[5:])
            document = {"name": f"L{number}", "server_id": f"N{number}", "version": "2.15.1"}
            document |= signed(user, proxy, info)
            leaf.sendall(b"CONNECT %b\r\nPING\r\n" % json.dumps(document).encode())
            while (line := lines.readline()) and not line.startswith((b"PONG", b"-ERR")):
                pass
            answers.append("admitted" if line.startswith(b"PONG") else line.decode())
        shown = {leaf["name"]: leaf.get("proxy") for leaf in page(server, "leafz")["leafs"]}
        for leaf in leafs:
            leaf.close()
        return {"answers": answers, "leafs": shown}


def signed(
    connect: dict[str, str], proxy: Ed25519PrivateKey | str | None, info: dict[str, Any]
) -> dict[str, Any]:
    """Return the fields of CONNECT with the signature of `proxy`, or with a text in its place."""
    if proxy is None:
        return dict(connect)
    if not isinstance(proxy, str):
        signature = proxy.sign(info["nonce"].encode())
        proxy = base64.urlsafe_b64encode(signature).decode().rstrip("=")
    return {**connect, "proxy_sig": proxy}


def page(server: Server, path: str) -> dict[str, Any]:
    """Return a page of the monitoring."""
    host, port = server.address("monitoring")
    with urllib.request.urlopen(f"http://{host}:{port}/{path}", timeout=TIMEOUT_S) as answer:
        found: dict[str, Any] = json.load(answer)
        return found
