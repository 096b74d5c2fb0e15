"""Which peers TLS settings admit, as on nats-server: clients, leaf nodes and routes."""

from __future__ import annotations

import contextlib
import functools
import json
import socket
import ssl
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from midge.server.auth.certificates import public_key_fingerprint
from tests.support.keys import Authority, pem
from tests.support.processes import Server, link_port, midge_command, nats_server_command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMANDS = {"midge-server": midge_command, "nats-server": nats_server_command}
TIMEOUT_S = 60.0
FILES = (
    'cert_file: "@directory@/server.pem", key_file: "@directory@/server.key", '
    'ca_file: "@directory@/authority.pem"'
)


@functools.cache
def files() -> dict[str, bytes]:
    """Certificates by one authority; `known` has a DNS name, and `pin` the hash of its key."""
    authority = Authority()
    found = {"authority.pem": authority.pem}
    for name in ("server", "known", "other"):
        names: list[x509.GeneralName] | None = [x509.DNSName("one.example")]
        certificate, key = authority.issue(f"CN={name}", names if name == "known" else None)
        found |= {f"{name}.pem": pem(certificate), f"{name}.key": key}
        if name == "known":
            found["pin"] = (
                public_key_fingerprint(certificate.public_bytes(Encoding.DER)) or ""
            ).encode()
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certificates")
    for name, content in files().items():
        (made / name).write_bytes(content)
    return made


class Peer:
    """A client, a leaf node or a route that shakes hands with some certificate."""

    def __init__(
        self, folder: Path, certificate: str = "", curve: str = "", suite: str = ""
    ) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        if certificate:
            self.context.load_cert_chain(
                folder / f"{certificate}.pem", folder / f"{certificate}.key"
            )
        if curve:
            self.context.set_ecdh_curve(curve)
        if suite:
            self.context.maximum_version = ssl.TLSVersion.TLSv1_2
            self.context.set_ciphers(suite)

    def outcome(self, address: tuple[str, int], listener: str) -> str:
        """Shake hands, introduce itself and send PING; return `let in` or `refused`."""
        try:
            with socket.create_connection(address, TIMEOUT_S) as raw:
                if listener != "cluster":
                    read_line(raw)
                with self.context.wrap_socket(raw) as wrapped:
                    wrapped.sendall(introduction(listener) + b"PING\r\n")
                    while line := read_line(wrapped):
                        if line == b"PONG":
                            return "let in"
        except OSError:
            return "refused"
        return "refused"


def introduction(listener: str) -> bytes:
    own = {"verbose": False, "name": "X", "server_id": "NX", "version": "2.15.1", "headers": True}
    if listener == "cluster":
        own |= {"cluster": "C", "lnoc": True, "lang": ""}
        info = json.dumps({"server_id": "NX", "server_name": "X", "proto": 1, "headers": True})
        return f"CONNECT {json.dumps(own)}\r\nINFO {info}\r\n".encode()
    return f"CONNECT {json.dumps(own)}\r\n".encode()


def read_line(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        piece = connection.recv(1)
        if not piece:
            break
        line += piece
    return line.rstrip()


PIN = 'pinned_certs: ["@pin@"]'
KNOWN = 'routes: ["nats-route://one.example:1"], connect_retries: 0'
SUITES = "cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256]"
CASES: dict[str, tuple[str, str, dict[str, str], str]] = {
    # A case is a listener, its `tls`, what the peer brings, and what happens.
    "pins need a certificate": ("nats", PIN, {}, "refused"),
    "pinned client": ("nats", f"verify: true, {PIN}", {"certificate": "known"}, "let in"),
    "other client": ("nats", f"verify: true, {PIN}", {"certificate": "other"}, "refused"),
    "pinned leaf": ("leafnodes", f"verify: true, {PIN}", {"certificate": "known"}, "let in"),
    "other leaf": ("leafnodes", f"verify: true, {PIN}", {"certificate": "other"}, "refused"),
    "leaf without": ("leafnodes", PIN, {}, "refused"),
    "pinned route": ("cluster", PIN, {"certificate": "known"}, "let in"),
    "other route": ("cluster", PIN, {"certificate": "other"}, "refused"),
    "known route": (
        "cluster",
        "verify_cert_and_check_known_urls: true",
        {"certificate": "known"},
        "let in",
    ),
    "unknown route": (
        "cluster",
        "verify_cert_and_check_known_urls: true",
        {"certificate": "other"},
        "refused",
    ),
    "the curve": ("nats", "curve_preferences: [CurveP521]", {"curve": "secp521r1"}, "let in"),
    "another curve": ("nats", "curve_preferences: [CurveP521]", {"curve": "secp384r1"}, "refused"),
    "insecure suite": (
        "nats",
        f"allow_insecure_cipher_suites: true, {SUITES}",
        {"suite": "ECDHE-ECDSA-AES128-SHA256"},
        "let in",
    ),
    "weak suite": (
        "nats",
        "cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA]",
        {"suite": "ECDHE-ECDSA-AES128-SHA"},
        "let in",
    ),
    "suite of nobody": ("nats", "", {"suite": "ECDHE-ECDSA-AES128-SHA256"}, "refused"),
}


def configuration(listener: str, tls: str) -> str:
    block = f"tls {{ {FILES}, {tls} }}".replace("@pin@", files()["pin"].decode())
    if listener == "nats":
        return block
    more = f"name: C, {KNOWN}" if listener == "cluster" else ""
    return f'{listener} {{ listen: "127.0.0.1:-1", {more}\n{block} }}'


@contextlib.contextmanager
def started(program: str, listener: str, tls: str) -> Iterator[tuple[str, int]]:
    """Start a server, and return the address of a listener."""
    with Server(COMMANDS[program](), configuration(listener, tls), files=files()) as server:
        server.wait_ready()
        if listener == "nats":
            yield server.address()
        else:
            links = "route" if listener == "cluster" else "leafnode"
            yield "127.0.0.1", link_port(server, links, TIMEOUT_S)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("program", COMMANDS)
def test_a_peer_is_admitted_as_by_nats_server(program: str, case: str, folder: Path) -> None:
    listener, tls, peer, outcome = CASES[case]
    with started(program, listener, tls) as address:
        assert Peer(folder, **peer).outcome(address, listener) == outcome


MAP = f"tls {{ {FILES}, verify_and_map: true }}"
LIST = "authorization { users: [ %s ] }"
NAMED, SUBJECT = "{ user: one.example, account: A }", '{ user: "CN=other", account: A }'
SECRET = "{ user: one.example, password: secret, account: A }"
ONLY = "authorization { user: one.example, password: secret, account: A }"
GIVEN = {"user": "one.example", "pass": "secret"}
MAPPED: dict[str, tuple[str, str, str, dict[str, str], str]] = {
    # A case is the users of leafs and of clients, a certificate, what CONNECT has, and the account.
    "by a DNS name": (LIST % NAMED, "", "known", {}, "A"),
    "by its subject": (LIST % SUBJECT, "", "other", {}, "A"),
    "whatever it says": (LIST % NAMED, "", "known", {"user": "nobody"}, "A"),
    "by no name": (LIST % NAMED, "", "other", {}, ""),
    "without a certificate": (LIST % NAMED, "", "", {}, ""),
    "without its password": (LIST % SECRET, "", "known", {}, ""),
    "with its password": (LIST % SECRET, "", "known", GIVEN, "A"),
    "not to a single user": (ONLY, "", "known", {}, ""),
    "as a single user": (ONLY, "", "other", GIVEN, "A"),
    "to a client's user": ("", "{ user: one.example }", "known", {}, "A"),
    "to no client's user": ("", "{ user: one.example }", "other", {}, ""),
}


def account_of(program: str, folder: Path, case: str) -> str:
    """Return the account of the leaf of a case; empty if it is refused."""
    users, clients, certificate, given, _ = MAPPED[case]
    config = f'leafnodes {{ listen: "127.0.0.1:-1"\n{MAP}\n{users} }}\n'
    config += f"accounts {{ A {{ users: [ {clients} ] }} }}\n"
    with (
        Server(COMMANDS[program](), config, files=files()) as server,
        contextlib.suppress(OSError),
        socket.create_connection(
            ("127.0.0.1", link_port(server, "leafnode", TIMEOUT_S)), TIMEOUT_S
        ) as raw,
    ):
        read_line(raw)
        with Peer(folder, certificate).context.wrap_socket(raw) as wrapped:
            own = {"name": "X", "server_id": "NX", "version": "2.15.1", "headers": True, **given}
            wrapped.sendall(f"CONNECT {json.dumps(own)}\r\nPING\r\n".encode())
            while (line := read_line(wrapped)) and line != b"PONG":
                if line.startswith(b"INFO "):
                    found = json.loads(line[5:]).get("remote_account", "")
                    if found:
                        return str(found)
    return ""


@pytest.mark.parametrize("case", MAPPED)
@pytest.mark.parametrize("program", COMMANDS)
def test_a_leafs_certificate_is_mapped_to_a_user(program: str, case: str, folder: Path) -> None:
    assert account_of(program, folder, case) == MAPPED[case][-1]
