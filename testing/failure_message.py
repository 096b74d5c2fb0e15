"""The text of a capture's failed assertion: expected messages, captured ones, the difference."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING

from midge.testing.wanted import ANYTHING, CountResult

if TYPE_CHECKING:
    from midge.testing.captured import Captured
    from midge.testing.wanted import Wanted

_SHOWN_MAX = 20
_PAYLOAD_MAX_BYTES = 80
_DIFFERENCE_MAX_LINES = 40


def explain(wanted: Wanted, everything: list[Captured]) -> str:
    """Return the text of a failure: the `wanted` messages, and `everything` captured."""
    what, near = wanted.what, wanted.matching(everything)
    right = [message for message in near if wanted.holds(message)]
    lines = [f"expected {_expected(wanted)}, got {len(right) or 'none'}"]
    if not everything:
        return f"{lines[0]}\nnothing was {what}"
    lines.append(f"{what} ({len(everything)} in all; = as expected, ~ only the subject is):")
    hidden = len(everything) - _SHOWN_MAX
    if hidden > 0:
        lines.append(f"    … {hidden} before")
    for message in everything[-_SHOWN_MAX:]:
        mark = "=" if message in right else "~" if message in near else " "
        lines.append(f"  {mark} {_line(what, message)}")
    missing = [message for message in near if not wanted.holds(message)]
    if missing and wanted.judge(everything) is CountResult.TOO_FEW:
        lines += _difference(wanted, missing)
    return "\n".join(lines)


def _expected(wanted: Wanted) -> str:
    """Describe the wanted messages, and their number."""
    messages = "at least 1 message" if wanted.count is None else _messages(wanted.count)
    more = f" and no more within {wanted.quiet_s:g} s" if wanted.quiet_s else ""
    return f"{messages} {wanted.what} {_described(wanted)}{more}"


def _messages(count: int) -> str:
    return "no message" if count == 0 else "1 message" if count == 1 else f"{count} messages"


def _described(wanted: Wanted) -> str:
    """Describe the wanted messages."""
    parts = [f"on {wanted.pattern!r}"]
    if wanted.to is not None:
        parts.append(f"to client {wanted.to!r}")
    if wanted.stream is not None:
        parts.append(f"in stream {wanted.stream!r}")
    if wanted.payload is not None:
        parts.append(f"with payload {_shown(wanted.payload)}")
    if wanted.headers:
        parts.append(f"with headers {wanted.headers}")
    if wanted.json is not ANYTHING:
        parts.append(f"with JSON {json.dumps(wanted.json, default=repr)}")
    if wanted.where is not None:
        parts.append(f"where {getattr(wanted.where, '__name__', wanted.where)}")
    return " ".join(parts)


def _line(what: str, message: Captured) -> str:
    """Return one line about a message."""
    parts = [f"{message.subject}  {_shown(message.payload)}"]
    if message.headers:
        parts.append(f"headers {message.headers}")
    if message.reply:
        parts.append(f"reply {message.reply}")
    if message.client:
        parts.append(f"{'to' if what == 'delivered' else 'from'} {message.client}")
    if message.stream:
        parts.append(f"in {message.stream} as {message.seq}")
    if what == "published":
        parts.append(f"taken by {message.deliveries or 'nobody'}")
    return "  ".join(parts)


def _difference(wanted: Wanted, missing: list[Captured]) -> list[str]:
    """Return the difference between the expected message and the most similar captured one."""
    payload = wanted.payload
    if payload is None and wanted.json is not ANYTHING:
        payload = json.dumps(wanted.json, default=repr).encode()
    if payload is None:
        return []
    expected = _lines(payload)
    nearest = max(missing, key=lambda one: _likeness(expected, _lines(one.payload)))
    got = _lines(nearest.payload)
    if nearest.payload == payload or (wanted.payload is None and got == expected):
        return []
    if got == expected:  # equal JSON, formatted differently
        expected, got = [repr(payload)], [repr(nearest.payload)]
    shown = list(difflib.ndiff(expected, got))[:_DIFFERENCE_MAX_LINES]
    head = f"the nearest, on {nearest.subject!r} (- expected, + got):"
    return [head, *(f"    {line.rstrip()}" for line in shown)]


def _likeness(expected: list[str], got: list[str]) -> float:
    return difflib.SequenceMatcher(None, "\n".join(expected), "\n".join(got)).quick_ratio()


def _lines(payload: bytes) -> list[str]:
    """Return a payload as lines to compare: JSON with one line per field, bytes as escapes."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return [repr(payload)]
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text.splitlines()
    if not isinstance(document, dict | list):
        return text.splitlines()
    return json.dumps(document, indent=2, ensure_ascii=False).splitlines()


def _shown(payload: bytes) -> str:
    more = len(payload) - _PAYLOAD_MAX_BYTES
    rest = f" and {more} bytes more" if more > 0 else ""
    return f"{payload[:_PAYLOAD_MAX_BYTES]!r}{rest}"
