"""Tokens, files and TLS handshakes made at random: each has one outcome, on either server."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

from midge.server.auth.nkeys import KeyKind
from midge.server.process import commands
from tests.support.callout import UNLIMITED_USER
from tests.support.keys import UNLIMITED_ACCOUNT, Authority, KeyPair, make_token, pem
from tests.support.processes import Server, midge_command, nats_server_command

from .encrypted import EncryptedClient

TIMEOUT_S = 10.0
_FAR_S = 3600

# Tokens.


class TokenServers:
    """Both servers in operator mode, with one account and its signing keys."""

    def __init__(self) -> None:
        self.operator, self.account, self.signing, self.scoped, self.stranger, self.system = (
            KeyPair(KeyKind.OPERATOR),
            *(KeyPair(KeyKind.ACCOUNT) for _ in range(5)),
        )
        self.user = KeyPair(KeyKind.USER)
        self.revoked = KeyPair(KeyKind.USER)
        template = {"pub": {"allow": ["a.>", "{{name()}}.*"]}, "subs": -1, "data": -1, "payload": 9}
        nats = {
            "limits": UNLIMITED_ACCOUNT,
            "signing_keys": [
                self.signing.public,
                {
                    "kind": "user_scope",
                    "key": self.scoped.public,
                    "role": "r",
                    "template": template,
                },
            ],
            "revocations": {self.revoked.public: 2000},
            "default_permissions": {"sub": {"deny": ["z"]}},
        }
        own = make_token(self.operator, self.account.public, "account", nats=nats)
        system = make_token(self.operator, self.system.public, "account")
        config = (
            f"operator: {make_token(self.operator, self.operator.public, 'operator')}\n"
            f"system_account: {self.system.public}\nresolver: MEMORY\nresolver_preload: {{\n"
            f"{self.account.public}: {own}\n{self.system.public}: {system}\n}}\n"
        )
        self.servers = [Server(nats_server_command(), config), Server(midge_command(), config)]
        for server in self.servers:
            server.wait_ready()

    def close(self) -> None:
        for server in self.servers:
            server.stop()

    def play(self, random: Random) -> tuple[list[str], str]:
        """Return what each server says to one user, and the user's claims."""
        claims, issuer, user = self._claims(random)
        token = make_token(issuer, user.public, "user", **claims)
        signer = self.revoked if random.random() < 0.1 else user
        if random.random() < 0.05:
            token = _damaged(token, random)
        signs = random.random() < 0.9
        said = [_login(server, token, signer if signs else None) for server in self.servers]
        return said, f"{claims} signed: {signs}"

    def _claims(self, random: Random) -> tuple[dict[str, Any], KeyPair, KeyPair]:
        issuer = random.choice(
            (self.account, self.account, self.signing, self.scoped, self.stranger)
        )
        nats: dict[str, Any] = {} if issuer is self.scoped else dict(UNLIMITED_USER)
        if issuer is not self.account or random.random() < 0.2:
            nats["issuer_account"] = self.account.public
        if issuer is self.scoped and random.random() < 0.8:
            nats |= {"subs": 0, "data": 0, "payload": 0}
        for name, values in _USER_FIELDS.items():
            if random.random() < (0.03 if issuer is self.scoped else 0.15):
                nats[name] = random.choice(values)
                if issuer is self.scoped and not nats[name]:
                    del nats[name]  # nats-server takes an empty list of it for one of its own
        now = int(time.time())
        claims: dict[str, Any] = {"nats": nats}
        for name, numbers in (
            ("exp", (now - _FAR_S, now + _FAR_S, 0)),
            ("nbf", (now - _FAR_S, now + _FAR_S, 0, -5)),
            ("iat", (0, -5, 1999, 2001, now + _FAR_S)),
        ):
            if random.random() < 0.15:
                claims[name] = random.choice(numbers)
        if random.random() < 0.4:
            claims["name"] = random.choice(
                ("ann", "", "b.c", "x y")
            )  # no wildcard: midge is stricter
        user = self.revoked if random.random() < 0.15 else self.user
        return claims, issuer, user


_USER_FIELDS: dict[str, tuple[Any, ...]] = {
    "subs": (0, 1, -1, 5),
    "payload": (0, 5, -1),
    "src": (["127.0.0.0/8"], ["10.0.0.0/8"], [], ["127.0.0.1/32", "::1/128"]),
    "times": ([], [{"start": "00:00:00", "end": "23:59:59"}]),
    "bearer_token": (True, False),
    "allowed_connection_types": (["STANDARD"], ["WEBSOCKET"], ["standard", "MQTT"], ["PIGEON"], []),
    "pub": ({"allow": ["a.>"]}, {"deny": ["a.b"]}, {}),
    "sub": ({"allow": ["b", "c q"]}, {"deny": ["b"]}, {}),
    "resp": ({"max": 1, "ttl": 1000000}, {"max": -1, "ttl": -1}),
    "tags": (["a:b"], []),
}


_PROBES = (
    b"PUB a.b 0\r\n\r\nPUB x 0\r\n\r\nPUB ann.y 9\r\n123456789\r\n"
    b"SUB b 1\r\nSUB c q 2\r\nSUB z 3\r\nPING\r\n"
)
_ENDS = ("-ERR 'User Authentication Expired'", "-ERR 'maximum subscriptions exceeded'")


def _damaged(token: str, random: Random) -> str:
    at = random.randrange(len(token))
    return token[:at] + random.choice("Aa0-_.") + token[at + 1 :]


def _login(server: Server, token: str, signer: KeyPair | None) -> str:
    """Return the errors for a client with `token`, and whether some commands are refused."""
    with socket.create_connection(server.address(), TIMEOUT_S) as sock:
        info = json.loads(_line(sock)[5:])
        said = {"jwt": token, "verbose": False, "pedantic": False, "protocol": 1}
        if signer is not None:
            said["sig"] = signer.signature(info["nonce"].encode())
        sock.sendall(b"CONNECT " + json.dumps(said).encode() + b"\r\nPING\r\n")
        answer = _to_pong(sock)
        if b"-ERR" not in answer:
            sock.sendall(_PROBES)
            answer += _to_pong(sock)
    lines = [_told(line) for line in answer.decode().split("\r\n")]
    ends = [line for line in lines if line in _ENDS]  # what else is said before is a matter of luck
    return ends[0] if ends else "\n".join(lines)


def _told(line: str) -> str:
    if not line.startswith("INFO"):
        return line
    info = json.loads(line[5:])
    return f"INFO {info.get('remote_account')} {info.get('max_payload')}"


def _line(sock: socket.socket | EncryptedClient) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        line += sock.recv(1)
    return line


def _to_pong(sock: socket.socket) -> bytes:
    got = b""
    while b"PONG\r\n" not in got and (piece := _received(sock)):
        got += piece
    return got


def _received(sock: socket.socket) -> bytes:
    try:
        return sock.recv(1 << 16)
    except ConnectionError:
        return b""


# Files.

_KEYS = (
    "port", "host", "listen", "server_name", "max_payload", "max_connections",
    "max_subscriptions", "ping_interval", "ping_max", "write_deadline", "debug", "trace",
    "logtime", "log_file", "pid_file", "http_port", "max_control_line", "max_pending",
    "lame_duck_duration", "no_auth_user", "authorization", "accounts", "tls", "websocket",
    "jetstream", "mappings", "prof_port", "connect_error_reports", "no_header_support",
    "max_traced_msg_len", "system_account", "client_advertise", "max_closed_clients",
)  # fmt: skip
_VALUES = (
    "4222", "-1", "0", "1", "'a'", "name", '"two words"', "true", "false", "yes", "1k", "1MB",
    "1K", "2s", "10m", "1h30m", "127.0.0.1", "'127.0.0.1:-1'", "[]", "{}", "[1, 2]", "1.5", "-5",
    "$UNSET", "9223372036854775808", "{ user: a, password: b }",
    "{ users: [ { user: a, password: b } ] }", "{ token: t, timeout: 0.5 }",
    "{ A: { users: [ { user: x, password: y } ] } }", "{ a: b }", "2021-01-01T00:00:00Z",
    "{ port: -1, no_tls: true }",
    "{ users: [ { user: a, password: b, permissions: { publish: 'a.>' } } ] }", "'%'", "0x10",
    "1e3",
)  # fmt: skip


def random_file(random: Random) -> str:
    """Return a configuration file of a few settings, most of them with a value of a wrong kind."""
    lines = []
    for _ in range(random.randint(1, 4)):
        sign = random.choice((": ", " = ", " ", ":"))
        end = random.choice(("", "", ";", "  # note"))
        lines.append(random.choice(_KEYS) + sign + random.choice(_VALUES) + end)
    text = "\n".join(lines) + "\n"
    if random.random() < 0.1:
        at = random.randrange(len(text))
        text = text[:at] + random.choice("{}[]'\"#,$\n") + text[at + 1 :]
    return text


def check_file(text: str) -> list[bool]:
    """Return whether nats-server, and midge, take the file."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "server.conf"
        file.write_text(text)
        theirs = subprocess.run(
            [*nats_server_command(), "-t", "-c", str(file)], capture_output=True, check=False
        )
        ours = commands.midge_server(["-t", "-c", str(file)])
    return [theirs.returncode == 0, ours == 0]


# TLS.


@cache
def authorities() -> tuple[Authority, Authority]:
    return Authority(), Authority("somebody else")


class TlsServers:
    """Both servers with one set of TLS rules."""

    def __init__(self, random: Random) -> None:
        ours, _ = authorities()
        certificate, key = ours.issue("CN=127.0.0.1")
        rules = {
            "cert_file": "@directory@/cert.pem",
            "key_file": "@directory@/key.pem",
            "ca_file": "@directory@/ca.pem",
            "timeout": 2,
            "verify": random.random() < 0.5,
            "min_version": random.choice(("1.2", "1.3")),
            "handshake_first": random.choice((False, False, True, "auto")),
        }
        self.rules = rules
        config = json.dumps(
            {"tls": rules, **({"allow_non_tls": True} if random.random() < 0.2 else {})}
        )
        files = {"cert.pem": pem(certificate), "key.pem": key, "ca.pem": ours.pem}
        self.servers = [
            Server(command, config, files=files)
            for command in (nats_server_command(), midge_command())
        ]
        for server in self.servers:
            server.wait_ready()

    def close(self) -> None:
        for server in self.servers:
            server.stop()

    def play(self, random: Random) -> tuple[list[str], str]:
        """Return what each server does with one client, and what that was."""
        ours, others = authorities()
        version = random.choice((ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3))
        own = random.choice((None, ours, others))
        first = (
            bool(self.rules["handshake_first"]) if random.random() < 0.8 else random.random() < 0.5
        )
        plain = random.random() < 0.15
        with tempfile.TemporaryDirectory() as directory:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.minimum_version = context.maximum_version = version
            if own is not None:
                certificate, key = own.issue("CN=client")
                (Path(directory) / "c.pem").write_bytes(pem(certificate))
                (Path(directory) / "k.pem").write_bytes(key)
                context.load_cert_chain(Path(directory) / "c.pem", Path(directory) / "k.pem")
            with ThreadPoolExecutor(2) as pool:
                said = list(pool.map(partial(_handshake, context, first, plain), self.servers))
        facts = f"{self.rules} {version.name} own={own and own is ours} {first=} {plain=}"
        return said, facts


def _handshake(context: ssl.SSLContext, first: bool, plain: bool, server: Server) -> str:
    """Return the outcome of a handshake and of a CONNECT behind it."""
    with socket.create_connection(server.address(), TIMEOUT_S) as sock:
        sock.settimeout(1)
        try:
            if not first:
                _line(sock)
            if plain:
                return _talk(sock)
            client = EncryptedClient(context, sock)
            if first:
                _line(client)
            return f"{client.version()} {_talk(client)}"
        except ssl.SSLError as error:
            return f"TLS: {error.reason}"
        except TimeoutError:
            return "silence"
        except (OSError, ValueError, IndexError) as error:
            return type(error).__name__


def _talk(sock: socket.socket | EncryptedClient) -> str:
    sock.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
    got = b""
    while b"PONG\r\n" not in got and (piece := sock.recv(1 << 12)):
        got += piece
    return repr(got[:6])


class Files:
    """Both programs, asked whether they take a file; what midge refuses alone is counted."""

    def __init__(self) -> None:
        self.stricter = 0

    def close(self) -> None:
        """Print how often midge alone refused: settings without a meaning, as a port of 1MB."""
        print(f"files: midge was stricter {self.stricter} times")

    def play(self, random: Random) -> tuple[list[str], str]:
        """Return what both say of one file, and the file."""
        text = random_file(random)
        theirs, ours = check_file(text)
        if theirs and not ours:
            self.stricter += 1
            ours = True
        return [f"valid: {theirs}", f"valid: {ours}"], text


MAKERS: dict[str, Callable[[Random], TokenServers | TlsServers | Files]] = {
    "tokens": lambda _: TokenServers(),
    "files": lambda _: Files(),
    "tls": TlsServers,
}
_TLS_PLAYS = 20  # with one set of rules


def main() -> int:
    """Play `kind seed count [first]`."""
    kind, seed, count, first = sys.argv[1], *(int(one) for one in (*sys.argv[2:], 0)[:3])
    found = 0
    servers: TokenServers | TlsServers | Files | None = None
    for number in range(first, first + count):
        random = Random(f"{kind} {seed} {number}")
        if servers is None or (kind == "tls" and number % _TLS_PLAYS == 0):
            if servers is not None:
                servers.close()
            servers = MAKERS[kind](random)
        outcomes, what = servers.play(random)
        if outcomes[0] != outcomes[1]:
            found += 1
            print(f"{kind}/{seed}/{number}: {what}", *outcomes, sep="\n  ", flush=True)
    if servers is not None:
        servers.close()
    print(f"{kind}: seed {seed}, {count} made, {found} differences", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
