"""The texts of -ERR quote subjects as Go does."""

from __future__ import annotations

import pytest

from midge.protocol import errors
from midge.protocol.errors import MidgeError, ProtocolError, quote


@pytest.mark.parametrize(
    ("raw", "quoted"),
    [
        (b"", '""'),
        (b"a.b", '"a.b"'),
        (b'a"b\\c', r'"a\"b\\c"'),
        (b"\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        (b"\x00\x1f\x7f", r'"\x00\x1f\x7f"'),
        (b"\xff\xc3", r'"\xff\xc3"'),
        (b"\xed\xa0\x80", r'"\xed\xa0\x80"'),
        ("ä€😀".encode(), '"ä€😀"'),
        ("\u00a0\u200b\u2028".encode(), r'"\u00a0\u200b\u2028"'),
        ("\U000e0001".encode(), r'"\U000e0001"'),
        (b"'%s'", "\"'%s'\""),
    ],
)
def test_quote(raw: bytes, quoted: str) -> None:
    assert quote(raw) == quoted


def test_texts() -> None:
    assert errors.publish_violation(b'a"') == r'Permissions Violation for Publish to "a\""'
    assert errors.reply_violation(b"r") == 'Permissions Violation for Publish with Reply of "r"'
    text = errors.subscription_violation(b"a")
    assert text == 'Permissions Violation for Subscription to "a"'
    assert errors.subscription_violation(b"a", b"q") == f'{text} using queue "q"'
    assert errors.too_many_tokens(b"a") == f"{text}, too many tokens"
    assert errors.removed_subscription(b"a", None, b"1") == f'{text} (sid "1")'
    assert errors.removed_subscription(b"a", b"q", b"1") == f'{text} using queue "q" (sid "1")'


def test_protocol_error() -> None:
    error = ProtocolError(errors.MAXIMUM_PAYLOAD, "9 bytes")
    assert isinstance(error, MidgeError)
    assert (error.wire, error.detail, str(error)) == (errors.MAXIMUM_PAYLOAD, "9 bytes", "9 bytes")
    assert ProtocolError(errors.STALE_CONNECTION).detail == errors.STALE_CONNECTION
    silent = ProtocolError(None)
    assert (silent.wire, str(silent)) == (None, "protocol error")
