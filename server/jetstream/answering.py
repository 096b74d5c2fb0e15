"""One request to the API: the destination of its answer, and its sender."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from midge.server.internal.service import Request
    from midge.server.jetstream.audit import Audit
    from midge.server.jetstream.sink import AccountSink


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
