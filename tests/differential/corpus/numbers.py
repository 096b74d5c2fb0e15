"""Sizes and limits on the wire: plain ASCII digits, nine at most, handed on as they were."""

from tests.differential.script import Script, connect, group, script, sub

_SIZES = {
    "leading-zero": b"01",
    "two-leading-zeros": b"001",
    "nine-digits": b"000000001",
    "ten-digits": b"0000000001",
    "minus": b"-1",
    "minus-zero": b"-0",
    "plus": b"+1",
    "fraction": b"1.0",
    "hexadecimal": b"0x1",
    "underscore": b"1_0",
    "exponent": b"1e0",
    "text": b"abc",
    "digit-then-text": b"1x",
    "text-then-digit": b"x1",
    "arabic-digit": "\u0661".encode(),
    "fullwidth-digit": "\uff11".encode(),
    "superscript": "¹".encode(),
    "nul": b"1\x00",
    "twenty-digits": b"18446744073709551617",
    "thousand-digits": b"1" * 1000,
    "four-gigabytes-and-one": b"4294967297",
}


def _published(name: str, size: bytes) -> Script:
    why = "a size is one to nine ASCII digits; anything else closes without a word"
    frame = b"PUB n.a " + size + b"\r\nx\r\n"
    return script(name, why, connect() + sub(b"n.a") + frame)


def _with_headers(name: str, size: bytes, *, total: bool) -> Script:
    why = "both sizes of HPUB follow the rule for PUB"
    sizes = b"1 " + size if total else size + b" 1"
    part = "total" if total else "header"
    frame = b"HPUB n.a " + sizes + b"\r\nx\r\n"
    return script(f"{part}-{name}", why, connect(headers=True) + sub(b"n.a") + frame)


def _unsubscribed(name: str, maximum: bytes) -> Script:
    why = "a maximum that is no such number means: now"
    lines = sub(b"n.a") + b"UNSUB 1 " + maximum + b"\r\n"
    return script(name, why, connect() + lines + b"PUB n.a 1\r\nx\r\n" * 3)


SCRIPTS = (
    *group("numbers/pub", *(_published(*each) for each in _SIZES.items())),
    *group("numbers/hpub", *(_with_headers(*each, total=True) for each in _SIZES.items())),
    *group("numbers/hpub", *(_with_headers(*each, total=False) for each in _SIZES.items())),
    *group(
        "numbers/unsub",
        *(_unsubscribed(*each) for each in _SIZES.items()),
        _unsubscribed("zero", b"0"),
        _unsubscribed("one", b"1"),
        _unsubscribed("two", b"2"),
        _unsubscribed("three-with-zeros", b"003"),
    ),
    *group(
        "numbers/pub",
        script("zero", "nothing to carry", connect() + sub(b"n.a") + b"PUB n.a 00\r\n\r\n"),
        script(
            "size-is-reply", "only the last argument is a size", connect() + b"PUB n.a 1 x\r\nx\r\n"
        ),
    ),
)
