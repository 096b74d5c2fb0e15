"""The bytes that the load generator sends, built before the clock starts.

The receiving side counts messages by counting bytes. Therefore all frames have the same length in
most scenarios: subjects and sids are padded with zeros to a fixed width.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

CRLF = b"\r\n"
Line = tuple[bytes, int]
"""Subject and payload size of one message."""

HEADER_BLOCK = b"NATS/1.0\r\nTrace-Id: 0af7651916cd43dd8448eb211c80319c\r\n\r\n"


@dataclass(frozen=True)
class Chunk:
    """Whole PUB frames for one send call."""

    data: bytes
    messages: int


def pub(subject: bytes, payload: bytes, *, reply: bytes = b"", headers: bytes = b"") -> bytes:
    """Return one PUB frame, or an HPUB frame when there is a header block."""
    return _frame(b"HPUB" if headers else b"PUB", (subject, reply), payload, headers)


def msg(
    subject: bytes, sid: bytes, payload: bytes, *, reply: bytes = b"", headers: bytes = b""
) -> bytes:
    """Return the MSG or HMSG frame that a server delivers for such a PUB or HPUB."""
    return _frame(b"HMSG" if headers else b"MSG", (subject, sid, reply), payload, headers)


def sub(subject: bytes, sid: bytes, queue: bytes = b"") -> bytes:
    """Return one SUB line."""
    return b" ".join(part for part in (b"SUB", subject, queue, sid) if part) + CRLF


def _frame(verb: bytes, tokens: Sequence[bytes], payload: bytes, headers: bytes) -> bytes:
    sizes = [len(headers), len(headers) + len(payload)] if headers else [len(payload)]
    line = [verb, *(token for token in tokens if token), *(b"%d" % size for size in sizes)]
    return b" ".join(line) + CRLF + headers + payload + CRLF


def numbered(prefix: bytes, count: int) -> list[bytes]:
    """Return `count` subjects under the prefix, all of one length."""
    width = len(str(max(count - 1, 0)))
    return [b"%s.%0*d" % (prefix, width, index) for index in range(count)]


def chunks(frames: Sequence[bytes], chunk_bytes: int) -> list[Chunk]:
    """Pack equally long frames into chunks of about `chunk_bytes`, each frame at least once.

    Fewer frames than fill one chunk are repeated; no frame is ever cut.
    """
    per_chunk = max(chunk_bytes // len(frames[0]), 1)
    repeats = max(per_chunk // len(frames), 1)
    sequence = list(frames) * repeats
    return [Chunk(b"".join(batch), len(batch)) for batch in _batches(sequence, per_chunk)]


def packed(frames: Sequence[bytes], chunk_bytes: int) -> list[Chunk]:
    """Pack frames of any length, in order and uncut, into chunks of at most `chunk_bytes`.

    A longer frame has its own chunk.
    """
    found: list[list[bytes]] = []
    room = 0
    for frame in frames:
        if not found or len(frame) > room:
            found.append([])
            room = chunk_bytes
        found[-1].append(frame)
        room -= len(frame)
    return [Chunk(b"".join(batch), len(batch)) for batch in found]


def _batches(sequence: Sequence[bytes], size: int) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(sequence), size):
        yield sequence[start : start + size]
