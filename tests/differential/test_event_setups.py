"""Every system event and advisory has the same fields with the same types, in many set-ups.

In each set-up a client of the system account listens while others come, are refused, work and go,
links join and end, and the server stops. With links, the pages are compared as well; the server at
the other end of a link is always a nats-server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
from collections import defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from midge.server.auth.nkeys import KeyKind
from tests.differential.pages import Site
from tests.differential.test_monitoring_setups import IN_EVERY_ACCOUNT, MEANT, fields, read
from tests.support.clusters import route_port
from tests.support.keys import UNLIMITED_ACCOUNT, Authority, KeyPair, make_token, pem
from tests.support.leafnodes import leaf_port
from tests.support.processes import Server, midge_command, nats_server_command
from tests.support.raw import Raw

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

Shapes = dict[str, dict[str, set[str]]]
"""The fields of each event, or page, with their types, by subject or path."""

AUTHORITY = Authority()
CERTIFICATE, KEY = AUTHORITY.issue("CN=localhost")
FILES = {"cert.pem": pem(CERTIFICATE), "key.pem": KEY, "ca.pem": AUTHORITY.pem}
OPERATOR, SYSTEM, ACCOUNT = (
    KeyPair(KeyKind.OPERATOR),
    KeyPair(KeyKind.ACCOUNT),
    KeyPair(KeyKind.ACCOUNT),
)
USER, SYSTEM_USER = KeyPair(KeyKind.USER), KeyPair(KeyKind.USER)
OURS = {
    ("$SYS.SERVER.@id@.STATSZ", ".statsz.jetstream.config.sync_always"),
    ("/routez", ".routes[].account"),
}
"""`sync_always` is the name of midge's default there. One route carries all accounts here."""

BY_TIME = {
    *("$SYS.ACCOUNT.$SYS.SERVER.CONNS", "$SYS.SERVER.ACCOUNT.$SYS.CONNS"),
    "$SYS.ACCOUNT.$SYS.CONNECT",
}
"""Events that the servers publish on a timer or when another server asks, and the listener's own,
which another thread of nats-server sends."""

NO_LIMITS = {"subs": -1, "data": -1, "payload": -1}
TOKENS = {
    OPERATOR: make_token(OPERATOR, OPERATOR.public, "operator"),
    SYSTEM: make_token(OPERATOR, SYSTEM.public, "account"),
    ACCOUNT: make_token(
        OPERATOR, ACCOUNT.public, "account", nats={"limits": UNLIMITED_ACCOUNT}, name="app"
    ),
    USER: make_token(ACCOUNT, USER.public, "user", nats={**NO_LIMITS, "tags": ["x:y"]}, name="bob"),
    SYSTEM_USER: make_token(SYSTEM, SYSTEM_USER.public, "user", nats=NO_LIMITS, name="sys"),
}
TLS = 'cert_file: "@directory@/cert.pem", key_file: "@directory@/key.pem"'
VERIFY = f'tls {{ {TLS}, ca_file: "@directory@/ca.pem", verify: true }}'
NAMES = {"name": "n", "lang": "go", "version": "1"}
LOGIN = {"user": "u", "pass": "p"}
SYSTEM_LOGIN = {"user": "sys", "pass": "p"}


def accounts(text: str = "A { users: [{ user: u, password: p }] }") -> str:
    return f"accounts {{ $SYS {{ users: [{{ user: sys, password: p }}] }}\n{text} }}\n"


class Setup(NamedTuple):
    """A configuration, and what happens there besides clients that come and go."""

    config: str
    act: Callable[[Rig], Awaitable[None]] | None = None
    login: Mapping[str, Any] = MappingProxyType({})
    other: str = ""
    """The configuration of the other server; ``@port@`` is the port for its links."""


class Other:
    """The nats-server at the other end of a link; it takes the same port after each start."""

    def __init__(self, stack: contextlib.ExitStack, config: str) -> None:
        self._config = config
        self.port = 0
        stack.callback(lambda: self._server.stop())

    async def start(self) -> None:
        config = self._config.replace("127.0.0.1:-1", f"127.0.0.1:{self.port or -1}")
        self._server = Server(nats_server_command(), config, files=FILES)
        await asyncio.to_thread(self._server.wait_ready)
        if "127.0.0.1:-1" in config:
            self.port = port_of(self._server)

    async def stop(self) -> None:
        await asyncio.to_thread(self._server.stop)


class Rig:
    """One server with its listener; `other` is the server at the end of a link."""

    def __init__(self, setup: Setup, server: Server, other: Other | None) -> None:
        self.setup = setup
        self.server = server
        self.other = other
        self.pages: Shapes = {}
        config = setup.config
        self._tls = None
        if config.startswith("tls"):
            self._tls = ssl.create_default_context()
            self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE
            root = server.config_path.parent
            self._tls.load_cert_chain(root / "cert.pem", root / "key.pem")

    async def connect(self, login: Mapping[str, Any]) -> Raw:
        """Connect a client; values that are functions are given the connection."""
        raw = await Raw.open(self.server.url, self._tls)
        said = {name: value(raw) if callable(value) else value for name, value in login.items()}
        await raw.connect(protocol=1, **NAMES, **said)
        return raw

    async def hear(self, event: bytes, client: Raw) -> None:
        """Wait for an event of this client; a refused one causes events as well."""
        told = None
        while told != client.info["client_id"]:
            await self.listener.until(event)
            told = json.loads(await self.listener.until(b"\r\n"))["client"]["id"]

    async def play(self) -> Shapes:
        """Play the set-up, and return the fields of the events."""
        by_token = {"jwt": TOKENS[SYSTEM_USER], "sig": signature_of(SYSTEM_USER)}
        self.listener = await self.connect(
            by_token if "operator:" in self.setup.config else SYSTEM_LOGIN
        )
        await self.listener.ask(b"SUB $SYS.ACCOUNT.> 1", b"SUB $SYS.SERVER.> 2")
        await self.listener.until(b"%b.STATSZ " % self.listener.info["server_id"].encode())
        login = LOGIN if "user: u" in self.setup.config else self.setup.login
        client = await self.connect(login)
        await self.hear(b".CONNECT ", client)
        advisories = await self.connect(login)
        await advisories.ask(b"SUB $JS.EVENT.> 1")
        await client.ask(b"SUB x.y 1", b"PUB x.y 2\r\nhi")
        if self.setup.act is not None:
            self.client = client
            await self.setup.act(self)
        refused = await Raw.open(self.server.url, self._tls)
        with contextlib.suppress(OSError):
            await refused.connect(user="nobody", **{"pass": "no"})
        await refused.close()
        await self.hear(b".CLIENT.AUTH.ERR ", refused)
        await client.close()
        await self.hear(b".DISCONNECT ", client)
        await advisories.ask()
        await advisories.close()
        self.server.signal("SIGTERM")
        await self.listener.until_end()
        await self.listener.close()
        server_id = self.listener.info["server_id"]
        return shapes_of(self.listener.received + advisories.received, server_id)


def signature_of(key: KeyPair) -> Callable[[Raw], str]:
    return lambda raw: key.signature(raw.info["nonce"].encode())


def shapes_of(received: bytes, server_id: str) -> Shapes:
    """Return the fields of the server's own events in what a connection received."""
    shapes: Shapes = defaultdict(lambda: defaultdict(set))
    while received:
        line, _, received = received.partition(b"\r\n")
        parts = line.split()
        if parts[:1] != [b"MSG"]:
            continue
        size = int(parts[-1])
        event, received = json.loads(received[:size]), received[size + 2 :]
        subject = parts[1].decode().replace(server_id, "@id@")
        subject = subject.replace(ACCOUNT.public, "A").replace(SYSTEM.public, "$SYS")
        origin = event.get("server")
        if not isinstance(origin, dict) or origin["id"] == server_id:
            for path, kind in fields(event):
                if not path.endswith("rtt"):  # there once a PONG has been measured
                    shapes[subject][path].add(kind)
    return shapes


async def jetstream_work(rig: Rig) -> None:
    """Cause each kind of advisory."""
    raw = rig.client
    await raw.ask(b"SUB r 9")

    async def ask(subject: str, document: Any = None, until: bytes = b'"type"') -> None:
        body = b"" if document is None else json.dumps(document).encode()
        raw.send(b"PUB %b r %d" % (subject.encode(), len(body)), body)
        await raw.until(until)

    stream = {"name": "S", "subjects": ["s.>"], "storage": "file", "max_msgs": 100}
    await ask("$JS.API.STREAM.CREATE.S", stream)
    await ask("$JS.API.STREAM.UPDATE.S", {**stream, "description": "x"})
    config = {"durable_name": "c", "ack_policy": "explicit", "max_deliver": 1, "ack_wait": 10**8}
    consumer = {"stream_name": "S", "config": {**config, "sample_freq": "100"}}
    await ask("$JS.API.CONSUMER.DURABLE.CREATE.S.c", consumer)
    for reply in (b"+ACK", b"-NAK", b"+TERM because", None):
        await ask("s.a", "x", b'"seq"')
        await ask("$JS.API.CONSUMER.MSG.NEXT.S.c", {"batch": 1, "expires": 10**9}, b"$JS.ACK")
        ack = raw.received.rpartition(b"$JS.ACK")[2].split(b" ")[0]
        if reply is not None:
            await raw.ask(b"PUB $JS.ACK%b %d" % (ack, len(reply)), reply)
    advisories = Site(rig.server)
    while advisories.get("/jsz?consumers=1&accounts=1").page.get("consumers") != 1:
        await asyncio.sleep(0.02)
    await ask("$JS.API.CONSUMER.PAUSE.S.c", {"pause_until": "2100-01-01T00:00:00Z"})
    await raw.ask(b"SUB snap 8")
    await ask("$JS.API.STREAM.SNAPSHOT.S", {"deliver_subject": "snap"})
    taken = 0
    while b"MSG snap 8 0" not in raw.received:
        await raw.ask()
        replies = re.findall(rb"MSG snap 8 (\S+) [1-9]", raw.received)
        raw.send(*(b"PUB %b 0\r\n" % reply for reply in replies[taken:]))
        taken = len(replies)
    await ask("$JS.API.STREAM.INFO.none")
    await ask("$JS.API.CONSUMER.DELETE.S.c")
    await ask("$JS.API.STREAM.DELETE.S")


async def join_links(rig: Rig) -> None:
    """Wait until the link is there, and read the pages."""
    site = Site(rig.server)
    other = rig.other
    assert other is not None
    name = "/routez" if "cluster" in rig.setup.config else "/leafz"
    key = name.strip("/").rstrip("z")
    key = {"route": "num_routes", "leaf": "leafnodes"}[key]
    while not site.get(name).page[key]:
        await asyncio.sleep(0.02)
    await rig.client.ask(b"SUB over.link 5", b"SUB over.link q 6")
    rig.pages = read(rig.server)
    if name == "/leafz":  # which it may have joined before the listener came
        await other.stop()
        await rig.listener.until(b".DISCONNECT ")
        while not site.get("/connz?state=closed").page["connections"]:
            await asyncio.sleep(0.02)
        of_closed = {"closed " + page: found for page, found in read(rig.server).items()}
        rig.pages |= {page: found for page, found in of_closed.items() if "/connz" in page}
        await other.start()
        await rig.listener.until(b'"kind":"Leafnode"')


async def refuse_many(rig: Rig) -> None:
    """Connect more clients than the server and their account take."""
    others = [await Raw.open(rig.server.url) for _ in range(3)]
    for other in others:
        with contextlib.suppress(OSError):
            await other.connect(**LOGIN)
    for other in others:
        await other.close()


HUB = 'leafnodes { listen: "127.0.0.1:-1" }\n'
TO_HUB = 'leafnodes { reconnect: 100ms, remotes: [ { url: "nats-leaf://127.0.0.1:@port@" } ] }'
ROUTES = "cluster {{ name: C, listen: '127.0.0.1:-1', connect_retries: 50, {} }}\n"
TO_ROUTE = ROUTES.format('routes: ["nats-route://127.0.0.1:@port@"]')
JETSTREAM = 'jetstream { store_dir: "@directory@/js" }\n'

SETUPS = {
    "plain": Setup(accounts("")),
    "tls": Setup(f"tls {{ {TLS} }}\n" + accounts()),
    "verify": Setup(f"{VERIFY}\n" + accounts()),
    "accounts": Setup(accounts()),
    "nkey": Setup(
        accounts(f"A {{ users: [{{ nkey: {USER.public} }}] }}"),
        login={"nkey": USER.public, "sig": signature_of(USER)},
    ),
    "tags": Setup("server_tags: [a, b], server_metadata { x: y }, server_name: n\n" + accounts()),
    "limits": Setup(
        "max_connections: 4, max_subs: 6, max_payload: 1KB\n"
        + accounts("A { users: [{ user: u, password: p }], limits { max_conn: 2 } }"),
        refuse_many,
    ),
    "permissions": Setup(
        accounts("A { users: [{ user: u, password: p, permissions { publish: x.y } }] }")
    ),
    "types": Setup(
        accounts("A { users: [{ user: u, password: p, allowed_connection_types: [STANDARD] }] }")
    ),
    "tokens": Setup(
        f"""operator: {TOKENS[OPERATOR]}
        system_account: {SYSTEM.public}
        resolver: MEMORY
        resolver_preload: {{
            {SYSTEM.public}: {TOKENS[SYSTEM]}
            {ACCOUNT.public}: {TOKENS[ACCOUNT]}
        }}\n""",
        login={"jwt": TOKENS[USER], "sig": signature_of(USER)},
    ),
    "jetstream": Setup(
        JETSTREAM + accounts("A { jetstream: enabled, users: [{ user: u, password: p }] }"),
        jetstream_work,
    ),
    "jetstream-domain": Setup(
        'jetstream { store_dir: "@directory@/js", domain: hub }\n'
        + accounts("A { jetstream: enabled, users: [{ user: u, password: p }] }"),
        jetstream_work,
    ),
    "jetstream-limits": Setup(
        JETSTREAM
        + accounts(
            "A { jetstream { max_mem: 1G, max_streams: 5 }, users: [{ user: u, password: p }] }"
        ),
        jetstream_work,
    ),
    "hub": Setup(HUB + accounts(""), join_links, other=TO_HUB),
    "hub-tls": Setup(
        f"leafnodes {{ listen: '127.0.0.1:-1', tls {{ {TLS} }} }}\n" + accounts(""),
        join_links,
        other=TO_HUB.replace("} ]", ", tls { insecure: true } } ]"),
    ),
    "hub-users": Setup(
        "leafnodes { listen: '127.0.0.1:-1', authorization { user: l, password: l, account: A } }\n"
        + accounts(),
        join_links,
        other=TO_HUB.replace("//", "//l:l@"),
    ),
    "leaf": Setup(TO_HUB + "\n" + accounts(""), join_links, other=HUB),
    "leaf-denied": Setup(
        TO_HUB.replace("} ]", ", deny_imports: a, deny_exports: [b, c] } ]") + "\n" + accounts(""),
        join_links,
        other=HUB,
    ),
    "leaf-jetstream": Setup(TO_HUB + "\n" + JETSTREAM + accounts(""), join_links, other=HUB),
    "route": Setup(ROUTES.format("") + accounts(), join_links, other=TO_ROUTE + accounts()),
    "route-dialled": Setup(TO_ROUTE + accounts(), join_links, other=ROUTES.format("") + accounts()),
    "route-permissions": Setup(
        ROUTES.format("permissions { import: [a], export: ['>'] }") + accounts(),
        join_links,
        other=TO_ROUTE + accounts(),
    ),
    "route-leaf": Setup(
        ROUTES.format("") + HUB + accounts(), join_links, other=TO_ROUTE + accounts()
    ),
}


async def told_by(name: str, command: list[str]) -> tuple[Shapes, Shapes]:
    """Return the fields of the events and pages of a server in a set-up."""
    setup = SETUPS[name]
    config = f"http: 127.0.0.1:-1\n{setup.config}"
    with contextlib.ExitStack() as stack:
        other = None
        is_last = "@port@" in setup.config
        if is_last:
            other = Other(stack, setup.other)
            await other.start()
            config = config.replace("@port@", str(other.port))
        server = await asyncio.to_thread(Server(command, config, files=FILES).wait_ready)
        stack.callback(server.stop)
        if setup.other and not is_last:
            other = Other(stack, setup.other.replace("@port@", str(port_of(server))))
            await other.start()
        rig = Rig(setup, server, other)
        events = await rig.play()
    return events, rig.pages


def port_of(server: Server) -> int:
    """Return the port that a server takes links at."""
    text = server.config_path.read_text()
    return route_port(server) if "cluster" in text else leaf_port(server)


def differences(theirs: Shapes, ours: Shapes) -> Iterator[str]:
    """Yield each field that differs, with its types."""
    for subject in sorted((theirs.keys() | ours.keys()) - BY_TIME):
        expected, found = theirs.get(subject, {}), ours.get(subject, {})
        if bool(expected) != bool(found):
            yield f"{subject}: {'missing' if expected else 'not there'}"
            continue
        for field in sorted(expected.keys() | found.keys()):
            page = subject.partition("?")[0]
            if (page, field) in MEANT | OURS or field.startswith(IN_EVERY_ACCOUNT):
                continue
            if expected.get(field) != found.get(field):
                yield f"{subject} {field}: {expected.get(field)}, not {found.get(field)}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SETUPS)
async def test_every_event_has_the_fields_of_nats_server(name: str) -> None:
    theirs = await asyncio.wait_for(told_by(name, nats_server_command()), 120)
    ours = await asyncio.wait_for(told_by(name, midge_command()), 120)
    found = [*differences(theirs[0], ours[0]), *differences(theirs[1], ours[1])]
    assert not found, "\n".join(["", *found])
