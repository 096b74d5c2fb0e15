"""The actions of the console for holders of its token: publish, ask, look into streams, tail.

Each is a POST of a JSON object with the token in a header, which no other site's page can send.
An error in one is answered in words; nothing is guessed, trimmed or mended.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from typing import TYPE_CHECKING, Any

import msgspec

from midge.protocol.text import encode
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.monitoring import whole
from midge.server.monitoring.console import streams
from midge.server.monitoring.console.shown import headers_of, payload_of
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist.subjects import is_valid_publish_subject, is_valid_subject

if TYPE_CHECKING:
    from midge.jetstream.stream.stream import Stream
    from midge.protocol.frame import Frame
    from midge.server.monitoring.console.tail import Tails
    from midge.server.monitoring.state import State
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client

_LONGEST_TOKEN = 1024
_NAME_MAX = 64
_ANSWER_MAX_S = 2.0
_ANSWER_MAX_BYTES = 1024 * 1024
_WAITING_MAX = 16
_BAD_HEADER = (":", "\r", "\n")


class WrongRequest(Exception):
    """A request that cannot be carried out; the text says why."""


class PostBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a page's POST; each action reads the fields that it needs."""

    account: str = GLOBAL_ACCOUNT
    subject: str = ""
    payload: str = ""
    headers: dict[str, str] = {}
    name: str = ""
    stream: str = ""
    seq: int = 0
    cid: int = 0
    since: str = ""
    count: int = 50


class Actions:
    """The actions of one server's console."""

    def __init__(self, state: State, tails: Tails) -> None:
        self._state = state
        self._broker = state.broker
        self._tails = tails
        self._waiting = 0

    def is_allowed(self, given: str) -> bool:
        """Return whether `given` is the token; compared in a time that reveals nothing of it."""
        token = self._broker.options.monitoring.console.token
        return bool(token) and hmac.compare_digest(
            given[:_LONGEST_TOKEN].encode("utf-8", "replace"), token.encode()
        )

    async def do(self, action: str, body: bytes) -> dict[str, Any]:
        """Perform `action` with the JSON in `body`. Raises: WrongRequest."""
        try:
            post = msgspec.json.decode(body, type=PostBody)
        except msgspec.DecodeError as error:
            raise WrongRequest(f"the request cannot be read: {error}") from None
        if action == "publish":
            return self._publish(post)
        if action == "request":
            return await self._request(post)
        if action == "tail":
            return await self._tail(post)
        if action == "messages":
            return await self._messages(post)
        if action == "disconnect":
            return await self._disconnect(post)
        if action == "keys":
            return await streams.keys(self._stream(post), self._pattern(post))
        return {}

    # Actions.

    def _publish(self, post: PostBody) -> dict[str, Any]:
        account, subject, headers = self._message(post)
        payload = post.payload.encode("utf-8", "surrogateescape")
        taken = self._broker.internal.publish(account, subject, payload, None, headers, None, True)
        return {"taken": taken, "size": len(payload)}

    async def _request(self, post: PostBody) -> dict[str, Any]:
        """Publish a request, and return its first answer."""
        account, subject, headers = self._message(post)
        if self._waiting >= _WAITING_MAX:
            raise WrongRequest(f"{_WAITING_MAX} requests of the console wait already")
        inbox = b"_INBOX." + secrets.token_hex(12).encode()
        answer = _OneAnswer(inbox)
        self._waiting += 1
        account.add(answer)
        try:
            payload = post.payload.encode("utf-8", "surrogateescape")
            began_s = self._broker.clock.monotonic()
            publish = self._broker.internal.publish
            if not publish(account, subject, payload, inbox, headers, None, True):
                raise WrongRequest(f"nobody answers on {post.subject!r}")
            async with asyncio.timeout(_ANSWER_MAX_S):
                found = await answer.future
            return {**found, "took_ms": (self._broker.clock.monotonic() - began_s) * 1000}
        except TimeoutError:
            raise WrongRequest(f"no answer came within {_ANSWER_MAX_S:g} s") from None
        finally:
            account.remove(answer)
            self._waiting -= 1

    async def _disconnect(self, post: PostBody) -> dict[str, Any]:
        if not await whole.end_client(self._state, post.cid):
            raise WrongRequest(f"there is no client {post.cid}")
        return {"cid": post.cid}

    async def _tail(self, post: PostBody) -> dict[str, Any]:
        account, pattern = self._account(post), self._pattern(post)
        name = post.name[:_NAME_MAX]
        seen = self._tails.poll(name, account, pattern)
        if seen is None:
            raise WrongRequest("as many tails as may be are open; close one")
        return await whole.whole_tail(self._state, seen, name, account.name, pattern)

    async def _messages(self, post: PostBody) -> dict[str, Any]:
        stream = self._stream(post)
        pattern = self._pattern(post) if post.subject else b""
        try:
            return await streams.messages(stream, pattern, post.seq, post.since, post.count)
        except ValueError as error:
            raise WrongRequest(str(error)) from None

    # What they have in common.

    def _account(self, post: PostBody) -> Account:
        found = self._broker.accounts.get(post.account)
        if found is None:
            raise WrongRequest(f"there is no account {post.account!r}")
        return found

    def _stream(self, post: PostBody) -> Stream:
        found = streams.stream_of(self._state, post.account, post.stream)
        if found is None:
            raise WrongRequest(f"there is no stream {post.stream!r} in account {post.account!r}")
        return found

    def _pattern(self, post: PostBody) -> bytes:
        """Return what subjects are to match, as it was typed."""
        pattern = encode(post.subject)
        if not is_valid_subject(pattern):
            raise WrongRequest(f"{post.subject!r} is no subject: {_why(post.subject)}")
        return pattern

    def _message(self, post: PostBody) -> tuple[Account, bytes, bytes | None]:
        """Return account, subject and header block of the message to publish."""
        subject = encode(post.subject)
        if not is_valid_publish_subject(subject):
            raise WrongRequest(f"cannot publish to {post.subject!r}: {_why(post.subject)}")
        for name, value in post.headers.items():
            if not name or any(one in name for one in (*_BAD_HEADER, " ")):
                raise WrongRequest(f"{name!r} is no header name")
            if any(one in value for one in _BAD_HEADER[1:]):
                raise WrongRequest(f"header {name!r}: a value has no line ends")
        lines = "".join(f"{name}: {value}\r\n" for name, value in post.headers.items())
        block = f"NATS/1.0\r\n{lines}\r\n".encode() if lines else None
        size, limit = len(post.payload.encode()) + len(block or b""), self._max_payload
        if size > limit >= 0:
            raise WrongRequest(f"{size} bytes are more than this server takes, {limit}")
        return self._account(post), subject, block

    @property
    def _max_payload(self) -> int:
        return self._broker.options.limits.max_payload_bytes


class _OneAnswer(RoutedSubscription):
    """An inbox for one answer."""

    def __init__(self, subject: bytes) -> None:
        RoutedSubscription.__init__(self, subject)
        self.future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        """Take the answer."""
        if not self.future.done():
            self.future.set_result(
                {
                    **payload_of(frame.payload_bytes(), _ANSWER_MAX_BYTES),
                    "headers": headers_of(frame.header_bytes()),
                }
            )
        return True


def _why(subject: str) -> str:
    """Return the fault of a subject in words."""
    if not subject:
        return "it is empty"
    if any(one.isspace() for one in subject):
        return "it has a blank in it"
    if ".." in subject or subject.startswith(".") or subject.endswith("."):
        return "it has an empty token"
    if "*" in subject or ">" in subject:
        return "a wildcard stands where none may"
    return "expected tokens separated by dots"
