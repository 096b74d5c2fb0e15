"""Keep the messages published to a server and delivered to its clients, for assertions.

It is like pytest's caplog, for messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import json
import threading
from collections import deque
from typing import TYPE_CHECKING, Unpack

from midge.protocol.headers import parse_headers
from midge.protocol.text import decode
from midge.server.broker.broker import Observer
from midge.testing.captured import Captured
from midge.testing.wanted import ANYTHING, CountResult, wanted

if TYPE_CHECKING:
    from midge.protocol.frame import Frame
    from midge.server.clients.connection import Connection
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client
    from midge.testing.wanted import (
        Criteria,
        DeliveryCriteria,
        DeliveryKind,
        Kind,
        StoredCriteria,
        StoredKind,
        Wanted,
    )

KEPT_MAX = 100_000
"""Most messages that a capture keeps of each kind; it drops the oldest."""

_QUIET_S = 0.1  # over 100 times as long as a message takes to a server in the same process


class _Waiter:
    """A coroutine that waits for the next message, in whatever loop it runs."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def wake(self) -> None:
        """Wake the coroutine; may be called in any thread."""
        if not self._event.is_set():
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(self._event.set)

    async def woken(self) -> None:
        """Wait for the next `wake`; return at once if there was one since the last wait."""
        await self._event.wait()
        self._event.clear()


class Capture(Observer):
    """The messages published, delivered to clients, and stored in streams, while it watches.

    Safe from any thread.
    """

    def __init__(self) -> None:
        self._published: deque[Captured] = deque(maxlen=KEPT_MAX)
        self._delivered: deque[Captured] = deque(maxlen=KEPT_MAX)
        self._stored: deque[Captured] = deque(maxlen=KEPT_MAX)
        self._changed = threading.Condition(threading.RLock())
        self._waiters: set[_Waiter] = set()

    # Called in the server's thread.

    def message_routed(
        self, account: Account, publisher: Client | None, frame: Frame, plain: int, queued: int
    ) -> None:
        """Keep a published message."""
        self._keep(self._published, _captured(frame, publisher, plain + queued))

    def message_delivered(self, connection: Connection, frame: Frame) -> None:
        """Keep a message that a client gets."""
        self._keep(self._delivered, _captured(frame, connection, 1))

    def message_stored(self, message: Captured) -> None:
        """Keep a message that a stream has stored, and shows from now on."""
        self._keep(self._stored, message)

    def _keep(self, messages: deque[Captured], message: Captured) -> None:
        with self._changed:
            messages.append(message)
            self._changed.notify_all()
            for waiter in self._waiters:
                waiter.wake()

    # Callable in any thread.

    @property
    def messages(self) -> list[Captured]:
        """All messages published so far, oldest first."""
        with self._changed:
            return list(self._published)

    @property
    def delivered(self) -> list[Captured]:
        """All deliveries to clients so far, oldest first; `client` is the receiver."""
        with self._changed:
            return list(self._delivered)

    @property
    def stored(self) -> list[Captured]:
        """All messages that streams have stored so far, oldest first, removed ones included."""
        with self._changed:
            return list(self._stored)

    def matching(self, pattern: str) -> list[Captured]:
        """Return the published messages whose subjects match `pattern`."""
        return wanted("published", pattern).matching(self.messages)

    def clear(self) -> None:
        """Drop all messages so far."""
        with self._changed:
            self._published.clear()
            self._delivered.clear()
            self._stored.clear()

    def assert_published(self, pattern: str, **criteria: Unpack[Criteria]) -> list[Captured]:
        """Return the published messages that match, or fail and show the captured messages.

        Without `count`, one or more must match. A client's message may not have arrived yet, so
        this waits for it, for at most `timeout_s`. The wait blocks the thread. If the thread runs
        an event loop, a missing message is an error at once; use `wait_published` there.
        """
        __tracebackhide__ = True
        return self._block(wanted("published", pattern, **criteria))

    def assert_delivered(
        self, pattern: str, **criteria: Unpack[DeliveryCriteria]
    ) -> list[Captured]:
        """Return the matching deliveries to clients, or to the client called `to`; else fail.

        Waits like `assert_published`. A message counts once for each subscription that gets it.
        """
        __tracebackhide__ = True
        return self._block(wanted("delivered", pattern, **criteria))

    def assert_stored(self, pattern: str, **criteria: Unpack[StoredCriteria]) -> list[Captured]:
        """Return the matching messages stored in streams, or in the stream `stream`; else fail.

        Waits like `assert_published`. A message counts from the time at which its stream shows it,
        even if it is removed later. Duplicates and refused messages do not count.
        """
        __tracebackhide__ = True
        return self._block(wanted("stored", pattern, **criteria))

    def assert_nothing_stored(self, pattern: str = ">", **kind: Unpack[StoredKind]) -> None:
        """Fail if a matching message was stored so far, or is stored within `quiet_s`."""
        __tracebackhide__ = True
        self._block(wanted("stored", pattern, count=0, **kind))

    def assert_nothing_published(self, pattern: str = ">", **kind: Unpack[Kind]) -> None:
        """Fail if a matching message was published so far, or is published within `quiet_s`.

        Without `quiet_s` it does not wait, and a client's messages may not have arrived yet: flush
        the client before.
        """
        __tracebackhide__ = True
        self._block(wanted("published", pattern, count=0, **kind))

    def assert_nothing_delivered(self, pattern: str = ">", **kind: Unpack[DeliveryKind]) -> None:
        """Fail if a matching message was delivered so far, or is delivered within `quiet_s`."""
        __tracebackhide__ = True
        self._block(wanted("delivered", pattern, count=0, **kind))

    async def wait_published(self, pattern: str, **criteria: Unpack[Criteria]) -> list[Captured]:
        """Wait as `assert_published` does, without blocking the loop."""
        __tracebackhide__ = True
        return await self._await(wanted("published", pattern, **criteria))

    async def wait_delivered(
        self, pattern: str, **criteria: Unpack[DeliveryCriteria]
    ) -> list[Captured]:
        """Wait as `assert_delivered` does, without blocking the loop."""
        __tracebackhide__ = True
        return await self._await(wanted("delivered", pattern, **criteria))

    async def wait_stored(self, pattern: str, **criteria: Unpack[StoredCriteria]) -> list[Captured]:
        """Wait as `assert_stored` does, without blocking the loop."""
        __tracebackhide__ = True
        return await self._await(wanted("stored", pattern, **criteria))

    async def wait_nothing_stored(self, pattern: str = ">", **kind: Unpack[StoredKind]) -> None:
        """Fail if a matching message was stored, or is stored within `quiet_s` (0.1 s)."""
        __tracebackhide__ = True
        kind.setdefault("quiet_s", _QUIET_S)
        await self._await(wanted("stored", pattern, count=0, **kind))

    async def wait_nothing_published(self, pattern: str = ">", **kind: Unpack[Kind]) -> None:
        """Fail if a matching message was published, or is published within `quiet_s` (0.1 s)."""
        __tracebackhide__ = True
        kind.setdefault("quiet_s", _QUIET_S)
        await self._await(wanted("published", pattern, count=0, **kind))

    async def wait_nothing_delivered(
        self, pattern: str = ">", **kind: Unpack[DeliveryKind]
    ) -> None:
        """Fail if a matching message was delivered, or is delivered within `quiet_s` (0.1 s)."""
        __tracebackhide__ = True
        kind.setdefault("quiet_s", _QUIET_S)
        await self._await(wanted("delivered", pattern, count=0, **kind))

    def _block(self, wanted: Wanted) -> list[Captured]:
        """Block this thread until the wanted messages are there; return them, or fail."""
        __tracebackhide__ = True
        for verdict, wait_s in wanted.waits:

            def is_over(verdict: CountResult = verdict) -> bool:
                return self._verdict(wanted) is not verdict

            with self._changed:
                if wait_s > 0 and not is_over():
                    if _runs_loop():
                        return self._concluded(wanted, _would_block(wanted))
                    self._changed.wait_for(is_over, wait_s)
        return self._concluded(wanted)

    async def _await(self, wanted: Wanted) -> list[Captured]:
        """Await the wanted messages in this loop; return them, or fail."""
        __tracebackhide__ = True
        waiter = _Waiter()
        with self._changed:
            self._waiters.add(waiter)
        try:
            for verdict, wait_s in wanted.waits:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        while self._verdict(wanted) is verdict:
                            await waiter.woken()
        finally:
            with self._changed:
                self._waiters.discard(waiter)
        return self._concluded(wanted)

    def _kept(self, wanted: Wanted) -> list[Captured]:
        if wanted.what == "stored":
            return self.stored
        return self.messages if wanted.what == "published" else self.delivered

    def _verdict(self, wanted: Wanted) -> CountResult:
        return wanted.judge(self._kept(wanted))

    def _concluded(self, wanted: Wanted, hint: str = "") -> list[Captured]:
        """Return the messages found, or fail; with a `hint` always fail, and end with the hint."""
        __tracebackhide__ = True
        kept = self._kept(wanted)
        lines = [] if wanted.judge(kept) is CountResult.RIGHT else [_explain(wanted, kept)]
        if hint:
            lines.append(hint)
        if lines:
            raise AssertionError("\n".join(lines))
        return wanted.found(kept)


def _captured(frame: Frame, client: Client | None, deliveries: int) -> Captured:
    block, reply = frame.header_bytes(), frame.reply_bytes()
    options = getattr(client, "options", None)
    return Captured(
        subject=decode(frame.subject_bytes()),
        payload=frame.payload_bytes(),
        headers={} if block is None else parse_headers(block),
        reply=None if reply is None else decode(reply),
        client="" if options is None else options.name,
        deliveries=deliveries,
    )


def _runs_loop() -> bool:
    """Return whether waiting in this thread would block an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _would_block(wanted: Wanted) -> str:
    """Return the hint that names the awaitable form."""
    nothing = "nothing_" if wanted.count == 0 else ""
    return (
        f"assert_{nothing}{wanted.what} cannot wait in an async test, where it would stop the "
        f"loop; use: await nats_capture.wait_{nothing}{wanted.what}(…)"
    )


_SHOWN_MAX = 20
_PAYLOAD_MAX_BYTES = 80
_DIFFERENCE_MAX_LINES = 40


def _explain(wanted: Wanted, everything: list[Captured]) -> str:
    """Return the text of a failure: the `wanted` messages, and `everything` captured."""
    what, near = wanted.what, wanted.matching(everything)
    right = [message for message in near if wanted.holds(message)]
    lines = [f"expected {_expected(wanted)}, got {len(right) or 'none'}"]
    if not everything:
        return f"{lines[0]}\nnothing was {what}"
    lines.append(f"{what} ({len(everything)} in all; = as expected, ~ only the subject is):")
    hidden = len(everything) - _SHOWN_MAX
    if hidden > 0:
        lines.append(f"    … {hidden} before")
    for message in everything[-_SHOWN_MAX:]:
        mark = "=" if message in right else "~" if message in near else " "
        lines.append(f"  {mark} {_line(what, message)}")
    missing = [message for message in near if not wanted.holds(message)]
    if missing and wanted.judge(everything) is CountResult.TOO_FEW:
        lines += _difference(wanted, missing)
    return "\n".join(lines)


def _expected(wanted: Wanted) -> str:
    """Describe the wanted messages, and their number."""
    messages = "at least 1 message" if wanted.count is None else _messages(wanted.count)
    more = f" and no more within {wanted.quiet_s:g} s" if wanted.quiet_s else ""
    return f"{messages} {wanted.what} {_described(wanted)}{more}"


def _messages(count: int) -> str:
    return "no message" if count == 0 else "1 message" if count == 1 else f"{count} messages"


def _described(wanted: Wanted) -> str:
    """Describe the wanted messages."""
    parts = [f"on {wanted.pattern!r}"]
    if wanted.to is not None:
        parts.append(f"to client {wanted.to!r}")
    if wanted.stream is not None:
        parts.append(f"in stream {wanted.stream!r}")
    if wanted.payload is not None:
        parts.append(f"with payload {_shown(wanted.payload)}")
    if wanted.headers:
        parts.append(f"with headers {wanted.headers}")
    if wanted.json is not ANYTHING:
        parts.append(f"with JSON {json.dumps(wanted.json, default=repr)}")
    if wanted.where is not None:
        parts.append(f"where {getattr(wanted.where, '__name__', wanted.where)}")
    return " ".join(parts)


def _line(what: str, message: Captured) -> str:
    """Return one line about a message."""
    parts = [f"{message.subject}  {_shown(message.payload)}"]
    if message.headers:
        parts.append(f"headers {message.headers}")
    if message.reply:
        parts.append(f"reply {message.reply}")
    if message.client:
        parts.append(f"{'to' if what == 'delivered' else 'from'} {message.client}")
    if message.stream:
        parts.append(f"in {message.stream} as {message.seq}")
    if what == "published":
        parts.append(f"taken by {message.deliveries or 'nobody'}")
    return "  ".join(parts)


def _difference(wanted: Wanted, missing: list[Captured]) -> list[str]:
    """Return the difference between the expected message and the most similar captured one."""
    payload = wanted.payload
    if payload is None and wanted.json is not ANYTHING:
        payload = json.dumps(wanted.json, default=repr).encode()
    if payload is None:
        return []
    expected = _lines(payload)
    nearest = max(missing, key=lambda one: _likeness(expected, _lines(one.payload)))
    got = _lines(nearest.payload)
    if nearest.payload == payload or (wanted.payload is None and got == expected):
        return []
    if got == expected:  # equal JSON, formatted differently
        expected, got = [repr(payload)], [repr(nearest.payload)]
    shown = list(difflib.ndiff(expected, got))[:_DIFFERENCE_MAX_LINES]
    head = f"the nearest, on {nearest.subject!r} (- expected, + got):"
    return [head, *(f"    {line.rstrip()}" for line in shown)]


def _likeness(expected: list[str], got: list[str]) -> float:
    return difflib.SequenceMatcher(None, "\n".join(expected), "\n".join(got)).quick_ratio()


def _lines(payload: bytes) -> list[str]:
    """Return a payload as lines to compare: JSON with one line per field, bytes as escapes."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return [repr(payload)]
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text.splitlines()
    if not isinstance(document, dict | list):
        return text.splitlines()
    return json.dumps(document, indent=2, ensure_ascii=False).splitlines()


def _shown(payload: bytes) -> str:
    more = len(payload) - _PAYLOAD_MAX_BYTES
    rest = f" and {more} bytes more" if more > 0 else ""
    return f"{payload[:_PAYLOAD_MAX_BYTES]!r}{rest}"
