"""Write JSON as Go's encoder does: ``<``, ``>``, ``&`` and the line separators escaped."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import msgspec

_ESCAPED = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
_SEPARATOR = b"\xe2\x80"  # what the two line separators begin with
_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))
_QUICK_ENCODER = msgspec.json.Encoder()


def encode(value: Any) -> bytes:
    """Return `value`, of dicts, lists, text, whole numbers and None, as Go would write it.

    Bytes that were no UTF-8 and came through as lone surrogates become U+FFFD.
    """
    try:
        written = _QUICK_ENCODER.encode(value)
    except UnicodeEncodeError:
        written = None
    if (
        written is None
        or b"<" in written
        or b">" in written
        or b"&" in written
        or _SEPARATOR in written
    ):
        return _ESCAPED.sub(_escape, _ENCODER.encode(value)).encode()
    return written


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return "\\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"


def text(raw: bytes) -> str:
    """Return bytes as text that `encode` takes, whatever they are."""
    return raw.decode("utf-8", "surrogateescape")


def blob(raw: bytes) -> str:
    """Return bytes as Go writes a ``[]byte``: base64 with padding."""
    return base64.b64encode(raw).decode("ascii")
