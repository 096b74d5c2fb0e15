"""Exceptions of internal subscribers and observers: contained, counted, logged once in a while.

They come up in the middle of routing, where they would end the publisher's connection, which has
done nothing wrong, and cost the other receivers the message.
"""

import time
from collections.abc import Callable

from midge.server.log.logger import get_logger

SOURCES_MAX = 1024
"""Most sources that are counted separately; beyond it the counts start again."""

_LOG_INTERVAL_S = 60.0  # a fault that comes with each message would fill the log otherwise

log = get_logger()


class ContainedFaults:
    """Count the faults of one server; `count` is the total."""

    __slots__ = ("_logged_at", "_monotonic", "_suppressed", "count")

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.count = 0
        self._monotonic = monotonic
        self._logged_at: dict[str, float] = {}
        self._suppressed: dict[str, int] = {}

    def note(self, source: object, error: Exception) -> None:
        """Count `error`, which `source` has raised, and log it unless one of its own just was."""
        self.count += 1
        name = _name_of(source)
        now = self._monotonic()
        last = self._logged_at.get(name)
        if last is not None and now - last < _LOG_INTERVAL_S:
            self._suppressed[name] = self._suppressed.get(name, 0) + 1
            return
        if last is None and len(self._logged_at) >= SOURCES_MAX:
            self._logged_at.clear()
            self._suppressed.clear()
        self._logged_at[name] = now
        suppressed = self._suppressed.pop(name, 0)
        more = {"suppressed": suppressed} if suppressed else {}
        text = f"{type(error).__name__}: {error}"
        log.error("internal_receiver_failed", source=name, error=text, **more)


def _name_of(source: object) -> str:
    """Name a subscription by its class and subject, and anything else by its class."""
    kind = f"{type(source).__module__}.{type(source).__qualname__}"
    subject = getattr(source, "subject", None)
    return f"{kind} {subject.decode(errors='replace')}" if isinstance(subject, bytes) else kind
