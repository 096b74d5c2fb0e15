"""Publish, subscribe and request within the server's own process: no socket and no client.

A message goes the way of one from a connection: the account's mappings, the SubList, the router.
Receivers run after the message has been routed, in a later turn of the loop, so that a callback may
publish, unsubscribe or raise without disturbing anybody else's delivery.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from midge.protocol.errors import MidgeError
from midge.protocol.frame import Frame, compose
from midge.protocol.headers import format_headers, parse_headers
from midge.server.account import GLOBAL_ACCOUNT
from midge.server.subscription import RoutedSubscription
from midge.sublist.subjects import is_valid_publish_subject, is_valid_subject

if TYPE_CHECKING:
    from midge.server.account import Account
    from midge.server.client import Client
    from midge.server.hub import Hub

PENDING_MAX = 65536
"""Messages that may wait for a receiver within the process, unless it says otherwise."""

Headers = Mapping[str, str | Iterable[str]]
"""Header names with one value or several."""

Callback = Callable[["Message"], Awaitable[None] | None]
"""What a subscription calls: a plain function, or one that is awaited message by message."""


class NoRespondersError(MidgeError):
    """Nobody was there to answer a request."""


class Message:
    """A message as a receiver within the process gets it: its own copy."""

    __slots__ = ("_direct", "_header_block", "_headers", "account", "payload", "reply", "subject")

    def __init__(self, frame: Frame, direct: Direct | None = None, account: str = "") -> None:
        reply = frame.reply_bytes()
        self.subject = _decode(frame.subject_bytes())
        """Subject it was published to."""
        self.reply = None if reply is None else _decode(reply)
        """Subject to answer to, or None."""
        self.payload = frame.payload_bytes()
        """Payload, without the headers."""
        self.account = account
        """Account that it was delivered in."""
        self._header_block = frame.header_bytes()
        self._headers: dict[str, list[str]] | None = None
        self._direct = direct

    @property
    def headers(self) -> dict[str, list[str]]:
        """The headers by name; empty when there are none."""
        if self._headers is None:
            self._headers = parse_headers(self._header_block) if self._header_block else {}
        return self._headers

    @property
    def text(self) -> str:
        """The payload as text; bytes that are no UTF-8 are shown as escapes."""
        return self.payload.decode("utf-8", "backslashreplace")

    def respond(self, payload: bytes | str = b"", headers: Headers | None = None) -> int:
        """Answer to `reply`; give how many have taken the answer.

        Raises:
            ValueError: the message asks for no answer.
        """
        if self.reply is None or self._direct is None:
            raise ValueError(f"a message to {self.subject!r} without a reply subject")
        return self._direct.publish(self.reply, payload, headers, account=self.account)

    def __repr__(self) -> str:
        reply = f" reply={self.reply!r}" if self.reply else ""
        return f"<Message {self.subject!r}{reply} {self.payload[:64]!r}>"


class DirectSubscription(RoutedSubscription):
    """A subscription of the process itself.

    With a callback, each message is handed to it; without one, iterate or await `next`.
    `dropped` counts what came while `pending_max` messages waited.
    """

    def __init__(
        self,
        direct: Direct,
        account: Account,
        subject: bytes,
        queue: bytes | None,
        callback: Callback | None,
        pending_max: int,
    ) -> None:
        RoutedSubscription.__init__(self, subject, queue)
        self.account = account
        self.dropped = 0
        self.pending_max = pending_max
        self._direct = direct
        self._callback = callback
        self._waiting: deque[Message] = deque()
        self._readers: deque[asyncio.Future[None]] = deque()
        self._is_scheduled = False
        self._is_open = True
        self._pump: asyncio.Task[None] | None = None

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        """Keep a copy of `frame` for the receiver; False when too many wait already."""
        if not self._is_open:
            return False
        if len(self._waiting) >= self.pending_max:
            self.dropped += 1
            return False
        self._waiting.append(Message(frame, self._direct, self.account.name))
        if self._callback is None:
            self._wake_reader()
        elif not self._is_scheduled and self._pump is None:
            self._is_scheduled = True
            self._direct.loop.call_soon(self._hand_over)
        return True

    def unsubscribe(self) -> None:
        """End the subscription; what waits is still handed over. No harm when it has ended."""
        if self._is_open:
            self._is_open = False
            self._direct.forget(self)
            while self._readers:
                self._wake_reader()

    async def next(self, timeout_s: float | None = None) -> Message:
        """Return the next message.

        Raises:
            TimeoutError: none came within `timeout_s`, by the server's clock.
            MidgeError: the subscription has ended.
        """
        timer = None
        try:
            while not self._waiting:
                if not self._is_open:
                    raise MidgeError(f"the subscription to {_decode(self.subject)!r} has ended")
                reader: asyncio.Future[None] = self._direct.loop.create_future()
                self._readers.append(reader)
                if timer is None and timeout_s is not None:
                    timer = self._direct.hub.clock.call_later(timeout_s, _expire, reader)
                await reader
        finally:
            if timer is not None:
                timer.cancel()
        return self._waiting.popleft()

    def pending(self) -> int:
        """Count the messages that wait for the receiver."""
        return len(self._waiting)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.next()
        except MidgeError:
            raise StopAsyncIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unsubscribe()

    def _wake_reader(self) -> None:
        while self._readers:
            reader = self._readers.popleft()
            if not reader.done():
                reader.set_result(None)
                return

    def _hand_over(self) -> None:
        """Call the callback for all that waits; go on in a task once it proves to be async."""
        self._is_scheduled = False
        callback = self._callback
        assert callback is not None, "only subscriptions with a callback are scheduled"
        while self._waiting and self._pump is None:
            try:
                answer = callback(self._waiting.popleft())
            except Exception as error:  # noqa: BLE001 - a callback's fault is its own
                self._report(error)
                continue
            if inspect.isawaitable(answer):
                self._pump = asyncio.ensure_future(self._await_in_turn(answer))
                self._direct.keep(self._pump)

    async def _await_in_turn(self, first: Awaitable[None]) -> None:
        """Await the callback's answers one after the other, until nothing waits."""
        callback = self._callback
        answer: Awaitable[None] | None = first
        try:
            while True:
                try:
                    if answer is not None:
                        await answer
                    if not self._waiting:
                        return
                    answer = callback(self._waiting.popleft()) if callback else None
                except Exception as error:  # noqa: BLE001 - a callback's fault is its own
                    answer = None
                    self._report(error)
        finally:
            self._pump = None

    def _report(self, error: Exception) -> None:
        context = {
            "message": f"midge: the callback of {_decode(self.subject)!r} failed",
            "exception": error,
        }
        self._direct.loop.call_exception_handler(context)


class Direct:
    """The process's own access to one server's router; `sent` and `received` count its messages."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.loop = asyncio.get_running_loop()
        self.subscriptions: dict[DirectSubscription, None] = {}
        self.in_messages = 0
        self.in_bytes = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_flushing = False

    def publish(
        self,
        subject: str | bytes,
        payload: bytes | str = b"",
        headers: Headers | None = None,
        reply: str | bytes | None = None,
        *,
        account: str = GLOBAL_ACCOUNT,
    ) -> int:
        """Route one message; give how many have taken it.

        Raises:
            ValueError: a subject that nobody may publish to, or a payload that is too large.
        """
        topic = literal_subject(subject)
        frame = compose(
            topic,
            payload.encode() if isinstance(payload, str) else payload,
            None if reply is None else literal_subject(reply),
            None if headers is None else format_headers(headers),
        )
        largest = self.hub.options.limits.max_payload_bytes
        if frame.size > largest:
            raise ValueError(f"message: expected at most {largest} bytes, got {frame.size}")
        return self.route(self.known_account(account), topic, frame)

    def route(self, account: Account, subject: bytes, frame: Frame) -> int:
        """Count and route `frame`; it is written with all others of this turn of the loop."""
        self.in_messages += 1
        self.in_bytes += frame.size
        if self.hub.screen is None and self.hub.interception is None:
            return self._route(account, subject, frame)
        return self.hub.publish_direct(account, frame, self._route)

    def _route(self, account: Account, subject: bytes, frame: Frame) -> int:
        if account.mapper is not None:
            mapped = account.mapper.map(subject)
            if mapped is None:
                return 0
            if mapped != subject:
                subject = mapped
                frame = compose(
                    mapped, frame.payload_bytes(), frame.reply_bytes(), frame.header_bytes()
                )
        hub = self.hub
        taken: int = hub.router.route(account, account.sublist.match(subject), None, frame)
        if not self._is_flushing:
            self._is_flushing = True
            self.loop.call_soon(self._flush)
        return taken

    def subscribe(
        self,
        pattern: str | bytes,
        callback: Callback | None = None,
        queue: str | bytes | None = None,
        *,
        account: str = GLOBAL_ACCOUNT,
        pending_max: int = PENDING_MAX,
    ) -> DirectSubscription:
        """Subscribe to `pattern`, as a member of the group `queue` if given.

        Raises:
            ValueError: a pattern or a queue name that cannot be.
        """
        subject = _encode(pattern)
        group = None if queue is None else _encode(queue)
        if not is_valid_subject(subject):
            raise ValueError(f"pattern: expected tokens separated by dots, got {pattern!r}")
        if group is not None and not is_valid_subject(group):
            raise ValueError(f"queue: expected a name without blanks, got {queue!r}")
        home = self.known_account(account)
        subscription = DirectSubscription(self, home, subject, group, callback, pending_max)
        home.sublist.insert(subscription)
        self.subscriptions[subscription] = None
        return subscription

    async def request(
        self,
        subject: str | bytes,
        payload: bytes | str = b"",
        timeout_s: float = 1.0,
        headers: Headers | None = None,
        *,
        account: str = GLOBAL_ACCOUNT,
    ) -> Message:
        """Publish a request and return the first answer.

        Raises:
            NoRespondersError: nobody has taken the request.
            TimeoutError: no answer came within `timeout_s`, by the server's clock.
            ValueError: as `publish`.
        """
        inbox = f"_INBOX.{secrets.token_hex(12)}"
        with self.subscribe(inbox, account=account, pending_max=1) as answers:
            if not self.publish(subject, payload, headers, inbox, account=account):
                raise NoRespondersError(f"no responders on {_decode(_encode(subject))!r}")
            message = await answers.next(timeout_s)
        if message.headers.get("Status") == ["503"] and not message.payload:
            raise NoRespondersError(f"no responders on {_decode(_encode(subject))!r}")
        return message

    def known_account(self, name: str) -> Account:
        """Give the account called `name`. Raises: ValueError when there is none."""
        account = self.hub.accounts.get(name)
        if account is None:
            known = ", ".join(sorted(self.hub.accounts))
            raise ValueError(f"account: expected one of {known}, got {name!r}")
        return account

    def forget(self, subscription: DirectSubscription) -> None:
        """Take a subscription that has ended out of its account."""
        subscription.account.sublist.remove(subscription)
        self.subscriptions.pop(subscription, None)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Hold a task until it is done; `close` ends it."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End all subscriptions and their tasks."""
        for subscription in list(self.subscriptions):
            subscription.unsubscribe()
        await asyncio.sleep(
            0
        )  # a task that never began would leave its callback's coroutine behind
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _flush(self) -> None:
        self._is_flushing = False
        self.hub.router.flush()


def literal_subject(subject: str | bytes) -> bytes:
    """Return `subject` as bytes, sure to be one that may be published to.

    Raises:
        ValueError: it is empty, or has a blank, a line end, an empty token or a wildcard.
    """
    raw = _encode(subject)
    if not is_valid_publish_subject(raw):
        raise ValueError(f"subject: expected literal tokens separated by dots, got {subject!r}")
    return raw


def _encode(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _expire(reader: asyncio.Future[None]) -> None:
    if not reader.done():
        reader.set_exception(TimeoutError("no message came in time"))
