"""One request to the API: where its answer goes, and who sent it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from midge.server.internal.service import Request
    from midge.server.jetstream.audit import Audit
    from midge.server.jetstream.sink import AccountSink


class Answering:
    """The answer to one request, which may be given later; an advisory tells of it."""

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
        """Describe who sent the request."""
        return self._audit.requester(self._request)
