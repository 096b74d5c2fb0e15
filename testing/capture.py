"""Messages published to a server, and delivered to its clients, kept for assertions.

Like pytest's caplog, for messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from typing import TYPE_CHECKING, Unpack

from midge.protocol.headers import parse_headers
from midge.protocol.text import decode
from midge.server.broker.broker import Observer
from midge.testing.captured import Captured
from midge.testing.wanted import Verdict, wanted

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
"""Messages that a capture keeps of either kind; the oldest go first."""

_QUIET_S = 0.1  # a message takes less than a hundredth of that to a server in the same process


class _Waiter:
    """A coroutine that waits for the next message, in whatever loop it runs."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def wake(self) -> None:
        """Wake the coroutine; may be called in any thread."""
        if not self._event.is_set():
            with contextlib.suppress(RuntimeError):  # its loop was closed while it waited
                self._loop.call_soon_threadsafe(self._event.set)

    async def woken(self) -> None:
        """Wait for the next `wake`; one since the last wait counts."""
        await self._event.wait()
        self._event.clear()


class Capture(Observer):
    """Everything published, delivered to clients, and stored in streams, while it watches.

    Safe from any thread.
    """

    def __init__(self) -> None:
        self._published: deque[Captured] = deque(maxlen=KEPT_MAX)
        self._delivered: deque[Captured] = deque(maxlen=KEPT_MAX)
        self._stored: deque[Captured] = deque(maxlen=KEPT_MAX)
        self._changed = threading.Condition(threading.RLock())
        self._waiters: set[_Waiter] = set()

    # What it sees, in the server's thread.

    def message_routed(
        self, account: Account, publisher: Client | None, frame: Frame, plain: int, queued: int
    ) -> None:
        """Keep a published message."""
        self._keep(self._published, _captured(frame, publisher, plain + queued))

    def message_delivered(self, connection: Connection, frame: Frame) -> None:
        """Keep what a client gets."""
        self._keep(self._delivered, _captured(frame, connection, 1))

    def message_stored(self, message: Captured) -> None:
        """Keep what a stream has stored, and shows from now on."""
        self._keep(self._stored, message)

    def _keep(self, messages: deque[Captured], message: Captured) -> None:
        with self._changed:
            messages.append(message)
            self._changed.notify_all()
            for waiter in self._waiters:
                waiter.wake()

    # What it tells, in any thread.

    @property
    def messages(self) -> list[Captured]:
        """All messages published so far, oldest first."""
        with self._changed:
            return list(self._published)

    @property
    def delivered(self) -> list[Captured]:
        """All deliveries to clients so far, oldest first; `client` is the one that got it."""
        with self._changed:
            return list(self._delivered)

    @property
    def stored(self) -> list[Captured]:
        """All messages that streams have stored so far, oldest first, also those gone since."""
        with self._changed:
            return list(self._stored)

    def matching(self, pattern: str) -> list[Captured]:
        """Return the published messages whose subjects `pattern` stands for."""
        return wanted("published", pattern).matching(self.messages)

    def clear(self) -> None:
        """Forget everything so far."""
        with self._changed:
            self._published.clear()
            self._delivered.clear()
            self._stored.clear()

    def assert_published(self, pattern: str, **criteria: Unpack[Criteria]) -> list[Captured]:
        """Return the published messages that match, or fail with what there was instead.

        Without `count` one or more must match. What a client has sent may still be on its way, so
        this waits for it, at most `timeout_s`. That blocks the thread: where an event loop runs in
        it, a message that is not there yet is an error at once; `wait_published` waits there.
        """
        __tracebackhide__ = True
        return self._block(wanted("published", pattern, **criteria))

    def assert_delivered(
        self, pattern: str, **criteria: Unpack[DeliveryCriteria]
    ) -> list[Captured]:
        """Return the deliveries to clients that match, or to the one called `to`; else fail.

        As `assert_published`; a message counts once for each subscription that it is written to.
        """
        __tracebackhide__ = True
        return self._block(wanted("delivered", pattern, **criteria))

    def assert_stored(self, pattern: str, **criteria: Unpack[StoredCriteria]) -> list[Captured]:
        """Return the messages stored in streams, or in the one called `stream`; else fail.

        As `assert_published`. A message counts once its stream shows it: a duplicate or a refused
        one does not, and one that has been removed since does.
        """
        __tracebackhide__ = True
        return self._block(wanted("stored", pattern, **criteria))

    def assert_nothing_stored(self, pattern: str = ">", **kind: Unpack[StoredKind]) -> None:
        """Fail when anything that matches was stored so far, or is within `quiet_s`."""
        __tracebackhide__ = True
        self._block(wanted("stored", pattern, count=0, **kind))

    def assert_nothing_published(self, pattern: str = ">", **kind: Unpack[Kind]) -> None:
        """Fail when anything that matches was published so far, or is within `quiet_s`.

        Without `quiet_s` it does not wait: a client's messages may still be on their way, so flush
        it before.
        """
        __tracebackhide__ = True
        self._block(wanted("published", pattern, count=0, **kind))

    def assert_nothing_delivered(self, pattern: str = ">", **kind: Unpack[DeliveryKind]) -> None:
        """Fail when anything that matches was delivered so far, or is within `quiet_s`."""
        __tracebackhide__ = True
        self._block(wanted("delivered", pattern, count=0, **kind))

    async def wait_published(self, pattern: str, **criteria: Unpack[Criteria]) -> list[Captured]:
        """Wait as `assert_published` does, and let the loop go on meanwhile."""
        __tracebackhide__ = True
        return await self._await(wanted("published", pattern, **criteria))

    async def wait_delivered(
        self, pattern: str, **criteria: Unpack[DeliveryCriteria]
    ) -> list[Captured]:
        """Wait as `assert_delivered` does, and let the loop go on meanwhile."""
        __tracebackhide__ = True
        return await self._await(wanted("delivered", pattern, **criteria))

    async def wait_stored(self, pattern: str, **criteria: Unpack[StoredCriteria]) -> list[Captured]:
        """Wait as `assert_stored` does, and let the loop go on meanwhile."""
        __tracebackhide__ = True
        return await self._await(wanted("stored", pattern, **criteria))

    async def wait_nothing_stored(self, pattern: str = ">", **kind: Unpack[StoredKind]) -> None:
        """Fail when anything that matches was stored, or is within `quiet_s` (0.1 s)."""
        __tracebackhide__ = True
        kind.setdefault("quiet_s", _QUIET_S)
        await self._await(wanted("stored", pattern, count=0, **kind))

    async def wait_nothing_published(self, pattern: str = ">", **kind: Unpack[Kind]) -> None:
        """Fail when anything that matches was published, or is within `quiet_s` (0.1 s)."""
        __tracebackhide__ = True
        kind.setdefault("quiet_s", _QUIET_S)
        await self._await(wanted("published", pattern, count=0, **kind))

    async def wait_nothing_delivered(
        self, pattern: str = ">", **kind: Unpack[DeliveryKind]
    ) -> None:
        """Fail when anything that matches was delivered, or is within `quiet_s` (0.1 s)."""
        __tracebackhide__ = True
        kind.setdefault("quiet_s", _QUIET_S)
        await self._await(wanted("delivered", pattern, count=0, **kind))

    def _block(self, wanted: Wanted) -> list[Captured]:
        """Wait in this thread for what is wanted; return it, or fail."""
        __tracebackhide__ = True
        for verdict, wait_s in wanted.waits:

            def is_over(verdict: Verdict = verdict) -> bool:
                return self._verdict(wanted) is not verdict

            with self._changed:
                if wait_s > 0 and not is_over():
                    if _runs_loop():
                        return self._concluded(wanted, _would_block(wanted))
                    self._changed.wait_for(is_over, wait_s)
        return self._concluded(wanted)

    async def _await(self, wanted: Wanted) -> list[Captured]:
        """Wait in this loop for what is wanted; return it, or fail."""
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

    def _verdict(self, wanted: Wanted) -> Verdict:
        return wanted.judge(self._kept(wanted))

    def _concluded(self, wanted: Wanted, hint: str = "") -> list[Captured]:
        """Return what was found, or fail; with a `hint` fail in any case, and end with it."""
        __tracebackhide__ = True
        kept = self._kept(wanted)
        lines = [] if wanted.judge(kept) is Verdict.RIGHT else [_explained(wanted, kept)]
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


def _explained(wanted: Wanted, kept: list[Captured]) -> str:
    from midge.testing.failure_message import explain  # noqa: PLC0415 - only who fails needs it

    return explain(wanted, kept)


def _runs_loop() -> bool:
    """Tell whether waiting in this thread would keep an event loop from going on."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _would_block(wanted: Wanted) -> str:
    """Return the hint at the form that can be awaited."""
    nothing = "nothing_" if wanted.count == 0 else ""
    return (
        f"assert_{nothing}{wanted.what} cannot wait in an async test, where it would stop the "
        f"loop; use: await nats_capture.wait_{nothing}{wanted.what}(…)"
    )
