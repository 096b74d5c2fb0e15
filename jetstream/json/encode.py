"""Write JSON as Go's encoder does, ``<``, ``>``, ``&`` and the line separators escaped; read it."""

from __future__ import annotations

import base64
import re
from typing import Any

import msgspec

_ESCAPED = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
_ESCAPES = {
    b"<": b"\\u003c",
    b">": b"\\u003e",
    b"&": b"\\u0026",
    "\u2028".encode(): b"\\u2028",
    "\u2029".encode(): b"\\u2029",
}
_LESS, _GREATER, _AND = b"<>&"  # numbers: to look for bytes in bytes, CPython raises and catches
_SEPARATOR = 0xE2  # what the two line separators begin with
_QUICK_ENCODER = msgspec.json.Encoder()


def encode(value: Any) -> bytes:
    """Return `value`, of dicts, lists, text, whole numbers and None, as Go would write it.

    Bytes that were no UTF-8 and came through as lone surrogates become U+FFFD.
    """
    try:
        written = _QUICK_ENCODER.encode(value)
    except UnicodeEncodeError:
        import json  # noqa: PLC0415 - a millisecond, for text that is not UTF-8

        text = json.dumps(value, ensure_ascii=False, check_circular=False, separators=(",", ":"))
        return _ESCAPED.sub(_escape, text).encode()
    if _GREATER in written or _LESS in written or _AND in written or _SEPARATOR in written:
        for plain, escaped in _ESCAPES.items():  # none of them stands outside of texts
            written = written.replace(plain, escaped)
    return written


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return "\\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"


def decode(written: bytes) -> Any:
    """Return the value in JSON that `encode` or another JSON writer has written.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return msgspec.json.decode(written)
    except msgspec.MsgspecError:
        import json  # noqa: PLC0415 - as above; it also takes what msgspec refuses

        return json.loads(written)


def text(raw: bytes) -> str:
    """Return bytes as text that `encode` takes, whatever they are."""
    return raw.decode("utf-8", "surrogateescape")


def blob(raw: bytes) -> str:
    """Return bytes as Go writes a ``[]byte``: base64 with padding."""
    return base64.b64encode(raw).decode("ascii")
