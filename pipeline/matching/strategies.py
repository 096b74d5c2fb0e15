"""The names of the matching strategies, which `match` describes."""

from typing import Literal

Strategy = Literal["auto", "broadcast", "shuffle"]
STRATEGIES: tuple[Strategy, ...] = ("auto", "broadcast", "shuffle")

BROADCAST_MAX_PATTERNS = 250_000
"""Most patterns that `auto` broadcasts; each takes some 700 bytes in a worker."""
