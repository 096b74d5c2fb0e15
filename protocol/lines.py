"""Find the parts of a PUB line, and write the parts of a MSG line, without a branch for each byte.

If subjects and sizes change with every message, the processor cannot predict how many steps a loop
over their bytes takes, and each wrong prediction costs as much as some 60 instructions.

This module is the interpreted twin of ``lines.pxd``, whose C functions the compiled modules inline.
"""

import re

from midge.protocol.frame import Frame

_TOKEN = re.compile(rb"[^\x00-\x20]*")
_BLANK = re.compile(rb"[ \t\r\n]")
_SIZE = re.compile(rb"[0-9]{1,7}(?![0-9])")


LOOSE_BYTES = 64
"""How many bytes `write_loosely` may read and write beyond the end of a piece that it copies."""


def is_publish(data: bytearray, start: int) -> bool:
    """Return whether the four bytes at `start` are ``PUB`` and a blank."""
    return data[start : start + 4] == b"PUB "


def token_end(data: bytearray, start: int, end: int) -> int:
    """Return the index of the first blank or control character from `start` on, or `end`."""
    found = _TOKEN.match(data, start, end)
    assert found is not None, "it matches nothing as well"
    return found.end()


def has_blank(data: bytes | bytearray, start: int, end: int) -> bool:
    """Return whether ``data[start:end]`` holds a blank, TAB, CR or LF, which end an argument."""
    return _BLANK.search(data, start, end) is not None


def size_at(data: bytearray, start: int, end: int) -> int:
    """Return the number at `start`, times 8, plus the count of its digits, 1 to 7.

    Returns 0 without a number, with more digits, or if too few bytes for a line end follow.
    """
    found = _SIZE.match(data, start, end)
    if found is None or end - start < 8:
        return 0
    return int(found[0]) * 8 + found.end() - start


def write_loosely(target: bytearray, at: int, verb: bytes, frame: Frame, sid: bytes) -> None:
    """Write `frame` at `at` as the message with `verb` that delivers it to `sid`.

    Up to LOOSE_BYTES of `target` behind the message may be overwritten, and up to as many bytes of
    the frame's buffer behind the frame are read.
    """
    data, base = frame.data, frame.base
    subject = data[base + frame.subject_start : base + frame.subject_end]
    tail = data[base + frame.tail : base + frame.end]
    line = b"".join((verb, subject, b" ", sid, b" ", tail))
    target[at : at + len(line)] = line
