"""Requests of clients through the system account, and the events they see meanwhile.

The same happens on whichever server: a client of the system account asks, two others come, publish,
are kicked and go, one is refused, one says nothing, and at last the server goes.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import nats.errors

from midge.testing import SettlingClient
from tests.support.processes import Server

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

CONFIG = """
accounts {
  SYS { users: [{user: sys, password: pw}] }
  A {
    users: [{user: a, password: pw, permissions: {
      publish: {allow: ["x.>", "$SYS.>"], deny: "x.no"}
      subscribe: {deny: "no.>"}
      allow_responses: {max: 5, expires: "1m"}
    }}]
  }
  B { users: [{user: b, password: pw}] }
}
system_account: SYS
server_name: one
server_tags: ["Az:One", " b ", "b", ""]
server_metadata: {rack: "7", "B c": d}
"""

ANSWER_TIMEOUT_S = 60.0
SILENCE_S = 1.0
EVENT_TIMEOUT_S = 60.0


class Question(NamedTuple):
    """A request by the client of a user; `@id@` in the subject is replaced by the server's id."""

    subject: str
    request: Any = None
    user: str = "sys"

    def __str__(self) -> str:
        """Name the test of it."""
        request = "" if self.request is None else json.dumps(self.request)
        return f"{self.user}:{self.subject}{request}"


PAGES = (
    *("STATSZ", "IDZ", "VARZ", "CONNZ", "SUBSZ", "ROUTEZ", "GATEWAYZ", "LEAFZ"),
    *("ACCOUNTZ", "JSZ", "HEALTHZ"),
)
ACCOUNT_PAGES = ("CONNZ", "SUBSZ", "LEAFZ", "INFO", "STATZ", "CONNS")

_ONE = "$SYS.REQ.SERVER.@id@"
_EVERY = "$SYS.REQ.SERVER.PING"
_ACCOUNT = "$SYS.REQ.ACCOUNT"

QUESTIONS = (
    Question(_EVERY),
    *(Question(f"{server}.{page}") for server in (_EVERY, _ONE) for page in PAGES),
    Question(_EVERY, {"server_name": "on"}),
    Question(_EVERY, {"server_name": "one", "host": "127.0.0.1", "exact_match": True}),
    Question(_EVERY, {"tags": ["az:one", " B"]}),
    Question(f"{_ONE}.CONNZ", {"acc": "A", "auth": True, "subscriptions_detail": True, "state": 2}),
    Question(f"{_ONE}.CONNZ", {"sort": "subs", "limit": 1, "offset": 1}),
    Question(f"{_ONE}.SUBSZ", {"subscriptions": True, "account": "A"}),
    Question(f"{_ONE}.ACCOUNTZ", {"account": "A"}),
    Question(f"{_ONE}.HEALTHZ", {"js-enabled-only": True, "details": True}),
    *(Question(f"{_ACCOUNT}.A.{page}") for page in ACCOUNT_PAGES),
    *(Question(f"{_ACCOUNT}.none.{page}") for page in ("CONNZ", "SUBSZ", "LEAFZ")),
    Question(f"{_ACCOUNT}.PING.STATZ"),
    Question(f"{_ACCOUNT}.PING.STATZ", {"include_unused": True}),
    Question(f"{_ACCOUNT}.PING.STATZ", {"accounts": ["A", "none"]}),
    *(Question("$SYS.REQ.USER.INFO", user=user) for user in ("sys", "a", "b")),
    *(Question(f"{_ACCOUNT}.PING.{page}", user="a") for page in ("CONNZ", "STATZ")),
    Question(f"{_EVERY}.CONNZ", user="b"),
)
"""Requests that both servers answer, in order."""

RELOAD = Question(f"{_ONE}.RELOAD")
"""Requested alone, because nats-server reports all connections again when it reloads."""

REFUSED = (
    Question(f"{_ONE}.CONNZ", {"sort": "size"}),
    Question(f"{_ONE}.ACCOUNTZ", {"account": "none"}),
    Question(f"{_ACCOUNT}.none.INFO"),
    Question(f"{_ACCOUNT}.A.JSZ"),
    Question(f"{_ONE}.KICK", {"cid": 999}),
    Question(f"{_ONE}.LDM", {"cid": 999}),
)
"""Requests that both servers refuse with the same text."""

SILENT = (
    *(Question(_EVERY, {name: "other"}) for name in ("server_name", "host", "cluster", "domain")),
    Question(_EVERY, {"tags": ["other"]}),
    Question(_EVERY, {"tags": ["b", "other"]}),
    Question(f"{_EVERY}.VARZ", {"server_name": "on", "exact_match": True}),
    Question(f"{_ACCOUNT}.none.STATZ"),
    Question(f"{_ACCOUNT}.none.CONNS"),
)
"""Requests for another server, which this one does not answer."""

NOBODY = (
    Question(_EVERY, user="a"),
    Question(f"{_EVERY}.VARZ", user="b"),
    Question(f"{_ACCOUNT}.A.CONNZ", user="b"),
    Question(f"{_ONE}.KICK", {"cid": 1}, user="a"),
)
"""Subjects without a responder outside of the system account."""


class Told(NamedTuple):
    """The answers, and the events in the order in which they came, without the server's id."""

    answers: dict[str, Any]
    events: list[tuple[str, Any]]

    def of(self, subject: str) -> list[Any]:
        """List the events on a subject."""
        return [event for heard, event in self.events if heard == subject]


class _Audience:
    """Keeps the events, and lets wait for one."""

    def __init__(self, server_id: str) -> None:
        self._server_id = server_id
        self.events: list[tuple[str, Any]] = []
        self._heard: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def hear(self, message: Msg) -> None:
        subject = message.subject.replace(self._server_id, "@id@")
        self.events.append((subject, json.loads(message.data)))
        self._heard[subject].set()

    async def heard(self, subject: str) -> None:
        await asyncio.wait_for(self._heard[subject].wait(), EVENT_TIMEOUT_S)


async def _ask(client: Client, question: Question, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
    assert client._server_info is not None
    subject = question.subject.replace("@id@", client._server_info["server_id"])
    request = b"" if question.request is None else json.dumps(question.request).encode()
    try:
        message = await client.request(subject, request, timeout=timeout_s)
    except nats.errors.NoRespondersError:
        return "nobody"
    except nats.errors.TimeoutError:
        return "silence"
    return json.loads(message.data)


async def listen(command: list[str]) -> Told:
    """Start a server by `command`, ask it everything and hear all its events."""
    with Server(command, CONFIG) as server:
        system, audience = await _listen(server)
        await audience.heard("$SYS.SERVER.@id@.STATSZ")
        clients = {"sys": system, "a": await _connect(server, "a")}
        await audience.heard("$SYS.ACCOUNT.A.CONNECT")
        clients["b"] = await _connect(server, "b")
        await clients["a"].subscribe("x.y", queue="workers")
        await clients["a"].publish("x.y", b"12345")
        await clients["a"].flush()
        answers = {
            str(question): await _ask(clients[question.user], question)
            for question in (*QUESTIONS, *REFUSED, *NOBODY)
        }
        quiet = [_ask(clients[question.user], question, SILENCE_S) for question in SILENT]
        answers |= dict(zip(map(str, SILENT), await asyncio.gather(*quiet), strict=True))
        await _let_go(server, clients, audience)
    last = await _reload_and_end(command)
    return Told(answers | last.answers, audience.events + last.events)


async def _connect(server: Server, user: str) -> Any:
    return await SettlingClient.connected(
        server.url, user=user, password="pw", name=f"client {user}", allow_reconnect=False
    )


async def _listen(server: Server) -> tuple[Client, _Audience]:
    """Connect a client of the system account that hears all events."""
    system = await _connect(server, "sys")
    audience = _Audience(system._server_info["server_id"])
    await system.subscribe("$SYS.ACCOUNT.>", cb=audience.hear)
    await system.subscribe("$SYS.SERVER.>", cb=audience.hear)
    await system.flush()
    return system, audience


async def _let_go(server: Server, clients: dict[str, Client], audience: _Audience) -> None:
    """End the clients in all ways; each waits until the previous end is reported."""
    await clients["a"].close()
    await audience.heard("$SYS.ACCOUNT.A.DISCONNECT")
    request = {"cid": clients["b"]._client_id}
    await _ask(clients["sys"], Question(f"{_ONE}.KICK", request))
    await audience.heard("$SYS.ACCOUNT.B.DISCONNECT")
    await _say(server, b'CONNECT {"user":"a","pass":"no","name":"refused"}\r\n')
    await audience.heard("$SYS.ACCOUNT.$G.DISCONNECT")
    server.signal("SIGUSR2")
    await audience.heard("$SYS.SERVER.@id@.LAMEDUCK")
    for client in clients.values():
        await client.close()
    server.signal("SIGINT")  # which does not wait for lame duck mode to end


async def _reload_and_end(command: list[str]) -> Told:
    """Make another server reload its configuration, then stop it."""
    with Server(command, CONFIG) as server:
        system, audience = await _listen(server)
        answer = await _ask(system, RELOAD)
        server.signal("SIGTERM")
        await audience.heard("$SYS.SERVER.@id@.SHUTDOWN")
        await system.close()
    return Told({str(RELOAD): answer}, [one for one in audience.events if "SHUTDOWN" in one[0]])


async def _say(server: Server, line: bytes) -> None:
    """Send one line, and read until the server closes."""
    reader, writer = await asyncio.open_connection(*server.address())
    writer.write(line)
    await reader.read()
    writer.close()
