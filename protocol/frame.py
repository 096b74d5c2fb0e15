"""One published message, in the buffer that it was read into.

The tail of a PUB frame *is* the tail of the MSG frame that delivers it: both end in
``[reply] size⏎payload⏎``. So a delivery is a short prefix and one copy of these bytes, and a frame
only records where they are.
"""

from midge.protocol import memory
from midge.protocol.errors import UnsendableError

_NO_HEADERS = -1

_SPACE = 0x20
_TAB = 0x09
_LF = 0x0A
_CR = 0x0D

_SMALL_COUNT = 1024
_SMALL_SIZES = tuple(b"%d" % size for size in range(_SMALL_COUNT))
"""Decimal text of the usual sizes, made once."""


class Frame:
    """A PUB or HPUB in `data`, as offsets from `base`, where its verb starts.

    ``data[base + tail:base + end]`` is the part that deliveries copy, from the reply or the size up
    to the last CR LF. `header_size` is -1 for a PUB. `size` counts header and payload, in bytes.
    `repeated` is set when the control line equals the previous frame's on this connection byte for
    byte. A frame is valid only while it is being handled, because its buffer is reused.
    """

    __slots__ = (
        "base",
        "buffer",
        "data",
        "end",
        "header_size",
        "payload",
        "repeated",
        "reply_end",
        "reply_start",
        "size",
        "subject_end",
        "subject_start",
        "tail",
    )

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.data = self.buffer
        self.base = 0
        self.subject_start = 0
        self.subject_end = 0
        self.reply_start = 0
        self.reply_end = 0
        self.tail = 0
        self.header_size = _NO_HEADERS
        self.size = 0
        self.payload = 0
        self.end = 0
        self.repeated = False

    def subject_bytes(self) -> bytes:
        """Copy the subject out."""
        return memory.take(self.data, self.base + self.subject_start, self.base + self.subject_end)

    def reply_bytes(self) -> bytes | None:
        """Copy the reply subject out; None without one."""
        if self.reply_end == self.reply_start:
            return None
        return memory.take(self.data, self.base + self.reply_start, self.base + self.reply_end)

    def header_bytes(self) -> bytes | None:
        """Copy the header block out, its final blank line included; None for a PUB."""
        if self.header_size < 0:
            return None
        start = self.base + self.payload
        return memory.take(self.data, start, start + self.header_size)

    def payload_bytes(self) -> bytes:
        """Copy the payload out, without the header."""
        start = self.base + self.payload
        header = max(0, self.header_size)
        return memory.take(self.data, start + header, start + self.size)

    def has_reply(self) -> bool:
        """Return whether the message has a reply subject."""
        return self.reply_end > self.reply_start


def compose(
    subject: bytes, payload: bytes, reply: bytes | None = None, headers: bytes | None = None
) -> Frame:
    """Make a frame from its parts.

    `headers` is a whole header block, its blank line included.

    Raises:
        UnsendableError: `subject` or `reply` would end its line, or begin another argument.
    """
    if _holds_blank(subject) or (reply is not None and _holds_blank(reply)):
        raise UnsendableError("a subject holds a blank, TAB, CR or LF")
    size = len(payload)
    if headers is None:
        sizes = _SMALL_SIZES[size] if size < _SMALL_COUNT else b"%d" % size
        return _assemble(subject, reply, sizes, b"", payload, _NO_HEADERS)
    sizes = b"%d %d" % (len(headers), len(headers) + size)
    return _assemble(subject, reply, sizes, headers, payload, len(headers))


def without_headers(frame: Frame) -> Frame:
    """Return `frame` for a receiver that does not support headers: a PUB of the payload alone."""
    return compose(frame.subject_bytes(), frame.payload_bytes(), frame.reply_bytes())


def with_subject(frame: Frame, subject: bytes) -> Frame:
    """Return `frame` as if it had been published to `subject`."""
    return compose(subject, frame.payload_bytes(), frame.reply_bytes(), frame.header_bytes())


def rewritten(frame: Frame, line_end: int) -> Frame:
    """Return a frame in canonical form.

    It has single blanks and CR LF, and is a PUB without headers. The sizes keep their digits
    as written. `line_end` is where the arguments of the control line end, as an offset from the
    frame's base.
    """
    sizes_start = frame.reply_end if frame.has_reply() else frame.tail
    written = memory.take(frame.data, frame.base + sizes_start, frame.base + line_end)
    sizes = [size for size in written.replace(b"\t", b" ").split(b" ") if size]
    header_size = frame.header_size if frame.header_size > 0 else _NO_HEADERS
    if header_size == _NO_HEADERS:
        sizes = sizes[-1:]
    start = frame.base + frame.payload
    block = memory.take(frame.data, start, start + frame.size)
    return _assemble(
        frame.subject_bytes(), frame.reply_bytes(), b" ".join(sizes), b"", block, header_size
    )


def _holds_blank(text: bytes) -> bool:
    """Return whether `text` holds a byte that ends an argument."""
    for i in range(len(text)):
        byte = text[i]
        if byte <= _SPACE and (byte == _SPACE or byte == _LF or byte == _CR or byte == _TAB):
            return True
    return False


def _assemble(
    subject: bytes,
    reply: bytes | None,
    sizes: bytes,
    headers: bytes,
    payload: bytes,
    header_size: int,
) -> Frame:
    """Make a frame with its own buffer from its parts; `payload` may begin with the headers."""
    verb = b"PUB " if header_size < 0 else b"HPUB "
    frame = Frame()
    frame.subject_start = len(verb)
    frame.subject_end = frame.subject_start + len(subject)
    frame.tail = frame.subject_end + 1
    at = frame.tail
    if reply is not None:
        frame.reply_start = at
        frame.reply_end = at + len(reply)
        at = frame.reply_end + 1
    frame.header_size = header_size
    frame.size = len(headers) + len(payload)
    frame.payload = at + len(sizes) + 2
    frame.end = frame.payload + frame.size + 2
    frame.buffer = memory.allocate(frame.end)
    frame.data = frame.buffer
    target = frame.buffer
    memory.copy_bytes(target, 0, verb)
    memory.copy_bytes(target, frame.subject_start, subject)
    memory.copy_bytes(target, frame.subject_end, b" ")
    if reply is not None:
        memory.copy_bytes(target, frame.reply_start, reply)
        memory.copy_bytes(target, frame.reply_end, b" ")
    memory.copy_bytes(target, at, sizes)
    memory.copy_bytes(target, at + len(sizes), b"\r\n")
    memory.copy_bytes(target, frame.payload, headers)
    memory.copy_bytes(target, frame.payload + len(headers), payload)
    memory.copy_bytes(target, frame.end - 2, b"\r\n")
    return frame
