"""Decimal digits, written between other bytes without an object for each number.

This module is the interpreted twin of ``digits.pxd``, whose C functions the compiled modules
inline: two digits a step from a table. Those that write into a buffer check no bounds: callers have
room for 20 digits.
"""


def write_number(target: bytearray, at: int, value: int) -> int:
    """Write the digits of `value`, not negative, into `target` at `at`; return where they end."""
    text = b"%d" % value
    end = at + len(text)
    target[at:end] = text
    return end


def write_nine(target: bytearray, at: int, value: int) -> int:
    """Write `value`, below a thousand million, with leading zeros; return where it ends."""
    target[at : at + 9] = b"%09d" % value
    return at + 9


def with_number(head: bytes, value: int, last: int) -> bytes:
    """Return `head`, the digits of `value`, not negative, and the byte `last` in one object."""
    return head + b"%d%c" % (value, last)
