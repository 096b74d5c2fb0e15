"""Requests to JetStream from within the server's own process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from midge.jetstream.errors import ApiError, JetStreamError
from midge.protocol.errors import MidgeError
from midge.server.embedded.direct import NoRespondersError

if TYPE_CHECKING:
    from midge.protocol.headers import Headers
    from midge.server.embedded.direct import Direct
    from midge.server.embedded.inbox import Message

API = "$JS.API."
TIMEOUT_S = 5.0
"""Time limit for an answer, by the server's clock; answers come within milliseconds."""


class PubAck(NamedTuple):
    """A stream's acknowledgement of a message that it has stored.

    With `is_duplicate`, the stream had stored a message with this id before, as `seq`.
    """

    stream: str
    seq: int
    is_duplicate: bool = False


class Requests:
    """JetStream's API in one account."""

    def __init__(self, direct: Direct, account: str) -> None:
        self.direct = direct
        self.account = account

    async def call(self, operation: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer of an API operation such as `STREAM.INFO.ORDERS`.

        Raises:
            JetStreamError: the server refuses it.
        """
        payload = json.dumps(body) if body else ""
        return checked(await self.ask(API + operation, payload))

    async def ask(
        self, subject: str, payload: bytes | str, headers: Headers | None = None
    ) -> Message:
        """Return the answer to a request.

        Raises:
            MidgeError: the request has no responder.
        """
        try:
            return await self.direct.request(subject, payload, TIMEOUT_S, headers, self.account)
        except NoRespondersError:
            raise MidgeError(f"no stream takes {subject!r}, or JetStream is off") from None


async def publish(
    jetstream: Requests, subject: str, payload: bytes | str, headers: dict[str, Any]
) -> PubAck:
    """Store a message; see `midge.server.embedded.streams.Stream.publish`."""
    found = checked(await jetstream.ask(subject, payload, headers))
    return PubAck(found["stream"], found["seq"], bool(found.get("duplicate")))


def checked(answer: Message) -> dict[str, Any]:
    """Return the JSON of an answer; raises JetStreamError for a refusal."""
    found: dict[str, Any] = json.loads(answer.payload)
    error = found.get("error")
    if error:
        raise JetStreamError(
            ApiError(error["code"], error.get("err_code", 0), error.get("description", ""))
        )
    return found
