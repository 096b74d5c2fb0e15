"""The sending side of a link: messages as LMSG, RMSG and HMSG, written where MSG would be."""

from midge.protocol import digits, memory
from midge.protocol.frame import Frame
from midge.protocol.link import BLOCK_HEAD_BYTES, BLOCK_VERB
from midge.server.routing.outbound import ChunkPool, Outbound

_SPACE = 0x20
_CR = 0x0D
_LF = 0x0A
_MSG = b"MSG "
_WITH_REPLY = b"+ "
_WITHOUT_REPLY = b"| "
_BLOCK_HEAD = BLOCK_HEAD_BYTES  # C numbers where this is compiled
_BLOCK_MAX = 16 * 1024  # as much as a reader keeps of an unfinished one without a buffer of its own
_MSG_LINE_BYTES = 6  # the verb and the blanks of a MSG line
_SIZE_BYTES = 22  # of a size, at most, and the end of the line
_NO_BLOCK = -1


class Heads:
    """How message lines of one account begin: the verb, the account if it is named, and a blank.

    `plain` is for messages without headers, `with_headers` for the others.
    """

    __slots__ = ("plain", "with_headers")

    def __init__(self, plain: bytes, with_headers: bytes) -> None:
        self.plain = plain
        self.with_headers = with_headers


class LinkOutbound(Outbound):
    """Output for one link; between workers, messages for one subscription are gathered in blocks.

    `_block` is where the head of the last block is in the chunk. It is filled in when the block is
    ended: by the next one, or because the chunk is written.
    """

    __slots__ = (
        "_announced",
        "_block",
        "_block_count",
        "_block_end",
        "_block_number",
        "_block_size",
    )

    def __init__(self, pool: ChunkPool) -> None:
        Outbound.__init__(self, pool)
        self._announced: bytes | None = None
        self._block = _NO_BLOCK
        self._block_number = 0
        self._block_count = 0
        self._block_size = 0
        self._block_end = 0

    def announce(self, line: bytes) -> None:
        """Add `line`, which names the account of further PUBs and blocks, unless it is current."""
        if self._announced is not line:
            self._announced = line
            self.append(line)

    def append_plain(self, frame: Frame, heads: Heads) -> int:
        """Add `frame` for the plain subscriptions of the other side; return how many bytes.

        A line of a link has no sid, nor the blank behind it. `append_message` does not write this
        line as well, since every delivery to a client would pay for the test.
        """
        verb = heads.plain if frame.header_size < 0 else heads.with_headers
        base = frame.base
        subject_length = frame.subject_end - frame.subject_start
        length = len(verb) + subject_length + 1 + frame.end - frame.tail
        if self._capacity - self._used < length:
            self._make_room(length)
        data = self._data
        at = self._used
        memory.copy_bytes(data, at, verb)
        at += len(verb)
        memory.copy(data, at, frame.data, base + frame.subject_start, base + frame.subject_end)
        at += subject_length
        data[at] = _SPACE
        at += 1
        memory.copy(data, at, frame.data, base + frame.tail, base + frame.end)
        self._used += length
        return length

    def append_with_queues(self, frame: Frame, heads: Heads, queues: list[bytes]) -> int:
        """Add `frame` for a member of each of `queues` too, one at least; return how many bytes."""
        verb = heads.plain if frame.header_size < 0 else heads.with_headers
        names = b" ".join(queues)
        base = frame.base
        subject_length = frame.subject_end - frame.subject_start
        reply_length = frame.reply_end - frame.reply_start
        sizes = frame.reply_end + 1 if reply_length > 0 else frame.tail
        sign = _WITH_REPLY if reply_length > 0 else _WITHOUT_REPLY
        head_length = len(verb) + subject_length + 1 + len(sign)
        if reply_length > 0:
            head_length += reply_length + 1
        length = head_length + len(names) + 1 + frame.end - sizes
        if self._capacity - self._used < length:
            self._make_room(length)
        data = self._data
        at = self._used
        memory.copy_bytes(data, at, verb)
        at += len(verb)
        memory.copy(data, at, frame.data, base + frame.subject_start, base + frame.subject_end)
        at += subject_length
        data[at] = _SPACE
        at += 1
        memory.copy_bytes(data, at, sign)
        at += len(sign)
        if reply_length > 0:
            memory.copy(data, at, frame.data, base + frame.reply_start, base + frame.reply_end)
            at += reply_length
            data[at] = _SPACE
            at += 1
        memory.copy_bytes(data, at, names)
        at += len(names)
        data[at] = _SPACE
        at += 1
        memory.copy(data, at, frame.data, base + sizes, base + frame.end)
        self._used += length
        return length

    def append_from_leaf(self, frame: Frame, head: bytes, queues: list[bytes] | None) -> None:
        """Add `frame` as an LMSG, which names the cluster of the leaf node that it comes from.

        `head` has that cluster and the account. Such a line has both sizes, headers or not.
        """
        reply = frame.reply_bytes()
        words = [head + frame.subject_bytes()]
        if queues:
            words += [b"|"] if reply is None else [b"+", reply]
            words += queues
        elif reply is not None:
            words.append(reply)
        words.append(b"%d %d\r\n" % (max(frame.header_size, 0), frame.size))
        self.append(b" ".join(words))
        self.append((frame.header_bytes() or b"") + frame.payload_bytes() + b"\r\n")

    def append_as_it_lies(self, frame: Frame, count: int) -> None:
        """Add `count` messages, `frame` the first, as they lie one behind the other.

        Each is `frame.end` bytes long.
        """
        length = frame.end
        at = frame.base
        left = count
        while left > 0:
            if self._capacity - self._used < length:
                self._make_room(length)
            size = length
            if left > 1:
                size *= min(left, (self._capacity - self._used) // length)
            memory.copy(self._data, self._used, frame.data, at, at + size)
            self._used += size
            at += size
            left = left - 1 if size == length else left - size // length

    def append_in_block(self, frame: Frame, number: int, sid: bytes) -> None:
        """Add `frame` as the other worker's subscription `number`, called `sid`, gets it."""
        subject_length = frame.subject_end - frame.subject_start
        length = _MSG_LINE_BYTES + subject_length + len(sid) + frame.end - frame.tail
        self._continue_block(number, length)
        self.append_message(frame, sid)
        self._block_count += 1
        self._block_size += frame.size
        self._block_end = self._used

    def append_parts_in_block(
        self, number: int, sid: bytes, subject: bytes, payload: bytes
    ) -> None:
        """Add a message without reply or headers as `append_in_block` does, from its parts."""
        length = _MSG_LINE_BYTES + len(subject) + len(sid) + _SIZE_BYTES + len(payload) + 2
        self._continue_block(number, length)
        data = self._data
        at = self._used
        memory.copy_bytes(data, at, _MSG)
        at += len(_MSG)
        memory.copy_bytes(data, at, subject)
        at += len(subject)
        data[at] = _SPACE
        at += 1
        memory.copy_bytes(data, at, sid)
        at += len(sid)
        data[at] = _SPACE
        at = digits.write_number(data, at + 1, len(payload))
        data[at] = _CR
        data[at + 1] = _LF
        memory.copy_bytes(data, at + 2, payload)
        at += 2 + len(payload)
        data[at] = _CR
        data[at + 1] = _LF
        self._used = self._block_end = at + 2
        self._block_count += 1
        self._block_size += len(payload)

    def _continue_block(self, number: int, length: int) -> None:
        """Make room for `length` more bytes in a block for the subscription `number`."""
        if (
            self._block == _NO_BLOCK
            or number != self._block_number
            or self._used != self._block_end
            or self._used + length > self._block + _BLOCK_MAX
            or self._used + length > self._capacity
        ):
            self._begin_block(number, length)

    def _begin_block(self, number: int, length: int) -> None:
        """Begin a block that has room for `length` bytes at least, in one chunk with its head."""
        self._end_block()
        if self._capacity - self._used < _BLOCK_HEAD + length:
            self._make_room(_BLOCK_HEAD + length)
        self._block = self._used
        self._block_number = number
        self._block_count = 0
        self._block_size = 0
        self._used += _BLOCK_HEAD
        self._block_end = self._used

    def _end_block(self) -> None:
        """Fill in the head of the block, if there is one."""
        at = self._block
        if at == _NO_BLOCK:
            return
        self._block = _NO_BLOCK
        memory.copy_bytes(self._data, at, BLOCK_VERB)
        self._put(at + 4, self._block_number)
        self._put(at + 8, self._block_count)
        self._put(at + 12, self._block_end - at - _BLOCK_HEAD)
        self._put(at + 16, self._block_size)

    def _put(self, at: int, number: int) -> None:
        """Write `number` into four bytes of the chunk, the lowest first."""
        data = self._data
        for i in range(4):
            data[at + i] = number & 0xFF
            number >>= 8

    def _taken_chunk(self) -> bytearray:
        """Return the chunk, which is to be written."""
        self._end_block()
        return Outbound._taken_chunk(self)  # noqa: SLF001 - C has no super()

    def _forget_chunk(self) -> None:
        """Forget the chunk, and the block in it."""
        self._block = _NO_BLOCK
        Outbound._forget_chunk(self)  # noqa: SLF001 - likewise

    def append_run_over(
        self, frame: Frame, heads: Heads, count: int, queues: list[bytes] | None
    ) -> None:
        """Add `count` messages, `frame` the first, that differ in their payloads only.

        They lie one behind the other, each `frame.end` bytes long, and each is for a member of each
        of `queues` too.
        """
        base = frame.base
        last = base + (count - 1) * frame.end
        body = frame.end - frame.payload
        while True:
            if queues:
                length = self.append_with_queues(frame, heads, queues)
            else:
                length = self.append_plain(frame, heads)
            # The others that have room too begin like this one.
            data = self._data
            at = self._used
            while frame.base < last and self._capacity - at >= length:
                frame.base += frame.end
                start = frame.base + frame.payload
                memory.copy(data, at, data, at - length, at - body)
                memory.copy(data, at + length - body, frame.data, start, start + body)
                at += length
            self._used = at
            if frame.base == last:
                break
            frame.base += frame.end
        frame.base = base
