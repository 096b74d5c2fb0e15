"""What was published to a server, kept for assertions: like pytest's caplog, for messages."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from midge.protocol.headers import parse_headers
from midge.server.hub import Observer
from midge.sublist.subjects import is_valid_subject, matches

if TYPE_CHECKING:
    from midge.protocol.frame import Frame
    from midge.server.account import Account
    from midge.server.client import Client

KEPT_MAX = 100_000
"""Messages that a capture keeps; the oldest go first."""

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Captured:
    """One published message."""

    subject: str
    payload: bytes
    headers: dict[str, list[str]] = field(default_factory=dict)
    reply: str | None = None
    client: str = ""
    """Name of the client that published it; empty for the process itself."""
    deliveries: int = 0
    """How many subscriptions have taken it."""

    def __str__(self) -> str:
        reply = f" reply={self.reply}" if self.reply else ""
        headers = f" headers={self.headers}" if self.headers else ""
        return f"{self.subject} {self.payload[:80]!r}{headers}{reply} -> {self.deliveries}"


class Capture(Observer):
    """Everything published while it watches; safe to read from any thread."""

    def __init__(self) -> None:
        self._messages: deque[Captured] = deque(maxlen=KEPT_MAX)
        self._changed = threading.Condition(threading.RLock())

    def message_routed(
        self, account: Account, publisher: Client | None, frame: Frame, plain: int, queued: int
    ) -> None:
        """Keep a message."""
        block, reply = frame.header_bytes(), frame.reply_bytes()
        options = getattr(publisher, "options", None)
        message = Captured(
            subject=_decode(frame.subject_bytes()),
            payload=frame.payload_bytes(),
            headers={} if block is None else parse_headers(block),
            reply=None if reply is None else _decode(reply),
            client="" if options is None else options.name,
            deliveries=plain + queued,
        )
        with self._changed:
            self._messages.append(message)
            self._changed.notify_all()

    @property
    def messages(self) -> list[Captured]:
        """All messages so far, oldest first."""
        with self._changed:
            return list(self._messages)

    def matching(self, pattern: str) -> list[Captured]:
        """Return the messages whose subjects `pattern` stands for."""
        raw = pattern.encode("utf-8", "surrogateescape")
        if not is_valid_subject(raw):
            raise ValueError(f"pattern: expected tokens separated by dots, got {pattern!r}")
        return [message for message in self.messages if matches(_encode(message.subject), raw)]

    def clear(self) -> None:
        """Forget everything so far."""
        with self._changed:
            self._messages.clear()

    def assert_published(
        self,
        pattern: str,
        *,
        count: int | None = None,
        payload: bytes | str | None = None,
        timeout_s: float = 1.0,
    ) -> list[Captured]:
        """Return the messages that match, or fail with what was published instead.

        Without `count` one or more must match. What a client has sent may still be on its way, so
        this waits for it, at most `timeout_s`; it blocks the thread, so in an async test flush the
        client before.
        """
        __tracebackhide__ = True
        wanted = payload.encode() if isinstance(payload, str) else payload
        found: list[Captured] = []

        def is_there() -> bool:
            nonlocal found
            found = [one for one in self.matching(pattern) if wanted in (None, one.payload)]
            return len(found) == count if count is not None else bool(found)

        with self._changed:
            holds = self._changed.wait_for(is_there, timeout_s)
        if not holds:
            raise AssertionError(self._explain(pattern, count, wanted, found))
        return found

    def assert_nothing_published(self, pattern: str = ">") -> None:
        """Fail when anything that matches was published so far.

        It does not wait: a client's messages may still be on their way, so flush it before.
        """
        self.assert_published(pattern, count=0)

    def _explain(
        self, pattern: str, count: int | None, payload: bytes | None, found: list[Captured]
    ) -> str:
        """Show what was expected, and what there was, marking what came close."""
        number = "at least 1" if count is None else str(count)
        with_payload = "" if payload is None else f" with payload {payload!r}"
        lines = [f"expected {number} on {pattern!r}{with_payload}, got {len(found)}"]
        near = self.matching(pattern)
        everything = self.messages
        lines.append(f"published ({len(everything)}; + counts, ~ other payload):")
        for message in everything[-_SHOWN:]:
            mark = "+" if message in found else "~" if message in near else " "
            lines.append(f"  {mark} {message}")
        if len(everything) > _SHOWN:
            lines.append(f"  … and {len(everything) - _SHOWN} before")
        return "\n".join(lines)


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
