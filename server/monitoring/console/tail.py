"""Tails of the console: the messages that an account routes, seen by an observer.

A tail is no subscription: it adds no interest, and it does not break up runs of equal lines. It
lives while a page polls it, so it also reappears by itself after a restart of the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midge.protocol.text import decode
from midge.server.clients.observer import Observer
from midge.server.monitoring.console.shown import headers_of, payload_of
from midge.server.routing.role import Role
from midge.sublist.subjects import matches

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.protocol.frame import Frame
    from midge.server.broker.broker import Broker
    from midge.server.clock import Timer
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client

KEPT_MAX = 100
"""Messages kept between two polls: at two polls a second more than a person can read."""

TAILS_MAX = 8
"""Tails of one server; each costs some 0.5 us a message, in every worker."""

_PAYLOAD_MAX_BYTES = 1024
_FORGOTTEN_AFTER_S = 20.0
"""Seconds without a look: a page looks twice a second, a hidden or starved one less often."""
_EVERYTHING = b">"


class Tail(Observer):
    """The messages of one account on subjects that match `pattern`, since the last look."""

    def __init__(self, account: Account, pattern: bytes, wall: Callable[[], float]) -> None:
        self._wall = wall
        self.account = account
        self.pattern = pattern
        self._is_whole = pattern == _EVERYTHING
        self._kept: list[dict[str, Any]] = []
        self._seen = 0

    def take(self) -> dict[str, Any]:
        """Return the messages since the last poll, and the numbers of seen and omitted ones."""
        kept, self._kept = self._kept, []
        seen, self._seen = self._seen, 0
        return {"messages": kept, "seen": seen, "left_out": seen - len(kept)}

    # As an observer.

    def sees_runs(self) -> bool:
        """Return True, so that runs stay runs: their first message represents all."""
        return True

    def message_routed(
        self, account: Account, publisher: Client | None, frame: Frame, plain: int, queued: int
    ) -> None:
        """Keep a message, if there is room."""
        self._note(account, publisher, frame, 1, plain + queued)

    def run_routed(
        self, account: Account, publisher: Client | None, frame: Frame, count: int, plain: int
    ) -> None:
        """Keep the first message of a run, if there is room."""
        self._note(account, publisher, frame, count, plain)

    def _note(
        self, account: Account, publisher: Client | None, frame: Frame, count: int, taken: int
    ) -> None:
        if account is not self.account:
            return
        if publisher is not None and publisher.role == Role.WORKER:
            return  # its own worker shows it
        if not self._is_whole and not matches(frame.subject_bytes(), self.pattern):
            return
        self._seen += count
        if len(self._kept) < KEPT_MAX:
            shown = _shown(publisher, frame, taken)
            self._kept.append({"time": self._wall(), **shown})


class Tails:
    """The tails of one server, by the names that their pages gave them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tails: dict[str, tuple[Tail, Timer]] = {}

    def poll(self, name: str, account: Account, pattern: bytes) -> dict[str, Any] | None:
        """Return the messages since the last poll; None if there are too many tails.

        The first poll, and one with another account or pattern, begin a new tail, `has_begun`.
        """
        tail, timer = self._tails.get(name, (None, None))
        if timer is not None:
            timer.cancel()
        has_begun = tail is None or tail.account is not account or tail.pattern != pattern
        if tail is None or has_begun:
            self.end(name)
            if len(self._tails) >= TAILS_MAX:
                return None
            tail = Tail(account, pattern, self._broker.clock.wall)
            self._broker.watch_messages(tail)
        again = self._broker.clock.call_later(_FORGOTTEN_AFTER_S, self.end, name)
        self._tails[name] = tail, again
        return {**tail.take(), "has_begun": has_begun}

    def end(self, name: str) -> None:
        """End a tail."""
        tail, timer = self._tails.pop(name, (None, None))
        if timer is not None:
            timer.cancel()
        if tail is not None:
            self._broker.unwatch_messages(tail)

    def close(self) -> None:
        """End all."""
        for name in list(self._tails):
            self.end(name)


def _shown(publisher: Client | None, frame: Frame, taken: int) -> dict[str, Any]:
    reply, options = frame.reply_bytes(), getattr(publisher, "options", None)
    return {
        "subject": decode(frame.subject_bytes()),
        **payload_of(frame.payload_bytes(), _PAYLOAD_MAX_BYTES),
        "headers": headers_of(frame.header_bytes()),
        "reply": None if reply is None else decode(reply),
        "client": "" if options is None else options.name,
        "taken": taken,
    }
