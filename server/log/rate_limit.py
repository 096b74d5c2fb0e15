"""Keep a single peer from filling the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

OFFENDERS_MAX = 1024
"""Most peers that are counted at a time; beyond that, all counts are cleared."""


class OffenderLimiter:
    """Admits a number of lines per second for each peer; counts the others.

    Peers are identified by address, without the port and without a proxy's header, because an
    attacker can vary both at no cost.
    """

    def __init__(self, lines_max_per_s: int, clock: Callable[[], float]) -> None:
        """Admit `lines_max_per_s` lines; 0 admits all. `clock` returns monotonic seconds."""
        self._lines_max_per_s = lines_max_per_s
        self._clock = clock
        self._seconds: dict[str, int] = {}
        self._lines: dict[str, int] = {}
        self.suppressed = 0

    def admit(self, peer: str, fields: dict[str, Any]) -> bool:
        """Return whether a line about `peer` may be written.

        The first line of a new second has the number of dropped lines in `suppressed`.
        """
        if self._lines_max_per_s == 0:
            return True
        address = peer.rpartition("/")[2].rpartition(":")[0] or peer
        second = int(self._clock())
        if self._seconds.get(address) != second:
            suppressed = self._lines.get(address, 0) - self._lines_max_per_s
            if suppressed > 0:
                fields["suppressed"] = suppressed
            self._begin(address, second)
        self._lines[address] += 1
        if self._lines[address] <= self._lines_max_per_s:
            return True
        self.suppressed += 1
        return False

    def _begin(self, address: str, second: int) -> None:
        if len(self._seconds) >= OFFENDERS_MAX and address not in self._seconds:
            self._seconds.clear()
            self._lines.clear()
        self._seconds[address] = second
        self._lines[address] = 0
