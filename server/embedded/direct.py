"""Publish, subscribe and request within the server's own process: no socket and no client.

A message takes the same path as a message of a connection: the account's mappings, the SubList, the
router. Receivers run after the message has been routed, in a later turn of the loop, so that a
callback may publish, unsubscribe or raise without affecting other deliveries.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Self

from midge.protocol.errors import MidgeError
from midge.protocol.text import decode, encode
from midge.server.embedded.inbox import Inbox, Message
from midge.server.embedded.publisher import Publisher
from midge.sublist.subjects import is_valid_subject

if TYPE_CHECKING:
    from midge.protocol.headers import Headers
    from midge.server.broker.broker import Broker
    from midge.server.routing.account import Account

PENDING_MAX = 65536
"""Default of `pending_max`: most messages that wait for one receiver within the process."""

Callback = Callable[[Message], object]
"""A subscription's callback: a plain function, whose result is ignored, or an async function, which
is awaited message by message."""


class NoRespondersError(MidgeError):
    """A request had no responders."""

    __module__ = "midge"


class DirectSubscription(Inbox):
    """A subscription within the process.

    With a callback, each message is passed to it; without one, iterate or await `next`. `dropped`
    counts messages that arrived while `pending_max` waited.
    """

    subject: bytes
    """The subject, perhaps with wildcards."""
    queue: bytes | None
    """The queue group; None without one."""

    def __init__(
        self,
        direct: Direct,
        account: Account,
        subject: bytes,
        queue: bytes | None,
        callback: Callback | None,
        pending_max: int,
    ) -> None:
        Inbox.__init__(self, direct, account, subject, queue, callback, pending_max)
        self._direct = direct
        self._readers: deque[asyncio.Future[None]] = deque()

    def unsubscribe(self) -> None:
        """End the subscription; waiting messages are still delivered.

        A second call does nothing.
        """
        if self._is_open:
            self._is_open = False
            self._direct.forget(self)
            while self._readers:
                self._wake_reader()

    async def next(self, timeout_s: float | None = None) -> Message:
        """Return the next message.

        Raises:
            TimeoutError: none arrived within `timeout_s`, by the server's clock.
            MidgeError: the subscription has ended.
        """
        timer = None
        try:
            while not self._waiting:
                if not self._is_open:
                    raise MidgeError(f"the subscription to {decode(self.subject)!r} has ended")
                reader: asyncio.Future[None] = self._direct.loop.create_future()
                self._readers.append(reader)
                if timer is None and timeout_s is not None:
                    timer = self._direct.broker.clock.call_later(timeout_s, _expire, reader)
                await reader
        finally:
            if timer is not None:
                timer.cancel()
        return self._waiting.popleft()

    def take_waiting(self) -> list[Message]:
        """Remove the waiting messages and return them."""
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting

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

    def _go_on_awaiting(self, first: Awaitable[Any]) -> None:
        self._direct.keep(asyncio.ensure_future(self._await_in_turn(first)))

    async def _await_in_turn(self, first: Awaitable[Any]) -> None:
        """Await the callback for one message after another, until none waits."""
        callback = self._callback
        answer: object = first
        try:
            while True:
                try:
                    if isawaitable(answer):
                        await answer
                    if not self._waiting:
                        return
                    answer = callback(self._waiting.popleft()) if callback else None
                except Exception as error:  # noqa: BLE001 - the callback's own fault
                    answer = None
                    self._report(error)
        finally:
            self._is_awaiting = False

    def _report(self, error: Exception) -> None:
        context = {
            "message": f"midge: the callback of {decode(self.subject)!r} failed",
            "exception": error,
        }
        self._direct.loop.call_exception_handler(context)


class Direct(Publisher):
    """The process's own access to one server's router: subscriptions and requests."""

    def __init__(self, broker: Broker) -> None:
        Publisher.__init__(self, broker, asyncio.get_running_loop())
        self.subscriptions: dict[DirectSubscription, None] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def subscribe(
        self,
        pattern: str | bytes,
        callback: Callback | None,
        queue: str | bytes | None,
        account: str,
        pending_max: int,
    ) -> DirectSubscription:
        """Subscribe; see `Server.subscribe`."""
        subject = _encode(pattern)
        group = None if queue is None else _encode(queue)
        if not is_valid_subject(subject):
            raise ValueError(f"pattern: expected tokens separated by dots, got {pattern!r}")
        if group is not None and not is_valid_subject(group):
            raise ValueError(f"queue: expected a name without blanks, got {queue!r}")
        home = self.known_account(account)
        subscription = DirectSubscription(self, home, subject, group, callback, pending_max)
        home.add(subscription)
        self.subscriptions[subscription] = None
        return subscription

    async def request(
        self,
        subject: str | bytes,
        payload: bytes | str,
        timeout_s: float,
        headers: Headers | None,
        account: str,
    ) -> Message:
        """Publish a request and return the first answer; see `Server.request`."""
        inbox = f"_INBOX.{secrets.token_hex(12)}"
        with self.subscribe(inbox, None, None, account, 1) as answers:
            if not self.send(subject, payload, headers, inbox, account):
                raise NoRespondersError(f"no responders on {decode(_encode(subject))!r}")
            message = await answers.next(timeout_s)
        if message.headers.get("Status") == ["503"] and not message.payload:
            raise NoRespondersError(f"no responders on {decode(_encode(subject))!r}")
        return message

    def forget(self, subscription: DirectSubscription) -> None:
        """Remove an ended subscription from its account."""
        subscription.account.remove(subscription)
        self.subscriptions.pop(subscription, None)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Keep a task until it is done; `close` cancels it."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End all subscriptions and their tasks."""
        for subscription in list(self.subscriptions):
            subscription.unsubscribe()
        # A task that never started would leave its callback's coroutine unawaited.
        await asyncio.sleep(0)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _encode(text: str | bytes) -> bytes:
    return encode(text) if isinstance(text, str) else text


def _expire(reader: asyncio.Future[None]) -> None:
    if not reader.done():
        reader.set_exception(TimeoutError("no message came in time"))
