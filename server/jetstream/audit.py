"""Answers to requests to the API, and the advisories that report them with their requesters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from midge.jetstream import headers
from midge.jetstream.json import type_names
from midge.jetstream.json.encode import decode, encode, text
from midge.jetstream.json.times import format_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.internal.service import Request
    from midge.server.jetstream.account_sink import AccountSink
    from midge.server.jetstream.context import Context

SUBJECT = b"$JS.EVENT.ADVISORY.API"
_REQUEST_INFO = b"Nats-Request-Info"
_FIELDS = (
    *("start", "host", "id", "acc", "svc", "user", "name", "lang", "ver", "rtt", "server"),
    *("kind", "client_type"),
)
"""Those about a client, in nats-server's order."""


class Audit:
    """The advisories of one account; nothing is made of one that has no subscriber."""

    def __init__(self, context: Context, sink: AccountSink, new_id: Callable[[], str]) -> None:
        self._context = context
        self._sink = sink
        self._new_id = new_id

    def requester(self, request: Request) -> dict[str, Any]:
        """Return a description of a sender; for an import, the details that the import shares."""
        known = self._context.links.describe(request.publisher)
        publisher = request.publisher
        if publisher is not None and publisher.account is not request.account:
            forwarded = headers.find(request.headers or b"", _REQUEST_INFO)
            server = known.get("server")
            known = {**_object(forwarded), "svc": request.account.name, "server": server}
        found = {key: known[key] for key in _FIELDS if known.get(key) is not None}
        plain: dict[str, Any] = msgspec.to_builtins(found)
        return plain

    def answered(self, request: Request, answer: bytes) -> None:
        """Publish the advisory of an answered request."""
        if not self._sink.has_interest(SUBJECT):
            return
        context = self._context
        event: dict[str, Any] = {
            "type": type_names.ADVISORY + "api_audit",
            "id": self._new_id(),
            "timestamp": format_time(context.clock.wall_ns()),
            "server": context.server_name,
            "client": self.requester(request),
            "subject": text(request.subject),
        }
        if request.payload:
            event["request"] = text(request.payload)
        event["response"] = text(answer)
        if context.options.domain:
            event["domain"] = context.options.domain
        self._sink.send(SUBJECT, b"", b"", encode(event))


def _object(data: bytes | None) -> dict[str, Any]:
    """Read what another account, or a server behind a link, says of a client."""
    try:
        found = decode(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


class Answering:
    """The answer to one request, which may be sent later; an advisory reports it."""

    __slots__ = ("_audit", "_request", "_sink")

    def __init__(self, sink: AccountSink, audit: Audit, request: Request) -> None:
        self._sink = sink
        self._audit = audit
        self._request = request

    def respond(self, answer: bytes, headers: bytes = b"") -> None:
        """Answer the request."""
        reply = self._request.reply
        if reply:
            self._sink.send(reply, b"", headers, answer)
        self._audit.answered(self._request, answer)

    def is_wanted(self) -> bool:
        """Return whether a subscription still takes the answer."""
        reply = self._request.reply
        return bool(reply) and self._sink.has_interest(reply)

    def client(self) -> dict[str, Any]:
        """Return a description of the sender."""
        return self._audit.requester(self._request)
