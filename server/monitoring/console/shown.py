"""Messages as the console's page gets them."""

from __future__ import annotations

import base64
from typing import Any

from midge.protocol.headers import parse_headers

_CHARACTER_MAX_BYTES = 4


def payload_of(payload: bytes, limit_bytes: int) -> dict[str, Any]:
    """Return a payload as text, or else as base64, cut off at `limit_bytes`."""
    kept, is_cut = payload[:limit_bytes], len(payload) > limit_bytes
    shown: dict[str, Any] = {"size": len(payload), "cut": is_cut}
    text = _as_text(kept, is_cut=is_cut)
    if text is None:
        shown["base64"] = base64.b64encode(kept).decode()
    else:
        shown["text"] = text
    return shown


def headers_of(block: bytes | None) -> dict[str, list[str]]:
    """Return the headers of a block by name."""
    return parse_headers(block) if block else {}


def _as_text(data: bytes, *, is_cut: bool) -> str | None:
    """Return `data` as text, without the part of a character that was cut off; None for bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if is_cut and len(data) - error.start < _CHARACTER_MAX_BYTES:
            return data[: error.start].decode()
        return None
