"""The arguments of a control line: separate words, and sizes."""

_BLANKS = bytes.maketrans(b"\t\r\n", b"   ")

MAX_SIZE_DIGITS = 9
"""Most digits of a size: nine always fit a C int, so no size can overflow."""

_MAX_SIZE_DIGITS = MAX_SIZE_DIGITS


def split_arguments(arguments: bytes) -> list[bytes]:
    """Split the arguments of SUB and UNSUB at blanks, TABs, and stray CRs and LFs."""
    return [token for token in arguments.translate(_BLANKS).split(b" ") if token]


def parse_size(data: bytes | bytearray, start: int, end: int) -> int:
    """Parse the decimal number in ``data[start:end]``; -1 when it is malformed or too long."""
    if end == start or end - start > _MAX_SIZE_DIGITS:
        return -1
    number = 0
    for i in range(start, end):
        digit = data[i] - 0x30
        if digit < 0 or digit > 9:
            return -1
        number = number * 10 + digit
    return number
