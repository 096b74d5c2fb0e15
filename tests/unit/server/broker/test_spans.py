"""Spans of messages with a sampled `traceparent`, in memory; headers go on byte for byte."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from nats.js.api import ConsumerConfig
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import midge
from midge.server.broker.spans import consumer_of
from midge.server.monitoring.routez import links_of
from midge.server.routing.message_observer import MessageObserver
from midge.testing import ManualClock, SettlingClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from nats.aio.msg import Msg

    from midge.protocol.frame import Frame
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client

TRACE_ID, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = {"traceparent": f"00-{TRACE_ID}-{CALLER}-01", "tracestate": "vendor=1", "Other": "x"}
UNSAMPLED = {"traceparent": f"00-{TRACE_ID}-{CALLER}-00"}
WAIT_S = 60


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """The exporter of the process's provider, which can be set only once."""
    made = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(made))
    trace.set_tracer_provider(provider)
    return made


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Iterator[InMemorySpanExporter]:
    exporter.clear()
    yield exporter
    exporter.clear()


class Watcher(MessageObserver):
    """Notes payloads and numbers of receivers."""

    def __init__(self) -> None:
        self.seen: list[tuple[bytes, int, int]] = []

    def message_routed(
        self, account: Account, publisher: Client | None, frame: Frame, plain: int, queued: int
    ) -> None:
        if frame.subject_bytes() == b"a":
            self.seen.append((frame.payload_bytes(), plain, queued))


class Desk:
    """A client whose messages can be awaited."""

    def __init__(self, client: SettlingClient) -> None:
        self.client = client
        self.inbox: asyncio.Queue[Msg] = asyncio.Queue()

    @classmethod
    async def at(cls, server: midge.Server, name: str, *patterns: str, **asked: Any) -> Desk:
        desk = cls(await SettlingClient.connected(server.url, name=name))
        for pattern in patterns:
            await desk.client.subscribe(pattern, cb=desk.inbox.put, **asked)
        await desk.client.flush()
        return desk

    async def next(self) -> Msg:
        return await asyncio.wait_for(self.inbox.get(), WAIT_S)


@pytest.fixture
async def server() -> AsyncIterator[midge.Server]:
    async with midge.Server(
        port=-1, server_name="A", jetstream=True, monitoring_otel=True, clock=ManualClock()
    ) as server:
        yield server


def found(exporter: InMemorySpanExporter) -> list[ReadableSpan]:
    return sorted(exporter.get_finished_spans(), key=lambda one: one.name)


def names(exporter: InMemorySpanExporter) -> list[str]:
    return [one.name for one in found(exporter)]


@pytest.mark.parametrize("number", [b"9" * 5000, b"9" * 19, b"-1", b"", b"x", "\u0665".encode()])
def test_odd_numbers_in_a_reply_that_a_link_brought_are_no_acks(number: bytes) -> None:
    assert consumer_of(b"$JS.ACK.S.C.1.2.3.4.5")["nats.deliveries"] == 1
    assert consumer_of(b"$JS.ACK.S.C.%b.2.3.4.5" % number) == {}
    assert consumer_of(b"$JS.ACK.S.C.1.%b.3.4.5" % number) == {}


async def test_publish_and_deliver(server: midge.Server, spans: InMemorySpanExporter) -> None:
    first = await Desk.at(server, "first", "orders.*")
    second = await Desk.at(server, "second", "orders.new", queue="workers")
    shop = await Desk.at(server, "shop")
    await shop.client.publish("orders.new", b"tea", headers=SAMPLED)
    for desk in (first, second):
        assert (await desk.next()).headers == SAMPLED
    one, other, publish = found(spans)
    assert [span.name for span in (one, other, publish)] == ["deliver", "deliver", "publish"]
    assert publish.kind == trace.SpanKind.SERVER
    assert publish.parent is not None
    assert f"{publish.parent.trace_id:032x}" == TRACE_ID
    assert f"{publish.parent.span_id:016x}" == CALLER
    assert publish.attributes is not None
    assert publish.attributes["messaging.destination.name"] == "orders.new"
    assert publish.attributes["messaging.client.id"] == "shop"
    assert publish.attributes["nats.server.name"] == "A"
    assert publish.start_time is not None
    for span in (one, other):
        assert span.parent == publish.get_span_context()
        assert span.start_time is not None
        assert span.end_time is not None
        assert publish.start_time <= span.start_time <= span.end_time
    receivers = {(span.attributes or {})["messaging.client.id"]: span for span in (one, other)}
    assert set(receivers) == {"first", "second"}
    assert (receivers["second"].attributes or {})["messaging.consumer.group.name"] == "workers"


async def test_headers_pass_byte_for_byte(
    server: midge.Server, spans: InMemorySpanExporter
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    block = b"NATS/1.0\r\nTraceParent:%b\r\nx:  y \r\n\r\n" % SAMPLED["traceparent"].encode()
    writer.write(b'CONNECT {"headers":true,"verbose":false}\r\nSUB a 1\r\n')
    writer.write(b"HPUB a %d %d\r\n%btea\r\nPING\r\n" % (len(block), len(block) + 3, block))
    received = await asyncio.wait_for(reader.readuntil(b"PONG\r\n"), WAIT_S)
    assert block + b"tea\r\n" in received
    assert names(spans) == ["deliver", "publish"]
    writer.close()


async def test_only_sampled_messages(server: midge.Server, spans: InMemorySpanExporter) -> None:
    desk = await Desk.at(server, "desk", "a")
    for headers in (UNSAMPLED, {"traceparent": "nonsense"}, {"Other": "1"}, None):
        await desk.client.publish("a", b"tea", headers=headers)
        await desk.next()
    assert names(spans) == []


async def test_no_spans_when_off(spans: InMemorySpanExporter) -> None:
    async with midge.Server(port=-1) as server:
        core = server._core
        desk = await Desk.at(server, "desk", "a")
        await desk.client.publish("a", b"tea", headers=SAMPLED)
        assert (await desk.next()).headers == SAMPLED
        assert core.broker.router.spans is None
    assert names(spans) == []


async def test_an_observer_sees_traced_messages(
    server: midge.Server, spans: InMemorySpanExporter
) -> None:
    watcher = Watcher()
    server._core.broker.watch_messages(watcher)
    desk = await Desk.at(server, "desk", "a")
    await desk.client.subscribe("a", queue="workers")
    await desk.client.publish("a", b"tea", headers=SAMPLED)
    await desk.next()
    server._core.broker.unwatch_messages(watcher)
    assert watcher.seen == [(b"tea", 1, 1)]
    assert names(spans) == ["deliver", "deliver", "publish"]


async def test_store_deliver_and_redeliver(
    server: midge.Server, spans: InMemorySpanExporter
) -> None:
    clock = server._core.broker.clock
    assert isinstance(clock, ManualClock)
    desk = await Desk.at(server, "desk")
    streams = desk.client.jetstream()
    await streams.add_stream(name="ORDERS", subjects=["orders.>"])
    worker = await streams.pull_subscribe(
        "orders.new", "workers", config=ConsumerConfig(ack_wait=5)
    )
    await streams.publish("orders.new", b"tea", headers=SAMPLED)
    await streams.publish("orders.new", b"plain")
    assert names(spans) == ["publish", "store"]
    spans.clear()
    messages = await worker.fetch(2, timeout=WAIT_S)
    assert messages[0].headers == SAMPLED
    (deliver,) = found(spans)
    assert deliver.name == "deliver"
    assert dict(deliver.attributes or {}) | {
        "nats.stream": "ORDERS",
        "nats.consumer": "workers",
        "nats.deliveries": 1,
        "nats.stream_sequence": 1,
    } == dict(deliver.attributes or {})
    spans.clear()
    await clock.elapse(6)
    await worker.fetch(2, timeout=WAIT_S)
    (again,) = found(spans)
    assert (again.name, (again.attributes or {})["nats.deliveries"]) == ("redeliver", 2)


async def test_a_refused_publish_is_an_error(spans: InMemorySpanExporter) -> None:
    user = {"user": "u", "password": "p", "permissions": {"publish": {"deny": ["secret"]}}}
    async with midge.Server(port=-1, users=[user], monitoring_otel=True) as server:
        url = server.url.replace("nats://", "nats://u:p@")
        client = await SettlingClient.connected(url, error_cb=_ignore)
        await client.publish("secret", b"", headers=SAMPLED)
        await client.flush()
        (publish,) = found(spans)
        assert (publish.name, publish.status.status_code.name) == ("publish", "ERROR")
        assert "Permissions Violation" in (publish.status.description or "")
        await client.close()


async def _ignore(_: Exception) -> None:
    pass


async def test_no_span_twice_over_a_link(spans: InMemorySpanExporter) -> None:
    async with (
        midge.Server(
            port=-1,
            server_name="HUB",
            leafnodes_port=-1,
            monitoring_otel=True,
            jetstream=True,
            jetstream_domain="hub",
        ) as hub,
        midge.Server(
            port=-1,
            server_name="EDGE",
            monitoring_otel=True,
            leafnodes_remotes=[{"urls": [f"nats-leaf://127.0.0.1:{leaf_port(hub)}"]}],
        ) as edge,
    ):
        here = await Desk.at(hub, "here", "a")
        there = await Desk.at(edge, "there", "a")
        await until_linked(hub, edge)
        await here.client.publish("a", b"tea", headers=SAMPLED)
        for desk in (here, there):
            assert (await desk.next()).headers == SAMPLED
        await until(lambda: len(found(spans)) == 3)
        by_server = sorted(
            (one.name, str((one.attributes or {})["nats.server.name"])) for one in found(spans)
        )
        assert by_server == [("deliver", "EDGE"), ("deliver", "HUB"), ("publish", "HUB")]
        behind = next(
            one for one in found(spans) if (one.attributes or {})["nats.server.name"] == "EDGE"
        )
        assert behind.parent is not None
        assert f"{behind.parent.span_id:016x}" == CALLER
        spans.clear()
        await streams_over_the_link(there, spans)
        for desk in (here, there):
            await desk.client.close()


async def streams_over_the_link(there: Desk, spans: InMemorySpanExporter) -> None:
    """A client at the edge uses a stream of the hub: one span for each step, each once."""
    streams = there.client.jetstream(domain="hub", timeout=WAIT_S)
    await streams.add_stream(name="ORDERS", subjects=["orders.>"])
    worker = await streams.pull_subscribe("orders.new", "workers")
    await streams.publish("orders.new", b"tea", headers=SAMPLED)
    await worker.fetch(1, timeout=WAIT_S)
    await until(lambda: len(found(spans)) == 3)
    by_server = sorted(
        (one.name, str((one.attributes or {})["nats.server.name"])) for one in found(spans)
    )
    assert by_server == [("deliver", "EDGE"), ("publish", "EDGE"), ("store", "HUB")]


def leaf_port(server: midge.Server) -> int:
    state = server._core._state
    assert state is not None
    return state.leafnode_port


async def until_linked(hub: midge.Server, edge: midge.Server) -> None:
    for server in (hub, edge):
        await until(partial(hears_of_interest, server))


def hears_of_interest(server: midge.Server) -> bool:
    """Return whether the other server has announced the subscription of its client."""
    state = server._core._state
    assert state is not None
    return any(link.announced.count for link in links_of(state))


async def until(is_met: Any) -> None:
    async with asyncio.timeout(WAIT_S):
        while not is_met():
            await asyncio.sleep(0.01)
