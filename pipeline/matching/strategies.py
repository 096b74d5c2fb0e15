"""The names of the matching strategies; `match` says what they do."""

from typing import Literal

Strategy = Literal["auto", "broadcast", "shuffle"]
STRATEGIES: tuple[Strategy, ...] = ("auto", "broadcast", "shuffle")

BROADCAST_MAX_PATTERNS = 250_000
"""Up to how many patterns `auto` broadcasts: each takes a worker some 700 bytes."""
