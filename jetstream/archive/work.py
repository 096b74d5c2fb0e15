"""The work of transfers, which is done in pieces, and their subjects."""

from __future__ import annotations

from collections.abc import Callable

RESTORE_PREFIX = b"$JS.SNAPSHOT.RESTORE."
ACK_PREFIX = b"$JS.SNAPSHOT.ACK."

Work = Callable[[int], int]
"""Does work for about as many bytes as its argument; returns the cost."""

WaitTurn = Callable[[Work, int], object]
"""Schedules work for one of the next turns of the loop, with the most bytes of a piece."""

SENDING_BYTES = 256 << 10
"""Work of one turn for a snapshot: some 0.3 ms. With twice as much a snapshot takes a tenth less
time, and messages of others wait 0.45 ms, not 0.26."""

RECEIVING_BYTES = 64 << 10
"""The same for a restore: some 2 ms."""
