"""Latency of services: how long a request took, published to a subject of the exporter's account.

The request and its answer are measured where the import is carried, as on nats-server 2.15.1:

    start     when the requester sent the request: its arrival, less the requester's round trip
    service   from the request's delivery to the answer's arrival, less the responder's round trip
    system    from the answer's arrival to its delivery
    total     all of these, with both round trips

A request without an answer has a status and a description in place of times.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from midge.protocol.frame import compose
from midge.protocol.headers import parse_headers

if TYPE_CHECKING:
    from random import Random

    from midge.server.accounts.link_context import LinkContext
    from midge.server.clock import Timer
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client

TYPE = "io.nats.server.metric.v1.service_latency"
UNAVAILABLE = 503, "Service Unavailable"
TIMED_OUT = 504, "Service Timeout"
REQUESTER_GONE = 408, "Request Timeout"

_TRACED_FLAG = 1
_UBER_PARTS = 4
_TRACEPARENT_PARTS = 4
_B3_SAMPLED = 2  # position of the flag in a `b3` header


class LatencyRule(Struct, frozen=True):
    """The subject for latencies, and how many of a hundred requests are measured.

    0 measures the requests whose headers ask for it.
    """

    subject: bytes
    sampling_percent: int

    def sample(self, headers: bytes | None, random: Random) -> dict[str, list[str]] | None:
        """Return the headers for which a request is measured, perhaps none; None if it is not."""
        if self.sampling_percent:
            is_chosen = random.random() * 100 < self.sampling_percent
            return {} if is_chosen else None
        return None if headers is None else triggers(headers)


class Measure:
    """The measuring of one request; `timer` ends it if no answer comes."""

    __slots__ = ("_began_s", "_delivered_s", "_facts", "_links", "_rule", "_to", "timer")

    def __init__(
        self,
        links: LinkContext,
        rule: LatencyRule,
        exporter: Account,
        requester: dict[str, Any],
        headers: dict[str, list[str]],
    ) -> None:
        self._links = links
        self._rule = rule
        self._to = exporter
        self._delivered_s = links.clock.monotonic()
        self._began_s = links.clock.wall() - requester.get("rtt", 0) / 1e9
        self._facts: dict[str, Any] = {"requestor": requester}
        if headers:
            self._facts["header"] = headers
        self.timer: Timer | None = None

    def answered(self, responder: Client | None, arrived_s: float) -> None:
        """Publish the times of a request whose answer arrived at `arrived_s` and is delivered."""
        known = self._links.describe(responder)
        own = {"acc": self._to.name, "rtt": 0, **known}
        own = {name: value for name, value in own.items() if value is not None}
        own_s, requester_s = own["rtt"] / 1e9, self._facts["requestor"].get("rtt", 0) / 1e9
        elapsed_s = arrived_s - self._delivered_s
        service_s = max(elapsed_s - own_s, 0.0)
        system_s = self._links.clock.monotonic() - arrived_s
        total_s = elapsed_s + system_s + requester_s
        facts = {"requestor": self._facts["requestor"], "responder": own, **self._facts}
        self._publish(200, "", facts, (service_s, system_s, total_s))

    def failed(self, status: int, description: str) -> None:
        """Publish that the request had no answer."""
        self._publish(status, description, self._facts, (0.0, 0.0, 0.0))

    def stop(self) -> None:
        """Cancel the timer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _publish(
        self, status: int, description: str, facts: dict[str, Any], times_s: tuple[float, ...]
    ) -> None:
        self.stop()
        links = self._links
        metric = {
            "type": TYPE,
            "id": os.urandom(11).hex(),
            "timestamp": _time(links.clock.wall()),
            "status": status,
            **({"description": description} if description else {}),
            **facts,
            "start": _time(self._began_s),
            **{
                name: round(seconds * 1e9)
                for name, seconds in zip(("service", "system", "total"), times_s, strict=True)
            },
        }
        frame = compose(self._rule.subject, msgspec.json.encode(metric), None, None)
        result = self._to.sublist.match(self._rule.subject)
        if result:
            links.route(self._to, result, frame, None, None)


def triggers(block: bytes) -> dict[str, list[str]] | None:
    """Return the header in `block` that asks for a measurement; None if there is none.

    The headers of Jaeger, Zipkin and W3C's trace context count, in this order, and the first that
    is there decides.
    """
    found: dict[str, list[str]] = {}
    for name, values in parse_headers(block).items():
        found.setdefault("-".join(part.capitalize() for part in name.split("-")), list(values))
    for name, asks in _TRIGGERS.items():
        if name in found:
            decision = asks(found[name][0])
            if decision is not None:
                return {name: found[name]} if decision else None
    return None


def _asks_uber(value: str) -> bool | None:
    parts = value.split(":")
    try:
        return len(parts) == _UBER_PARTS and bool(int(parts[3], 16) & _TRACED_FLAG)
    except ValueError:
        return False


def _asks_sampled(value: str) -> bool | None:
    return {"1": True, "0": False}.get(value)


def _asks_b3(value: str) -> bool | None:
    parts = value.split("-")
    flag = parts[_B3_SAMPLED] if len(parts) > _B3_SAMPLED else value
    return flag != "0"


def _asks_traceparent(value: str) -> bool | None:
    parts = value.split("-")
    return len(parts) == _TRACEPARENT_PARTS and parts[3] == "01"


_TRIGGERS = {
    "Uber-Trace-Id": _asks_uber,
    "X-B3-Sampled": _asks_sampled,
    "X-B3-Traceid": lambda _: True,
    "B3": _asks_b3,
    "Traceparent": _asks_traceparent,
}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
