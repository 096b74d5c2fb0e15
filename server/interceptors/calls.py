"""Call interceptors, within bounds, and accept only valid answers. Everything else refuses.

A call that ignores its cancellation keeps a place among the LOST_MAX lost calls, so even such an
interceptor never has more calls running than that.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from typing import TYPE_CHECKING, Any

from midge.protocol.headers import find_malformed
from midge.protocol.text import encode
from midge.server.config.options import Permissions
from midge.server.interceptors.api import Connect, Deliver, Event, Publish, Refuse, Subscribe
from midge.server.log.logger import get_logger
from midge.server.log.rate_limit import OffenderLimiter
from midge.sublist.subjects import is_valid_publish_subject, is_valid_subject

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from midge.server.clock import Clock, Timer
    from midge.server.interceptors.api import ClientInfo, Interceptor

LOST_MAX = 64
"""Most calls that go on after their time-out; beyond that, everything is refused at once."""

_SHOWN_ERROR_LENGTH = 256

log = get_logger()


class Call:
    """A pending answer; `on_answer` is called with it in a later turn of the loop."""

    __slots__ = ("name", "on_answer", "task", "timer")

    def __init__(self, name: str, task: asyncio.Future[object]) -> None:
        self.name = name
        self.task = task
        self.on_answer: Callable[[Event | Refuse], object] = lambda _: None
        self.timer: Timer | None = None


class InterceptorCalls:
    """Calls the functions of one server; `failed` and `refused` count by the name of the event."""

    def __init__(self, clock: Clock, timeout_s: float, log_lines_per_s: int) -> None:
        self.clock = clock
        self.timeout_s = timeout_s
        self.failed: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._limiter = OffenderLimiter(log_lines_per_s, clock.monotonic)
        self._tasks: set[asyncio.Future[object]] = set()
        self._lost: set[asyncio.Future[object]] = set()

    def ask(self, name: str, function: Interceptor, event: Event) -> Event | Refuse | Call:
        """Return the answer of `function` to `event`, or the call if it is async."""
        if len(self._lost) >= LOST_MAX:
            return self.fail(name, event.client, f"{LOST_MAX} calls do not end")
        try:
            answer = function(event)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - any exception refuses
            return self.fail(name, event.client, _describe(error))
        if answer is event or not inspect.isawaitable(answer):
            return self._judge(name, event, answer)
        call = Call(name, asyncio.ensure_future(_outcome(answer)))
        self._tasks.add(call.task)
        call.timer = self.clock.call_later(self.timeout_s, self._end, call, event)
        call.task.add_done_callback(lambda task: self._conclude(call, event, task))
        return call

    def fail(self, name: str, client: ClientInfo | None, problem: str) -> Refuse:
        """Return a refusal, and count and log that the interceptor of `name` has failed."""
        self.failed[name] += 1
        fields: dict[str, Any] = {"interceptor": name, "error": problem[:_SHOWN_ERROR_LENGTH]}
        if client is not None:
            fields["cid"] = client.cid
        if self._limiter.admit(name, fields):
            log.warning("interceptor_failed", **fields)
        return Refuse()

    def close(self) -> None:
        """Cancel all calls, without answers."""
        for task in list(self._tasks):
            task.cancel()

    def _end(self, call: Call, event: Event) -> None:
        """End a call that has timed out."""
        if call.task in self._tasks:
            self._lost.add(call.task)
            call.task.cancel()
            call.on_answer(self.fail(call.name, event.client, f"no answer in {self.timeout_s:g} s"))

    def _conclude(self, call: Call, event: Event, task: asyncio.Future[object]) -> None:
        """Use the answer of a call that has ended, unless it comes too late."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if task in self._lost:
            self._lost.discard(task)
            return
        if call.timer is not None:
            call.timer.cancel()
        if task.cancelled():
            call.on_answer(self.fail(call.name, event.client, "cancelled itself"))
        elif error is not None:
            call.on_answer(self.fail(call.name, event.client, _describe(error)))
        else:
            call.on_answer(self._judge(call.name, event, task.result()))

    def _judge(self, name: str, event: Event, answer: object) -> Event | Refuse:
        """Return `answer` if it is valid, else a refusal."""
        if answer is event:
            return event
        if type(answer) is Refuse and isinstance(answer.reason, str):
            self.refused[name] += 1
            return answer
        wanted = type(event).__name__
        if type(answer) is not type(event) or not isinstance(answer, Event):
            got = type(answer).__name__
            return self.fail(name, event.client, f"expected {wanted} or Refuse, got {got}")
        try:
            problem = find_problem(event, answer)
        except (TypeError, ValueError, AttributeError) as error:
            problem = str(error)
        if problem:
            return self.fail(name, event.client, f"changed {wanted}: {problem}")
        return answer


async def _outcome(answer: Awaitable[object]) -> object:
    """Await `answer`; turn an exit, which would end the loop, into an ordinary exception."""
    try:
        return await answer
    except SystemExit as error:
        raise RuntimeError(_describe(error)) from None


def find_problem(event: Event, changed: Event) -> str:
    """Return the fault of `changed`, a copy of `event`, or "" if it is valid.

    Raises:
        ValueError: a text cannot be encoded.
    """
    if changed.client != event.client:
        return "another client"
    if isinstance(event, Connect) and isinstance(changed, Connect):
        return _problem_of_connect(changed)
    if isinstance(event, Subscribe) and isinstance(changed, Subscribe):
        return _problem_of_subscribe(changed)
    if isinstance(event, Publish) and isinstance(changed, Publish):
        return _problem_of_message(event, changed)
    if isinstance(event, Deliver) and isinstance(changed, Deliver):
        if (event.publisher, event.pattern, event.queue) != (
            changed.publisher,
            changed.pattern,
            changed.queue,
        ):
            return "another publisher, pattern or queue"
        return _problem_of_message(event, changed)
    raise AssertionError("events are of one of four kinds")


def _problem_of_connect(changed: Connect) -> str:
    for field, wanted in (
        (changed.user, str),
        (changed.account, str),
        (changed.permissions, Permissions | None),
    ):
        if not isinstance(field, wanted):
            return f"{type(field).__name__} among user, account and permissions"
    return ""


def _problem_of_subscribe(changed: Subscribe) -> str:
    if not is_valid_subject(encode(changed.subject)):
        return f"{changed.subject!r} is no subject to subscribe to"
    if changed.queue is not None and not is_valid_subject(encode(changed.queue)):
        return f"{changed.queue!r} is no queue group"
    return ""


def _problem_of_message(event: Publish | Deliver, changed: Publish | Deliver) -> str:
    """Check only the changed fields, because a client may send odd ones that pass unchanged."""
    for before, after in ((event.subject, changed.subject), (event.reply, changed.reply)):
        if after == before or (after is None and before is event.reply):
            continue
        if after is None or not is_valid_publish_subject(encode(after)):
            return f"{after!r} is no subject to publish to"
    if type(changed.payload) is not bytes:
        return "payload must be bytes"
    block = changed.header_block
    if block != event.header_block and block is not None:
        return "header_block " + problem if (problem := find_malformed(block)) else ""
    return ""


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
