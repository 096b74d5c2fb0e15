"""The subjects that messages are acknowledged to: written for a delivery, read from an ack.

The usual form is ``$JS.ACK.<stream>.<consumer>.<deliveries>.<stream sequence>.<consumer
sequence>.<time>.<pending>``. The second one has the domain and a hash of the account before the
stream, and may have further tokens behind.
"""

from midge.protocol import digits, lines, memory
from midge.protocol.errors import UnsendableError

_NUMBERS_MAX_BYTES = 5 * 21  # twenty digits and a dot each
_SECOND_NS = 1_000_000_000
_DOT = 0x2E
_ZERO = 0x30
_NINE = 0x39
_DOTS = 8
_DOTS_SECOND = 10
_DIGITS_MAX = 19  # what fits 64 bits for sure


class AckSubject:
    """The ack subjects of one consumer: `prefix` is the part before the numbers.

    The last composed subject is ``text[:end]``.
    """

    __slots__ = ("_prefix_size", "end", "text")

    def __init__(self, prefix: bytes) -> None:
        """Look once at what every ack subject of the consumer begins with.

        Raises:
            UnsendableError: no line can carry such a subject.
        """
        if lines.has_blank(prefix, 0, len(prefix)):
            raise UnsendableError("the name of a stream or a consumer holds a blank or a line end")
        self._prefix_size = len(prefix)
        self.text = bytearray(prefix) + bytearray(_NUMBERS_MAX_BYTES)
        self.end = 0

    def compose(
        self, deliveries: int, seq: int, consumer_seq: int, time_ns: int, pending: int
    ) -> None:
        """Write the subject by which one delivery is acknowledged; its time is after 1970."""
        text = self.text
        at = digits.write_number(text, self._prefix_size, deliveries)
        text[at] = _DOT
        at = digits.write_number(text, at + 1, seq)
        text[at] = _DOT
        at = digits.write_number(text, at + 1, consumer_seq)
        text[at] = _DOT
        second = time_ns // _SECOND_NS
        at = digits.write_number(text, at + 1, second)
        at = digits.write_nine(text, at, time_ns - second * _SECOND_NS)
        text[at] = _DOT
        self.end = digits.write_number(text, at + 1, pending)

    def copied(self) -> bytes:
        """Return the latest subject as an object of its own."""
        return memory.take(self.text, 0, self.end)


class AckNumbers:
    """The numbers read from an ack subject; all are 0 when it is not one."""

    __slots__ = ("consumer_seq", "deliveries", "seq")

    def __init__(self) -> None:
        self.deliveries = 0
        self.seq = 0
        self.consumer_seq = 0

    def read_from(self, data: bytes | bytearray, at: int, end: int) -> int:
        """Read the numbers that begin at `at`; return how many tokens ``data[at:end]`` has."""
        self.deliveries = read_number(data, at, end)
        after = next_token(data, at, end)
        self.seq = read_number(data, after, end)
        after = next_token(data, after, end)
        self.consumer_seq = read_number(data, after, end)
        return tokens_from(data, at, end)

    def read(self, subject: bytes) -> None:
        """Read `subject`. A token that is not a number counts as one beyond all sequences."""
        self.deliveries = 0
        self.seq = 0
        self.consumer_seq = 0
        data = subject
        length = len(subject)
        dots = 0
        for i in range(length):
            dots += data[i] == _DOT
        if dots != _DOTS and dots < _DOTS_SECOND:
            return
        skipped = 4 if dots == _DOTS else 6
        at = 0
        while skipped:
            skipped -= data[at] == _DOT
            at += 1
        self.read_from(data, at, length)


def tokens_from(data: bytes | bytearray, at: int, end: int) -> int:
    """Count the tokens of ``data[at:end]``."""
    count = 1
    while at < end:
        count += data[at] == _DOT
        at += 1
    return count


def next_token(data: bytes | bytearray, at: int, end: int) -> int:
    """Return where the token after the one at `at` begins."""
    while at < end and data[at] != _DOT:
        at += 1
    return at + 1


def read_number(data: bytes | bytearray, at: int, end: int) -> int:
    """Return the token at `at` as a number; the largest of 64 bits if it is not a number."""
    value = 0
    digits = 0
    while at < end and data[at] != _DOT:
        if data[at] < _ZERO or data[at] > _NINE or digits == _DIGITS_MAX:
            return 0xFFFFFFFFFFFFFFFF
        value = value * 10 + data[at] - _ZERO
        digits += 1
        at += 1
    return value if digits else 0xFFFFFFFFFFFFFFFF
