"""Requests that the server itself answers: their subjects, and the queue of each account."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from midge.server.routing.subscription import RoutedSubscription

if TYPE_CHECKING:
    from midge.protocol.frame import Frame
    from midge.server.internal.internal_publisher import InternalPublisher
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client

ANSWERED_IN_TURN = 32
"""Requests of one account that are answered without a pause, while none has to be awaited."""
_IN_TURN = ANSWERED_IN_TURN  # a C number where this is compiled

_TURN_S = 0.005
_NOTED_S = 0.0003
"""Time after which the loop is asked for a turn that resets the measurement, which costs 2 us."""


class Request(Struct, frozen=True):
    """A request to a service, copied out of the frame that it came in."""

    account: Account
    publisher: Client | None
    subject: bytes
    reply: bytes
    headers: bytes | None
    payload: bytes


Handler = Callable[[Request], "bytes | Awaitable[bytes | None] | None"]
"""Returns the payload of the answer, or None for no answer; plain or async."""


class Service(RoutedSubscription):
    """A subject, or pattern, that `handler` answers within one account."""

    def __init__(
        self,
        services: Services,
        account: Account,
        subject: bytes,
        handler: Handler,
        queue: bytes | None,
    ) -> None:
        RoutedSubscription.__init__(self, subject, queue)
        self.account = account
        self.handler = handler
        self._services = services

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        """Take a request; return False if it has no reply subject."""
        reply = frame.reply_bytes()
        if reply is None:
            return False
        payload, headers = frame.payload_bytes(), frame.header_bytes()
        subject = frame.subject_bytes()
        request = Request(self.account, publisher, subject, reply, headers, payload)
        self._services.take(self, request)
        return True


class Services:
    """Services that share a bound: at most `waiting_max` requests of each account may wait.

    Within an account, requests are answered in order, one at a time; accounts do not wait for each
    other. A request beyond the bound gets no answer, and `overfull` is called. All answers of one
    turn of the loop take `_TURN_S` and one more request at most: then it is the next account's
    turn.

    With `is_prompt`, the first request in a batch of reads is answered at once if none waits, which
    saves a client with one open request a turn of the loop. All other requests wait for the next
    turn, so that they do not delay the rest of the batch.
    """

    def __init__(
        self,
        publisher: InternalPublisher,
        *,
        waiting_max: int,
        overfull: Callable[[], object],
        is_prompt: bool = False,
    ) -> None:
        self._publisher = publisher
        self._waiting_max = waiting_max
        self._overfull = overfull
        self._is_prompt = is_prompt
        self._answered_in = -1  # the batch of reads with the last answered request
        self._waiting: dict[Account, deque[tuple[Service, Request]]] = {}
        self._ready: deque[Account] = deque()  # accounts whose next request can be answered
        self._is_asked = False
        self._used_s = 0.0  # by answers since the last turn of the loop
        self._tasks: set[asyncio.Task[None]] = set()

    def offer(
        self, account: Account, subject: bytes, handler: Handler, queue: bytes | None = None
    ) -> Service:
        """Start to answer requests to `subject` in `account` by `handler`."""
        service = Service(self, account, subject, handler, queue)
        account.add(service)
        return service

    def withdraw(self, service: Service) -> None:
        """Take no more requests for `service`; waiting ones are still answered."""
        service.account.remove(service)

    def close(self) -> None:
        """Stop answering."""
        self._waiting.clear()
        self._ready.clear()
        for task in list(self._tasks):
            task.cancel()

    def take(self, service: Service, request: Request) -> None:
        """Queue `request`; requests are answered in order."""
        account = request.account
        waiting = self._waiting.get(account)
        if waiting is None:
            waiting = self._waiting[account] = deque()
            router = self._publisher.router
            if (
                self._is_prompt
                and self._used_s < _TURN_S
                and router.is_reading()
                and self._answered_in != router.batches
            ):
                self._answered_in = router.batches
                waiting.append((service, request))
                self._answer_some(account)
                return
            self._get_ready(account)
        elif len(waiting) >= self._waiting_max:
            self._overfull()
            return
        waiting.append((service, request))

    def _get_ready(self, account: Account) -> None:
        """Answer the requests waiting in `account` in a later turn."""
        self._ready.append(account)
        self._ask()

    def _ask(self) -> None:
        if not self._is_asked:
            self._is_asked = True
            self._soon()(self._answer_waiting)

    def _answer_waiting(self) -> None:
        """Answer requests, and write the answers at once."""
        self._publisher.router.write_after(self._answer_turn)

    def _answer_turn(self) -> None:
        """Answer the requests of one account after the other, as far as this turn allows."""
        self._is_asked = False
        self._used_s = 0.0
        try:
            for _ in range(len(self._ready)):
                if self._used_s >= _TURN_S or not self._ready:
                    break
                self._answer_some(self._ready.popleft())
        finally:
            if self._ready:
                self._ask()

    def _answer_some(self, account: Account) -> None:
        """Answer the requests waiting in `account`, up to one to await or the end of the turn.

        A request keeps its place in the queue until it has been answered.
        """
        waiting = self._waiting.get(account)
        began_s = time.monotonic()
        for _ in range(_IN_TURN):
            if not waiting:
                self._waiting.pop(account, None)
                return
            service, request = waiting[0]
            try:
                answer = service.handler(request)
            except Exception as error:  # noqa: BLE001 - a handler's fault must end nothing else
                answer = None
                self._publisher.router.faults.note(service, error)
            if answer is not None and isinstance(answer, Awaitable):
                task = asyncio.ensure_future(self._await(service, request, answer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                return
            waiting.popleft()
            if answer is not None:
                self._send(request, answer)
            now_s = time.monotonic()
            self._used_s += now_s - began_s
            began_s = now_s
            if self._used_s >= _NOTED_S:
                self._ask()  # the next turn of the loop measures again from zero
                if self._used_s >= _TURN_S:
                    break
        if waiting:
            self._get_ready(account)
        else:
            self._waiting.pop(account, None)

    def _soon(self) -> Callable[..., object]:
        """Return `call_soon` of the running loop; cached, as finding the loop is a system call."""
        return self._publisher.router.soon or asyncio.get_running_loop().call_soon

    async def _await(
        self, service: Service, request: Request, pending: Awaitable[bytes | None]
    ) -> None:
        """Send the answer when it is ready, and continue with the queue."""
        answer = None
        try:
            answer = await pending
        except Exception as error:  # noqa: BLE001 - a handler's fault must end nothing else
            self._publisher.router.faults.note(service, error)
        waiting = self._waiting.get(request.account)
        if waiting:
            waiting.popleft()
            self._send(request, answer)
            self._get_ready(request.account)

    def _send(self, request: Request, answer: bytes | None) -> None:
        """Publish an answer, if there is one and its reply subject has a receiver."""
        account = request.account
        if answer is not None and account.sublist.has_interest(request.reply):
            self._publisher.publish(account, request.reply, answer)
