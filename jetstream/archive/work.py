"""Work that transfers do in turns, and their subjects."""

from __future__ import annotations

from collections.abc import Callable

RESTORE_PREFIX = b"$JS.SNAPSHOT.RESTORE."
ACK_PREFIX = b"$JS.SNAPSHOT.ACK."

Work = Callable[[int], int]
"""Does work for about so many bytes; returns what it took."""

WaitTurn = Callable[[Work, int], object]
"""Has work done in one of the next turns of the loop, for at most so many bytes."""

SENDING_BYTES = 256 << 10
"""Work of one turn for a snapshot: some 0.3 ms. With twice as much a snapshot takes a tenth less
time, and messages of others wait 0.45 ms, not 0.26."""

RECEIVING_BYTES = 64 << 10
"""The same for a restore: some 2 ms."""
