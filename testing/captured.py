"""A captured, recorded or stored message."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Captured:
    """One message, published or delivered."""

    subject: str
    payload: bytes
    headers: dict[str, list[str]] = field(default_factory=dict)
    reply: str | None = None
    client: str = ""
    """Name of the client that published or got it; empty for the process itself."""
    deliveries: int = 0
    """Number of subscriptions that have taken it."""
    stream: str = ""
    """Stream of a stored message."""
    seq: int = 0
    """Its sequence in the stream."""

    @property
    def text(self) -> str:
        """The payload as text; bytes that are not UTF-8 are shown as escapes."""
        return self.payload.decode("utf-8", "backslashreplace")

    @property
    def json(self) -> Any:
        """The payload, parsed as JSON. Raises: ValueError."""
        return json.loads(self.payload)
