"""OpenTelemetry spans of messages with a sampled `traceparent` header: W3C's trace context.

The server reports a span for each step that it takes, and passes the headers on unchanged:

- `publish`, of the server that the publisher is connected to,
- `store`, of the server that has the stream,
- `deliver` and `redeliver`, of the server that the receiver is connected to.

So no span is reported twice where a message crosses links. On the publisher's server, the others
are children of `publish`; elsewhere they are children of the client's span. The SDK reads the
`OTEL_…` variables, and exports spans from a thread.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from midge.extras import install_command
from midge.server.broker.message_trace import PARENT, read_trace_headers
from midge.server.errors import ConfigError
from midge.server.log.logger import get_logger
from midge.server.routing.ack_replies import ACK_PREFIX

try:
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError as error:
    raise ConfigError(
        f"spans need the module {error.name!r}; {install_command('otel')}", key="monitoring.otel"
    ) from None

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry.context import Context

    from midge.protocol.frame import Frame

log = get_logger()

_SCOPE = "midge"
_STOP_S = 5.0  # longest wait for a collector when the server stops
_OF_ACK = 9  # tokens of an ack's subject; with domain and account hash two more
_ERROR = trace.StatusCode.ERROR
_PROPAGATOR = TraceContextTextMapPropagator()


class Spans:
    """Reports the spans of one server, called `server`, to `provider`; `wall` returns the time."""

    def __init__(self, provider: trace.TracerProvider, server: str, wall: Callable[[], float]):
        self._tracer = provider.get_tracer(_SCOPE)
        self._server = server
        self._wall = wall
        self._shutdown: Callable[[], None] | None = None

    @classmethod
    def exporting(cls, server: str, wall: Callable[[], float]) -> Spans:
        """Report to the process's tracer provider; without one, to a collector by OTLP over HTTP.

        Raises:
            ConfigError: the packages of the extra `otel` are missing.
        """
        provider = trace.get_tracer_provider()
        if not isinstance(provider, trace.ProxyTracerProvider):
            return cls(provider, server, wall)
        try:
            own = _otlp_provider(server)
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"spans need the module {error.name!r}; {install_command('otel')}",
                key="monitoring.otel",
            ) from None
        made = cls(own, server, wall)
        made._shutdown = own.shutdown
        return made

    async def stop(self) -> None:
        """Export the last spans, for a bounded time."""
        if self._shutdown is not None:
            try:
                async with asyncio.timeout(_STOP_S):
                    await asyncio.to_thread(self._shutdown)
            except TimeoutError:
                log.warning("spans_abandoned", timeout_s=_STOP_S)

    def parent(self, headers: dict[str, list[str]]) -> Context | None:
        """Return the context of a sampled `traceparent` in `headers`, or None."""
        carrier = {name.lower(): found[0] for name, found in headers.items() if found}
        if PARENT not in carrier:
            return None
        context = _PROPAGATOR.extract(carrier)
        found = trace.get_current_span(context).get_span_context()
        return context if found.is_valid and found.trace_flags.sampled else None

    def report(
        self,
        parent: Context,
        events: Sequence[dict[str, Any]],
        *,
        is_published_here: bool,
        reply: bytes,
        size: int,
    ) -> None:
        """Report the spans of a routed message from the `events` of its trace."""
        first = events[0]
        start_s = first["ts"]
        common = {"messaging.destination.name": first["subj"], "messaging.message.body.size": size}
        context, publish = parent, None
        if is_published_here:
            publish = self._begin("publish", parent, trace.SpanKind.SERVER, start_s, common)
            publish.set_attribute("nats.account", first["acc"])
            if first.get("name"):
                publish.set_attribute("messaging.client.id", first["name"])
            if "error" in first:
                publish.set_status(_ERROR, first["error"])
            context = trace.set_span_in_context(publish)
        consumer = _consumer_of(reply)
        for event in events[1:]:
            kind = event["type"]
            if kind == "js":
                found = {**common, "nats.stream": event["stream"]}
                self._end(self._begin("store", context, trace.SpanKind.INTERNAL, start_s, found))
            elif kind == "eg" and "hop" not in event:
                found = {**common, **consumer, **_receiver_of(event)}
                span = self._deliver(context, start_s, found)
                if "error" in event:
                    span.set_status(_ERROR, event["error"])
                span.end(_ns(event["ts"]))
            elif kind == "sm" and publish is not None:
                publish.set_attribute("nats.mapped_subject", event["to"])
        if publish is not None:
            self._end(publish)

    def delivered(self, frame: Frame, start_s: float) -> None:
        """Report that a consumer of this server has delivered a stored message."""
        parent = self.parent(read_trace_headers(frame.header_bytes() or b""))
        if parent is not None:
            found = {
                "messaging.destination.name": frame.subject_bytes().decode(errors="replace"),
                "messaging.message.body.size": frame.size,
                **_consumer_of(frame.reply_bytes() or b""),
            }
            self._end(self._deliver(parent, start_s, found))

    def now(self) -> float:
        """Return the time, in seconds since 1970."""
        return self._wall()

    def _deliver(self, context: Context, start_s: float, attributes: dict[str, Any]) -> trace.Span:
        is_again = attributes.get("nats.deliveries", 1) > 1
        name = "redeliver" if is_again else "deliver"
        return self._begin(name, context, trace.SpanKind.PRODUCER, start_s, attributes)

    def _begin(
        self,
        name: str,
        context: Context,
        kind: trace.SpanKind,
        start_s: float,
        attributes: dict[str, Any],
    ) -> trace.Span:
        every = {"messaging.system": "nats", "nats.server.name": self._server, **attributes}
        return self._tracer.start_span(name, context, kind, every, start_time=_ns(start_s))

    def _end(self, span: trace.Span) -> None:
        span.end(_ns(self._wall()))


def _otlp_provider(server: str) -> Any:
    """Return a provider that exports in batches to the collector of the `OTEL_…` variables."""
    from opentelemetry.exporter.otlp.proto.http import trace_exporter  # noqa: PLC0415 - 0.3 s
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - as above
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - as above
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - as above

    defaults = Resource({"service.name": "midge", "service.instance.id": server})
    provider = TracerProvider(resource=defaults.merge(Resource.create()))
    provider.add_span_processor(BatchSpanProcessor(trace_exporter.OTLPSpanExporter()))
    return provider


def _receiver_of(event: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a delivery to a client."""
    found = {
        "nats.subscription": event.get("sub"),
        "nats.client.id": event.get("cid"),
        "messaging.client.id": event.get("name"),
        "messaging.consumer.group.name": event.get("queue"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _consumer_of(reply: bytes) -> dict[str, Any]:
    """Return the consumer's attributes of a message whose `reply` is the subject of its ack."""
    tokens = reply.partition(b"@")[0].decode(errors="replace").split(".")
    if not reply.startswith(ACK_PREFIX) or len(tokens) < _OF_ACK:
        return {}
    stream, consumer, deliveries, seq = tokens[2:6] if len(tokens) == _OF_ACK else tokens[4:8]
    if not (deliveries.isdecimal() and seq.isdecimal()):
        return {}
    return {
        "nats.stream": stream,
        "nats.consumer": consumer,
        "nats.deliveries": int(deliveries),
        "nats.stream_sequence": int(seq),
    }


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
