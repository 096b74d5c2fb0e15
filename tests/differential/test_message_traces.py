"""Messages that ask for a trace: both servers report the same route."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from tests.support.processes import Server, midge_command, nats_server_command
from tests.support.raw import Raw

CONFIG = """
accounts {
  A {
    users: [
      {user: a, password: p}
      {user: limited, password: p, permissions: {publish: {deny: ["no.>", "trace.no"]}}}
      {user: deaf, password: p, permissions: {subscribe: {deny: "x.secret"}}}
    ]
    mappings: {"m.in": "m.out"}
    exports: [{stream: "s.>"}, {stream: "o.>"}]
    imports: [
      {service: {account: B, subject: svc.x}, to: my.x}
      {service: {account: B, subject: "open.*"}, to: "my.open.*"}
      {service: {account: B, subject: chain.x}}
      {service: {account: B, subject: half.x}}
    ]
    msg_trace: trace.external
  }
  B {
    users: [{user: b, password: p}]
    mappings: {"open.in": "open.out"}
    exports: [
      {service: svc.x}
      {service: "open.*", allow_trace: true}
      {service: chain.x, allow_trace: true}
      {service: half.x, allow_trace: true}
      {stream: "open.*"}
    ]
    imports: [
      {stream: {account: A, subject: "s.>"}, prefix: from}
      {stream: {account: A, subject: "o.>"}, prefix: opened, allow_trace: true}
      {service: {account: C, subject: chain.x}}
      {service: {account: C, subject: half.x}}
    ]
  }
  C {
    users: [{user: c, password: p}]
    exports: [{service: chain.x, allow_trace: true}, {service: half.x}]
    imports: [{stream: {account: B, subject: "open.*"}, prefix: reexported}]
  }
}
"""
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"


class Case(NamedTuple):
    """A message that `user` publishes to `subject` with `headers`."""

    subject: str
    headers: dict[str, str]
    user: str = "a"
    options: Mapping[str, Any] = MappingProxyType({})

    def __str__(self) -> str:
        return f"{self.user} {self.subject} {' '.join(self.headers)} {self.options or ''}"


TRACED = {"Nats-Trace-Dest": "trace.here"}
ONLY = {**TRACED, "Nats-Trace-Only": "true"}
CASES = [
    Case("x.nobody", TRACED),
    Case("x.one", {**TRACED, "Other": "1"}),
    Case("x.one", ONLY),
    Case("x.one", {**TRACED, "Nats-Trace-Only": "ON"}),
    Case("x.one", {**TRACED, "Nats-Trace-Only": "maybe"}),
    Case("x.one", {"Nats-Trace-Only": "true"}),
    Case("x.one", {"nats-trace-dest": "trace.here"}),
    Case("x.one", {"Nats-Trace-Dest": "trace disabled"}),
    Case("x.one", {"Nats-Trace-Dest": "trace.*"}),
    Case("x.one", {"Nats-Trace-Dest": "trace.*", "Nats-Trace-Only": "1"}),
    Case("x.one", {**TRACED, "Nats-Trace-Origin-Account": "A"}),
    Case("x.one", {**ONLY, "Nats-Trace-Origin-Account": "A"}),
    Case("x.queue", TRACED),
    Case("x.queue", ONLY),
    Case("x.secret", TRACED),
    Case("x.secret", ONLY),
    Case("x.own", TRACED, options={"echo": False}),
    Case("x.own", TRACED, options={"name": "shop"}),
    Case("m.in", TRACED),
    Case("m.in", ONLY),
    Case("no.way", TRACED, user="limited"),
    Case("x.one", {"Nats-Trace-Dest": "trace.no"}, user="limited"),
    Case("x.one", {"Nats-Trace-Dest": "trace.no", "Nats-Trace-Only": "1"}, user="limited"),
    Case("s.news", TRACED),
    Case("s.news", ONLY),
    Case("my.x", TRACED),
    Case("my.x", ONLY),
    *(
        Case(subject, headers)
        for subject in (
            *("o.news", "o.queue", "o.both", "o.nobody", "my.open.x", "my.open.queue"),
            *("my.open.in", "my.open.nobody", "chain.x", "half.x"),
        )
        for headers in (TRACED, ONLY)
    ),
    Case("x.one", {"traceparent": TRACEPARENT + "01"}),
    Case("x.one", {"TraceParent": TRACEPARENT + "01"}),
    Case("x.one", {"traceparent": TRACEPARENT + "00"}),
    Case("x.one", {"traceparent": TRACEPARENT + "01"}, user="b"),
    Case("x.one", {"traceparent": TRACEPARENT + "01", **ONLY}),
]

LISTENERS: dict[str, tuple[bytes, ...]] = {
    "a": (b"SUB x.one 1", b"SUB x.* 2", b"SUB m.out 3", b"SUB s.> 4", b"SUB trace.> 5"),
    "deaf": (b"SUB x.> 1", b"SUB x.queue q 2"),
    "b": (
        *(b"SUB from.> 1", b"SUB svc.x 2", b"SUB opened.o.news 3", b"SUB opened.o.queue q 4"),
        *(b"SUB opened.o.both 5", b"SUB opened.o.both q 6", b"SUB open.x 7"),
        *(b"SUB open.queue q 8", b"SUB open.out 9"),
    ),
    "c": (b"SUB chain.x 1", b"SUB half.x 2", b"SUB reexported.> 3"),
}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    with Server(nats_server_command(), CONFIG) as real, Server(midge_command(), CONFIG) as ours:
        yield real, ours


@pytest.fixture
async def opened() -> AsyncIterator[list[Raw]]:
    every: list[Raw] = []
    yield every
    await asyncio.gather(*(raw.close() for raw in every))


async def enter(opened: list[Raw], server: Server, user: str, **options: Any) -> Raw:
    raw = await Raw.open(server.url)
    opened.append(raw)
    await raw.connect(user=user, protocol=1, **{"pass": "p", "name": user, **options})
    return raw


async def outcome(opened: list[Raw], server: Server, case: Case) -> dict[str, Any]:
    """Return the publisher's errors, the messages of each listener, and the traces."""
    listeners = {user: await enter(opened, server, user) for user in LISTENERS}
    for user, lines in LISTENERS.items():
        await listeners[user].ask(*lines)
    publisher = await enter(opened, server, case.user, **case.options)
    names = {raw.info["client_id"]: user for user, raw in listeners.items()}
    names[publisher.info["client_id"]] = "publisher"
    block = "NATS/1.0\r\n" + "".join(f"{k}: {v}\r\n" for k, v in case.headers.items()) + "\r\n"
    sizes = f"{len(block)} {len(block) + 2}".encode()
    line = b"HPUB %b %b\r\n%bhi" % (case.subject.encode(), sizes, block.encode())
    told = await publisher.ask(b"SUB x.own 9", line)
    settled = [await settled_after(raw) for raw in listeners.values()]
    got = dict(zip(listeners, settled, strict=True))
    return {
        "publisher": messages(told)[0],
        "got": {user: messages(text)[0] for user, text in got.items()},
        "traces": [shown(trace, names) for trace in messages(got["a"])[1]],
    }


async def settled_after(raw: Raw) -> bytes:
    """Return what a listener gets until nothing more comes; nats-server sends traces later."""
    received = b""
    for _ in range(3):
        await asyncio.sleep(0.03)
        received += await raw.ask()
    return received


def messages(text: bytes) -> tuple[list[bytes], list[Any]]:
    """Return the control lines and errors in `text`, and the traces."""
    lines, traces = [], []
    while text:
        line, _, text = text.partition(b"\r\n")
        parts = line.split()
        if parts[:1] in ([b"MSG"], [b"HMSG"]):
            size = int(parts[-1])
            payload, text = text[:size], text[size + 2 :]
            if parts[1].startswith(b"trace."):
                traces.append({"subject": parts[1].decode(), **json.loads(payload)})
                continue
            # The sizes of requests to other accounts depend on round trip times.
            mark = b" untraced" if b"Nats-Trace-Dest: trace disabled" in payload else b""
            lines.append(b" ".join(parts[:3]) + mark)
        elif not line.startswith(b"INFO"):
            lines.append(line)
    return lines, traces


def shown(trace: dict[str, Any], names: dict[int, str]) -> dict[str, Any]:
    """Return a trace with the names of clients for their numbers, and without its times."""
    assert trace.pop("server")["id"]
    for event in trace["events"]:
        assert TIME.fullmatch(event.pop("ts")), event
        if "cid" in event:
            event["cid"] = names[event["cid"]]
    # Subscriptions of one message are served in any order.
    first, *others = trace["events"]
    trace["events"] = [first, *sorted(others, key=lambda one: json.dumps(one, sort_keys=True))]
    return trace


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_trace_is_nats_servers(
    servers: tuple[Server, Server], opened: list[Raw], case: Case
) -> None:
    real, ours = [await outcome(opened, server, case) for server in servers]
    for told in (real, ours):
        for lines in told["got"].values():
            lines.sort()
    assert ours == real, json.dumps([real, ours], default=str)


async def of_a_run(opened: list[Raw], server: Server) -> tuple[int, int]:
    """Publish equal lines, every fortieth traced; return how many messages and traces come."""
    listener = await enter(opened, server, "a")
    publisher = await enter(opened, server, "a")
    await listener.ask(b"SUB x.run 1", b"SUB trace.> 2")
    blocks = [f"NATS/1.0\r\n{n}ats-Trace-Dest: trace.run\r\n\r\n".encode() for n in "XN"]
    lines = [
        b"HPUB x.run %d %d\r\n%bhi" % (len(block), len(block) + 2, block)
        for block in (blocks[not i % 40] for i in range(200))
    ]
    await publisher.ask(*lines)
    found = messages(await settled_after(listener))
    return len(found[0]), len(found[1])


async def test_each_message_of_a_run_is_looked_at(
    servers: tuple[Server, Server], opened: list[Raw]
) -> None:
    real, ours = [await of_a_run(opened, server) for server in servers]
    assert ours == real == (200, 5)


async def of_an_answer(opened: list[Raw], server: Server) -> Any:
    """Request from a service in another account that traces its answer; return that trace."""
    requester, service = await enter(opened, server, "a"), await enter(opened, server, "b")
    await service.ask(b"SUB svc.x 1", b"SUB trace.> 2")
    await requester.ask(b"SUB inbox 1", b"PUB my.x inbox 2\r\nhi")
    while b"svc.x 1 " not in service.received:
        await service.ask()
    reply = service.received.split(b"svc.x 1 ")[1].split(b" ")[0]
    block = b"NATS/1.0\r\nNats-Trace-Dest: trace.b\r\n\r\n"
    line = b"HPUB %b %d %d\r\n%bhi" % (reply, len(block), len(block) + 2, block)
    told = await service.ask(line) + await settled_after(service)
    (trace,) = messages(told)[1]
    names = {service.info["client_id"]: "service"}
    text = json.dumps(shown(trace, names)).replace(reply.decode(), "@reply@")
    return json.loads(text), messages(await settled_after(requester) + requester.received)[0][-1:]


async def test_the_trace_of_an_answer_ends_at_the_border(
    servers: tuple[Server, Server], opened: list[Raw]
) -> None:
    real, ours = [await of_an_answer(opened, server) for server in servers]
    assert ours == real


STREAM = b'{"name":"S","subjects":["js.*"],"storage":"memory"}'


async def stored(opened: list[Raw], command: list[str]) -> tuple[list[Any], Any]:
    """Publish a message to a stream, and one that is only to be traced; return the results."""
    with Server(command, 'jetstream { store_dir: "@directory@/js" }') as server:
        raw = await Raw.open(server.url)
        opened.append(raw)
        await raw.connect(protocol=1)
        create = b"PUB $JS.API.STREAM.CREATE.S _INBOX.1 %d\r\n%b" % (len(STREAM), STREAM)
        await raw.ask(b"SUB trace.> 1", b"SUB _INBOX.1 2", b"SUB _INBOX.2 3", create)
        if b"_INBOX.1" not in raw.received:
            await raw.until(b"stream_create_response")
        told = b""
        for headers in (TRACED, ONLY):
            block = "NATS/1.0\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
            sizes = f"{len(block)} {len(block) + 2}".encode()
            told += await raw.ask(b"HPUB js.a %b\r\n%bhi" % (sizes, block.encode()))
            told += await settled_after(raw)
        raw.send(b"PUB $JS.API.STREAM.INFO.S _INBOX.2 0\r\n")
        info = json.loads((await raw.until(b"stream_info_response")).splitlines()[-1])
        traces = [shown(trace, {raw.info["client_id"]: "own"}) for trace in messages(told)[1]]
        return traces, info["state"]["messages"]


async def test_streams_are_told_of_and_store_no_mere_trace(opened: list[Raw]) -> None:
    real, ours = [
        await stored(opened, command()) for command in (nats_server_command, midge_command)
    ]
    assert ours == real, json.dumps([real, ours], default=str)
    assert ours[1] == 1
