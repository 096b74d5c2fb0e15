"""Write JSON as Go's encoder does: ``<``, ``>``, ``&`` and the line separators escaped."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

_ESCAPED = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))


def encode(value: Any) -> bytes:
    """Return `value`, of dicts, lists, text, numbers and None, as Go would write it.

    Bytes that were no UTF-8 and came through as lone surrogates become U+FFFD.
    """
    text = _ENCODER.encode(value)
    if _ESCAPED.search(text):
        text = _ESCAPED.sub(_escape, text)
    return text.encode()


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return "\\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"


def text(raw: bytes) -> str:
    """Return bytes as text that `encode` takes, whatever they are."""
    return raw.decode("utf-8", "surrogateescape")


def blob(raw: bytes) -> str:
    """Return bytes as Go writes a ``[]byte``: base64 with padding."""
    return base64.b64encode(raw).decode("ascii")
