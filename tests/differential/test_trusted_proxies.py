"""Proxies that speak NATS and sign the nonce: the admitted clients, and how they are shown."""

from __future__ import annotations

import base64
import json
import socket
import urllib.request
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from midge.server.auth.nkeys import KeyKind, encode_public_key
from tests.support.processes import Server, command_of

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
    "none is trusted": (f"authorization {{ {USERS} }}\n", [(A, None), (B, None)]),
}


@pytest.mark.parametrize("name", CASES)
def test_both_servers_admit_alike(name: str) -> None:
    midge, real = play("midge", *CASES[name]), play("real", *CASES[name])
    assert midge == real


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
            signed = dict(connect)
            if isinstance(proxy, str):
                signed["proxy_sig"] = proxy
            elif proxy is not None:
                signature = proxy.sign(info["nonce"].encode())
                signed["proxy_sig"] = base64.urlsafe_b64encode(signature).decode().rstrip("=")
            document = json.dumps({"verbose": False, **signed}).encode()
            client.sendall(b"CONNECT %b\r\nPING\r\n" % document)
            answers.append((lines.readline(), "nonce" in info))
        shown = {
            state: sorted(
                str([one.get(name) for name in ("reason", "proxy", "authorized_user")])
                for one in page(server, f"connz?state={state}&auth=1")["connections"]
            )
            for state in ("open", "closed")
        }
        for client in clients:
            client.close()
        return {"answers": answers, **shown, "proxies": page(server, "varz").get("proxies")}


def page(server: Server, path: str) -> dict[str, Any]:
    """Return a page of the monitoring."""
    host, port = server.address("monitoring")
    with urllib.request.urlopen(f"http://{host}:{port}/{path}", timeout=TIMEOUT_S) as answer:
        found: dict[str, Any] = json.load(answer)
        return found
