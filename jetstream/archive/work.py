"""Work that transfers do in turns."""

from __future__ import annotations

from collections.abc import Callable

Work = Callable[[int], int]
"""Does work for about so many bytes; returns what it took."""
