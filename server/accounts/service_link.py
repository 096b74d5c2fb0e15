"""An imported service: requests go to the exporter's account, and their answers come back.

A request gets a reply subject of its own, which leads the answer back; it can be used as often as
the export allows, for a limited time, and cannot be guessed.
"""

from __future__ import annotations

import base64
import os
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import msgspec

from midge.jetstream.headers import whole
from midge.protocol.frame import Frame, compose
from midge.server.accounts.latency import REQUESTER_GONE, TIMED_OUT, UNAVAILABLE, Measure
from midge.server.accounts.link_context import across, may_cross
from midge.server.accounts.stream_link import StreamLink
from midge.server.routing.ack_replies import as_sent
from midge.server.routing.passage import SERVICE
from midge.server.routing.receivers import SERVED, served_by_import
from midge.server.routing.reserved import REPLY_PREFIX
from midge.server.routing.role import Role
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist.result import SubListResult

if TYPE_CHECKING:
    from midge.server.accounts.link_context import LinkContext
    from midge.server.accounts.plan import ServiceImport
    from midge.server.accounts.stream_link import OpenTrace
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client

REQUESTS_MAX = 65536
"""Most unanswered requests of one import; a further one evicts the oldest."""

REPLIES_MAX_BYTES = 8 << 20
"""Most bytes of the reply subjects of those requests: clients choose their length."""

_REQUEST_INFO = rb"(?i)(?:\r\n|\r|\n)[ \t]*nats-request-info[ \t]*:[^\r\n]*"
_INFO_FIELDS = (
    *("start", "host", "id", "acc", "svc", "user", "name", "lang", "ver", "rtt", "server"),
    *("cluster", "kind", "client_type"),
)
"""Fields of ``Nats-Request-Info``, in nats-server's order."""


class ServiceLink(RoutedSubscription):
    """Carries requests to the exporter and keeps their reply subjects for the responses."""

    def __init__(
        self, links: LinkContext, plan: ServiceImport, importer: Account, exporter: Account
    ) -> None:
        RoutedSubscription.__init__(self, plan.source)
        self.route = links.route
        self.importer = importer
        self.exporter = exporter
        self.response_type = plan.response_type
        self.allows_trace = plan.allows_trace
        self.links = links
        self._clock = links.clock
        self._describe = links.describe
        self._plan = plan
        self._waiting: OrderedDict[bytes, Response] = OrderedDict()
        self._reply_bytes = 0

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        """Route `frame` in the exporter's account; False when it has no receiver there.

        A request has none either that ``Nats-Request-Info`` makes longer than a message may be.
        """
        links = self.links
        before = links.carrying
        if before is StreamLink:
            return False
        if publisher is not None and publisher.role >= Role.LEAF and publisher.names_group(SERVED):
            links.carry(served_by_import(frame))  # for the links that it goes on to
            return False
        if not may_cross(publisher, SERVICE):
            return False
        subject = self._target_subject(frame)
        if subject is None:
            return False
        result = across(self.exporter.sublist.match(subject), publisher, SERVICE)
        reply = frame.reply_bytes()
        measure = None if reply is None else self._measure(frame, publisher)
        if not result:
            if measure is not None:
                measure.failed(*UNAVAILABLE)
            return False
        info = self._request_info(publisher)
        headers = with_request_info(frame.header_bytes(), msgspec.json.encode(info))
        if 0 <= links.max_payload < len(headers) + frame.size - max(frame.header_size, 0):
            return False
        response = None if reply is None else self._expect_response(reply, measure)
        info_before = links.request_info
        token = None if response is None else response.subject
        request = compose(subject, frame.payload_bytes(), token, headers)
        trace: OpenTrace | None = links.trace
        links.trace = None
        links.carrying, links.request_info = ServiceLink, info
        try:
            if trace is None:
                taken = links.route(self.exporter, result, request, publisher, None)
            else:
                taken = self._route_traced(trace, result, request)
        finally:
            links.carrying, links.request_info = before, info_before
            links.trace = trace
        if response is not None and (taken == 0 or (trace is not None and trace.is_only)):
            self.forget(response)
            if measure is not None:
                measure.failed(*UNAVAILABLE)
        if taken > 0 and result.remotes is not None:
            links.carry(served_by_import(frame))
        return taken > 0

    def _route_traced(self, trace: OpenTrace, result: SubListResult, request: Frame) -> int:
        """Route a traced request; traces of other servers come back as responses do."""
        way = self._expect_response(trace.destination, None)
        way.carries_traces = True
        hops = trace.hops
        taken = trace.route_led_back(way.subject, result, request)
        if trace.hops == hops:
            self.forget(way)
        return taken

    def trace_events(self, frame: Frame) -> list[dict[str, Any]]:
        """Return the trace event that says where the request `frame` goes."""
        if self.links.carrying is StreamLink:
            return []
        target = self._target_subject(frame) or b""
        names = {"from": _text(frame.subject_bytes()), "to": _text(target)}
        return [{"type": "si", "acc": self.exporter.name, **names}]

    def waiting(self) -> int:
        """Count the requests that may still be answered."""
        return len(self._waiting)

    def forget(self, response: Response) -> None:
        """Drop `response`: its request takes no more answers."""
        if response.measure is not None:
            response.measure.stop()
        if self._waiting.pop(response.subject, None) is not None:
            self._reply_bytes -= len(response.reply)
            self.exporter.remove(response)

    def forget_all(self) -> None:
        """Drop all pending responses."""
        for response in list(self._waiting.values()):
            self.forget(response)

    def is_too_late_for(self, response: Response) -> bool:
        """Return whether `response` has expired but has not been dropped yet."""
        return response.until_s < self._clock.monotonic()

    def keep_waiting(self, response: Response) -> None:
        """Restart the time limit of `response` after one of several answers."""
        if response.subject in self._waiting:
            response.until_s = self._clock.monotonic() + self._plan.response_threshold_s
            self._waiting.move_to_end(response.subject)

    def _measure(self, frame: Frame, publisher: Client | None) -> Measure | None:
        """Begin to measure a request, if it is chosen."""
        rule = self._plan.latency
        if rule is None:
            return None
        links = self.links
        headers = rule.sample(frame.header_bytes(), links.random)
        if headers is None:
            return None
        requester = self._requester(self._describe(publisher))
        requester = {name: value for name, value in requester.items() if value is not None}
        return Measure(links, rule, self.exporter, requester, headers)

    def _time_out(self, response: Response, measure: Measure) -> None:
        """Publish that a measured request had no answer in time."""
        measure.failed(*(TIMED_OUT if response.has_receiver() else REQUESTER_GONE))
        response.measure = None
        self.forget(response)

    def _expect_response(self, reply: bytes, measure: Measure | None) -> Response:
        """Open a response to `reply`."""
        now_s = self._clock.monotonic()
        self._forget_stale(now_s)
        until_s = now_s + self._plan.response_threshold_s
        response = Response(self, _new_reply(), reply, until_s)
        response.measure = measure
        if measure is not None:
            delay_s = self._plan.response_threshold_s
            measure.timer = self._clock.call_later(delay_s, self._time_out, response, measure)
        self.exporter.add(response)
        self._waiting[response.subject] = response
        self._reply_bytes += len(reply)
        return response

    def _forget_stale(self, now_s: float) -> None:
        """Drop the responses that have expired, and the oldest of too many."""
        while self._waiting:
            oldest = next(iter(self._waiting.values()))
            if oldest.until_s >= now_s:
                if len(self._waiting) < REQUESTS_MAX and self._reply_bytes < REPLIES_MAX_BYTES:
                    return
                self.links.evicted_requests += 1
            self.forget(oldest)

    def _target_subject(self, frame: Frame) -> bytes | None:
        """Return the exporter's subject of a request, after its mappings; None if they drop it."""
        subject = self._plan.transform.rewrite(frame.subject_bytes())
        mapper = self.exporter.mapper
        mapped: bytes | None = subject if mapper is None else mapper.map(subject)
        return mapped

    def _requester(self, known: dict[str, Any]) -> dict[str, Any]:
        """Return what the exporter may know of the requester with the fields `known`."""
        least = {"acc": self.importer.name, "rtt": known.get("rtt", 0)}
        return {**known, **least} if self._plan.shares_client else least

    def _request_info(self, publisher: Client | None) -> dict[str, Any]:
        """Return the requester's fields for the service; in a chain, with the last account."""
        known = self._describe(publisher)
        shares = self._plan.shares_client
        before = self.links.request_info
        if before:
            server = {name: known.get(name) for name in ("server", "cluster")} if shares else {}
            shown = {**server, **before, "svc": self.importer.name}
        else:
            shown = self._requester(known)
        return {key: shown[key] for key in _INFO_FIELDS if shown.get(key) is not None}


class Response(RoutedSubscription):
    """Carries the answers to one request back to the importer."""

    def __init__(self, service: ServiceLink, subject: bytes, reply: bytes, until_s: float) -> None:
        RoutedSubscription.__init__(self, subject)
        self._service = service
        self.reply = reply
        self.until_s = until_s
        self.measure: Measure | None = None
        self.carries_traces = False

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        """Route the answer in the importer's account; False when it has no receiver any more."""
        service = self._service
        if service.is_too_late_for(self):
            service.forget(self)
            return False
        is_last = service.response_type == "singleton" or (
            service.response_type == "chunked" and frame.size == 0
        )
        if is_last and not self.carries_traces:
            service.forget(self)
        else:
            service.keep_waiting(self)
        result = service.importer.sublist.match(self.reply)
        measure, self.measure = self.measure, None
        if not result:
            if measure is not None:
                measure.failed(*REQUESTER_GONE)
            return False
        links = service.links
        if links.delivered_by(frame) is None:
            arrived_s = links.clock.monotonic()
            answer = compose(self.reply, frame.payload_bytes(), None, frame.header_bytes())
            taken = service.route(service.importer, result, answer, publisher, None)
            if measure is not None:
                measure.answered(publisher, arrived_s)
            return taken > 0
        over = None if result.remotes is None else as_sent(frame, self.reply)
        before, links.delivery = links.delivery, (frame, self.reply)
        try:
            return service.route(service.importer, result, frame, publisher, over) > 0
        finally:
            links.delivery = before

    def trace_events(self, frame: Frame) -> list[dict[str, Any]]:
        """Return the trace event that says where the answer `frame` goes."""
        names = {"from": _text(frame.subject_bytes()), "to": _text(self.reply)}
        return [{"type": "si", "acc": self._service.importer.name, **names}]

    def has_receiver(self) -> bool:
        """Return whether an answer would have a receiver in the requester's account."""
        result = self._service.importer.sublist.match(self.reply)
        return any_reached(result)


def any_reached(result: SubListResult) -> bool:
    """Return whether a message to the subscriptions of a match has a receiver in any account."""
    if result.queues or result.remotes is not None:
        return True
    for one in result.plain:  # noqa: SIM110 - `any` makes a generator for each waiting pull request
        if not isinstance(one, Response) or one.has_receiver():
            return True
    return False


def with_request_info(headers: bytes | None, info: bytes) -> bytes:
    """Return the header block `headers` with `info` as its only ``Nats-Request-Info``.

    Headers of that name from the client are removed, in any spelling and position.
    """
    block = whole(re.sub(_REQUEST_INFO, b"", headers or b""))
    return b"%bNats-Request-Info: %b\r\n\r\n" % (block[:-2], info)


def _text(subject: bytes) -> str:
    return subject.decode(errors="replace")


def _new_reply() -> bytes:
    """Return an unguessable reply subject."""
    return b"%b%b.%b" % (REPLY_PREFIX, _random_token(), _random_token())


def _random_token() -> bytes:
    """Return 16 random characters that are valid in a subject."""
    return base64.b64encode(os.urandom(12), altchars=b"Zz")
