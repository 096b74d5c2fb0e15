"""Spans of messages that cross a link: a collector gets each exactly once, with its parent.

The servers are processes that export by OTLP, and export the last spans when they stop.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.linked import LINKS, Linked, settle_both

CALLER = "00f067aa0ba902b7"
WAIT_S = 60
STREAMS = 'jetstream { store_dir: "@directory@/js", domain: J }\n'

Shown = tuple[str, str, str]
"""Name, server, and parent of a span: "client", or the name and the server of another span."""


class Collector:
    """An OTLP collector on loopback that keeps what it gets."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        spans = self.spans

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in resource.scope_spans:
                        spans.extend(scope.spans)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Write nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def shown(self, trace: int) -> Counter[Shown]:
        """Return the spans of one message."""
        found = [span for span in self.spans if int.from_bytes(span.trace_id) == trace]
        names = {span.span_id.hex(): f"{span.name} {server_of(span)}" for span in found}
        assert len(names) == len(found)
        names[CALLER] = "client"
        return Counter(
            (span.name, server_of(span), names[span.parent_span_id.hex()]) for span in found
        )


def server_of(span: Any) -> str:
    """Return the name of the server that has reported `span`."""
    (name,) = [one.value.string_value for one in span.attributes if one.key == "nats.server.name"]
    return str(name)


def headers(trace: int) -> dict[str, str]:
    """Return the headers of a message of the sampled trace with this number."""
    return {"traceparent": f"00-{trace:032x}-{CALLER}-01", "Other": "x"}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as made:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
        monkeypatch.setenv("MIDGE_MONITORING_OTEL", "true")
        yield made


class Inbox(asyncio.Queue[Msg]):
    """Messages of one client, with time limits."""

    async def take(self, count: int, trace: int) -> list[Msg]:
        messages = [await asyncio.wait_for(self.get(), WAIT_S) for _ in range(count)]
        for message in messages:
            assert message.headers == headers(trace)
        return messages


@pytest.mark.parametrize("link", LINKS)
async def test_each_span_once_with_its_parent(link: str, collector: Collector) -> None:
    near_name, far_name = ("ONE", "ONE") if link == "workers" else ("NEAR", "FAR")
    name = "server_name: ONE\n" if link == "workers" else ""
    async with Linked(link, "midge", near_config=name + STREAMS) as places:
        near, far = await places.clients(connect_timeout=WAIT_S)
        await plain_messages(near, far)
        await stream_messages(far)
    publish = f"publish {near_name}"
    assert collector.shown(1) == Counter(
        {
            ("publish", near_name, "client"): 1,
            ("deliver", near_name, publish): 1,
            ("deliver", far_name, "client"): 2,
        }
    )
    assert collector.shown(2) == Counter(
        {("publish", far_name, "client"): 1, ("deliver", near_name, "client"): 1}
    )
    assert collector.shown(3) == Counter(
        {
            ("publish", far_name, "client"): 1,
            ("store", near_name, "client"): 1,
            ("deliver", far_name, "client"): 2,
            ("redeliver", far_name, "client"): 1,
        }
    )


async def plain_messages(near: Client, far: Client) -> None:
    """Publish message 1 at the near place to three receivers, and message 2 at the far one."""
    inbox = Inbox()
    await near.subscribe("a", cb=inbox.put)
    await far.subscribe("a", cb=inbox.put)
    await far.subscribe("a", "w", cb=inbox.put)
    await near.subscribe("b", "w", cb=inbox.put)
    await settle_both(near, far)
    await near.publish("a", b"tea", headers=headers(1))
    await inbox.take(3, 1)
    await far.publish("b", b"tea", headers=headers(2))
    await inbox.take(1, 2)


async def stream_messages(far: Client) -> None:
    """Store message 3 at the near place; take it at the far one by push, twice, and by pull."""
    inbox = Inbox()
    streams = far.jetstream(domain="J", timeout=WAIT_S)
    await streams.add_stream(name="S", subjects=["s"])
    asked = ConsumerConfig(ack_wait=600)
    await streams.subscribe("s", durable="PUSH", cb=inbox.put, config=asked, manual_ack=True)
    puller = await streams.pull_subscribe("s", "PULL", config=ConsumerConfig(ack_wait=600))
    await streams.publish("s", b"tea", headers=headers(3))
    for message in await inbox.take(1, 3):
        await message.nak()
    for message in await inbox.take(1, 3):
        await message.ack()
    (message,) = await puller.fetch(1, timeout=WAIT_S)
    assert message.headers == headers(3)
