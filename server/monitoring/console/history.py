"""The counts of the last hour, so that a page which is opened has something to draw."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from midge.server.monitoring import whole

if TYPE_CHECKING:
    from midge.server.clock import Timer
    from midge.server.monitoring.state import State

PERIOD_S = 10.0
_KEPT = 361  # samples: an hour has 360 periods
_FIELDS = ("in_messages", "out_messages", "in_bytes", "out_bytes", "connections", "mem")


class History:
    """Samples of the server's counts, one each `PERIOD_S`; all its workers are in them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._samples: deque[list[float]] = deque(maxlen=_KEPT)
        self._timer: Timer | None = None
        self._sampling: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Take a sample now, and one after each period."""
        self._sampling = asyncio.ensure_future(self._sample())
        self._timer = self._state.broker.clock.call_later(PERIOD_S, self.start)

    def stop(self) -> None:
        """Take no more samples."""
        if self._timer is not None and self._sampling is not None:
            self._timer.cancel()
            self._sampling.cancel()

    def page(self) -> dict[str, Any]:
        """Return the samples, oldest first: Unix time, and the counts by name."""
        return {"fields": ["time", *_FIELDS], "samples": list(self._samples)}

    async def _sample(self) -> None:
        totals = await whole.whole_totals(self._state)
        now = self._state.broker.clock.wall()
        self._samples.append([now, *(totals[field] for field in _FIELDS)])
