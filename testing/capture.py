"""What was published to a server, and delivered to its clients, kept for assertions.

Like pytest's caplog, for messages.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from midge.protocol.headers import parse_headers
from midge.protocol.text import decode, encode
from midge.server.broker.broker import Observer
from midge.sublist.subjects import is_valid_subject, matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from midge.protocol.frame import Frame
    from midge.server.clients.connection import Connection
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client

KEPT_MAX = 100_000
"""Messages that a capture keeps of either kind; the oldest go first."""


@dataclass(frozen=True, slots=True)
class Captured:
    """One message, published or delivered."""

    subject: str
    payload: bytes
    headers: dict[str, list[str]] = field(default_factory=dict)
    reply: str | None = None
    client: str = ""
    """Name of the client that published it, or got it; empty for the process itself."""
    deliveries: int = 0
    """How many subscriptions have taken it."""

    @property
    def text(self) -> str:
        """The payload as text; bytes that are no UTF-8 are shown as escapes."""
        return self.payload.decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an assertion looks for."""

    pattern: str
    payload: bytes | None = None
    headers: dict[str, list[str]] | None = None
    to: str | None = None

    def holds(self, message: Captured) -> bool:
        """Tell whether a message, whose subject matches already, is what is looked for."""
        return (
            self.payload in (None, message.payload)
            and self.to in (None, message.client)
            and all(
                message.headers.get(name) == values for name, values in (self.headers or {}).items()
            )
        )


class Capture(Observer):
    """Everything published, and delivered to clients, while it watches; safe from any thread."""

    def __init__(self) -> None:
        self._published: deque[Captured] = deque(maxlen=KEPT_MAX)
        self._delivered: deque[Captured] = deque(maxlen=KEPT_MAX)
        self._changed = threading.Condition(threading.RLock())

    # What it sees, in the server's thread.

    def message_routed(
        self, account: Account, publisher: Client | None, frame: Frame, plain: int, queued: int
    ) -> None:
        """Keep a published message."""
        self._keep(self._published, _captured(frame, publisher, plain + queued))

    def message_delivered(self, connection: Connection, frame: Frame) -> None:
        """Keep what a client gets."""
        self._keep(self._delivered, _captured(frame, connection, 1))

    def _keep(self, messages: deque[Captured], message: Captured) -> None:
        with self._changed:
            messages.append(message)
            self._changed.notify_all()

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

    def matching(self, pattern: str) -> list[Captured]:
        """Return the published messages whose subjects `pattern` stands for."""
        return _matching(self.messages, pattern)

    def clear(self) -> None:
        """Forget everything so far."""
        with self._changed:
            self._published.clear()
            self._delivered.clear()

    def assert_published(
        self,
        pattern: str,
        *,
        count: int | None = None,
        payload: bytes | str | None = None,
        headers: Mapping[str, str | list[str]] | None = None,
        timeout_s: float = 1.0,
    ) -> list[Captured]:
        """Return the published messages that match, or fail with what there was instead.

        Without `count` one or more must match; `headers` names those that must be there, among
        others. What a client has sent may still be on its way, so this waits for it, at most
        `timeout_s`; it blocks the thread, so in an async test flush the client before.
        """
        __tracebackhide__ = True
        wanted = Wanted(pattern, _payload(payload), _headers(headers))
        return self._expect("published", self._published, wanted, count, timeout_s)

    def assert_delivered(
        self,
        pattern: str,
        *,
        to: str | None = None,
        count: int | None = None,
        payload: bytes | str | None = None,
        headers: Mapping[str, str | list[str]] | None = None,
        timeout_s: float = 1.0,
    ) -> list[Captured]:
        """Return the deliveries to clients that match, or to the one called `to`; else fail.

        As `assert_published`; a message counts once for each subscription that it is written to.
        """
        __tracebackhide__ = True
        wanted = Wanted(pattern, _payload(payload), _headers(headers), to)
        return self._expect("delivered", self._delivered, wanted, count, timeout_s)

    def assert_nothing_published(self, pattern: str = ">") -> None:
        """Fail when anything that matches was published so far.

        It does not wait: a client's messages may still be on their way, so flush it before.
        """
        __tracebackhide__ = True
        self.assert_published(pattern, count=0)

    def assert_nothing_delivered(self, pattern: str = ">", *, to: str | None = None) -> None:
        """Fail when anything that matches was delivered, or delivered to `to`."""
        __tracebackhide__ = True
        self.assert_delivered(pattern, to=to, count=0)

    def _expect(
        self,
        what: str,
        messages: Iterable[Captured],
        wanted: Wanted,
        count: int | None,
        timeout_s: float,
    ) -> list[Captured]:
        __tracebackhide__ = True
        found: list[Captured] = []

        def is_there() -> bool:
            nonlocal found
            found = [one for one in _matching(messages, wanted.pattern) if wanted.holds(one)]
            return len(found) == count if count is not None else bool(found)

        with self._changed:
            if self._changed.wait_for(is_there, timeout_s):
                return found
            everything = list(messages)
        from midge.testing.failure_message import explain  # noqa: PLC0415 - only who fails needs it

        near = _matching(everything, wanted.pattern)
        raise AssertionError(explain(what, wanted, count, everything, near))


def _matching(messages: Iterable[Captured], pattern: str) -> list[Captured]:
    raw = encode(pattern)
    if not is_valid_subject(raw):
        raise ValueError(f"pattern: expected tokens separated by dots, got {pattern!r}")
    return [message for message in messages if matches(encode(message.subject), raw)]


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


def _payload(payload: bytes | str | None) -> bytes | None:
    return payload.encode() if isinstance(payload, str) else payload


def _headers(headers: Mapping[str, str | list[str]] | None) -> dict[str, list[str]] | None:
    if headers is None:
        return None
    return {name: [one] if isinstance(one, str) else one for name, one in headers.items()}
