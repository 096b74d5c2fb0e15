"""Latencies of imported services: the requests that are measured, and the published metrics."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Self

import pytest

from tests.support.processes import Server, command_of
from tests.support.raw import Raw

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CONFIG = """
accounts {
  A {
    users: [{user: a, password: p}]
    exports: [
      {service: "s.shared", latency: {sampling: 100%, subject: lat.shared}}
      {service: "s.plain", latency: "lat.plain"}
      {service: "s.header", latency: {sampling: headers, subject: lat.header}}
      {service: "s.short", threshold: "500ms", latency: {sampling: 100, subject: lat.short}}
    ]
  }
  B {
    users: [{user: b, password: p}]
    imports: [
      {service: {account: A, subject: s.shared}, share: true}
      {service: {account: A, subject: s.plain}, to: x.plain}
      {service: {account: A, subject: s.header}}
      {service: {account: A, subject: s.short}}
    ]
  }
}
"""
WHOLE = {"acc", "client_type", "host", "id", "kind", "name", "rtt", "server", "start", "user"}
LEAST = {"acc", "rtt"}
METRIC = {"id", "requestor", "service", "start", "status", "system", "timestamp", "total", "type"}
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"


class Site:
    """A requester, a responder and a listener to latencies, at one server."""

    def __init__(self, server: Server) -> None:
        self.server = server

    async def __aenter__(self) -> Self:
        self.responder = await self.connect("a", b"SUB s.* 1")
        self.listener = await self.connect("a", b"SUB lat.> 1")
        self.requester = await self.connect("b", b"SUB inbox 1")
        return self

    async def __aexit__(self, *_: object) -> None:
        for one in (self.responder, self.listener, self.requester):
            await one.close()

    async def connect(self, user: str, *lines: bytes) -> Raw:
        raw = await Raw.open(self.server.url)
        given = {"user": user, "pass": "p", "name": "n", "no_responders": True}
        assert await raw.connect(**given) == b""
        await raw.ask(*lines)
        return raw

    async def ask(self, subject: str, header: str = "", *, answers: bool = True) -> None:
        """Send a request, and answer it."""
        block = f"NATS/1.0\r\n{header}\r\n\r\n".encode() if header else b""
        verb = b"HPUB %b inbox %d %d" if header else b"PUB %b inbox %d"
        sizes = (len(block), len(block) + 2) if header else (2,)
        self.requester.send(verb % (subject.encode(), *sizes), block + b"hi")
        line = (await self.responder.until(b"MSG s.")).splitlines()[-1]
        if answers:
            self.responder.send(b"PUB %b 2" % line.split()[3], b"ok")
            await self.requester.until(b"MSG inbox")

    async def metric(self) -> dict[str, Any]:
        start = len(self.listener.received)
        await self.listener.until(b'"type"')
        document = self.listener.received[start:].splitlines()[-1]
        found: dict[str, Any] = json.loads(document)
        return found


@pytest.fixture(scope="module", params=["real", "midge"])
def server(request: pytest.FixtureRequest) -> Any:
    with Server(command_of(request.param), CONFIG) as started:
        yield started


@pytest.fixture
async def site(server: Server) -> AsyncIterator[Site]:
    async with Site(server) as opened:
        yield opened


async def test_times_of_an_answered_request(site: Site) -> None:
    for subject, shown in (("s.shared", WHOLE), ("x.plain", LEAST)):
        await site.ask(subject)
        metric = await site.metric()
        assert metric.keys() == METRIC | {"responder"}
        assert metric["status"] == 200
        assert metric["requestor"].keys() == shown
        assert metric["responder"].keys() == WHOLE
        if metric["service"]:  # else the round trips that were measured are longer
            rtts = metric["requestor"]["rtt"] + metric["responder"]["rtt"]
            parts = metric["service"] + metric["system"] + rtts
            assert metric["total"] == pytest.approx(parts, abs=10)
        assert metric["type"] == "io.nats.server.metric.v1.service_latency"


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        ("", None),
        ("Nats-Latency: yes", None),
        ("X-B3-Sampled: 1", "X-B3-Sampled"),
        ("x-b3-sampled: 1", "X-B3-Sampled"),
        ("X-B3-Sampled: 0", None),
        ("X-B3-TraceId: abc", "X-B3-Traceid"),
        ("b3: 80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1", "B3"),
        ("b3: 80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-0", None),
        ("b3: 0", None),
        ("Uber-Trace-Id: a:b:c:1", "Uber-Trace-Id"),
        ("Uber-Trace-Id: a:b:c:0", None),
        ("Uber-Trace-Id: a:b:c:z", None),
        ("Uber-Trace-Id: a:b:1", None),
        (f"traceparent: {TRACEPARENT}01", "Traceparent"),
        (f"traceparent: {TRACEPARENT}00", None),
    ],
)
async def test_headers_ask_for_a_measurement(site: Site, header: str, shown: str | None) -> None:
    await site.ask("s.header", header)
    await site.ask("x.plain")  # which is measured in any case
    metric = await site.metric()
    if shown is None:
        assert "header" not in metric
    else:
        value = header.partition(": ")[2]
        assert metric["header"] == {shown: [value]}


async def test_a_request_without_an_answer(site: Site) -> None:
    await site.ask("s.short", answers=False)
    metric = await site.metric()
    assert metric.keys() == METRIC | {"description"}
    assert (metric["status"], metric["description"]) == (504, "Service Timeout")
    assert metric["total"] == metric["service"] == metric["system"] == 0


async def test_a_request_without_a_responder(site: Site) -> None:
    await site.responder.ask(b"UNSUB 1")
    site.requester.send(b"PUB s.shared inbox 2", b"hi")
    metric = await site.metric()
    assert (metric["status"], metric["description"]) == (503, "Service Unavailable")
    await site.requester.until(b"503")


async def test_a_requester_that_has_gone(site: Site) -> None:
    site.requester.send(b"PUB s.shared inbox 2", b"hi")
    line = (await site.responder.until(b"MSG s.")).splitlines()[-1]
    await site.requester.close()
    await asyncio.sleep(0.2)  # nats-server publishes at once, midge at the answer
    site.responder.send(b"PUB %b 2" % line.split()[3], b"ok")
    metric = await site.metric()
    assert (metric["status"], metric["description"]) == (408, "Request Timeout")
