"""The sending side of a link: messages as LMSG, RMSG and HMSG, written where MSG would be."""

from midge.protocol import memory
from midge.protocol.frame import Frame
from midge.server.routing.outbound import Outbound

_SPACE = 0x20
_WITH_REPLY = b"+ "
_WITHOUT_REPLY = b"| "


class Heads:
    """How message lines of one account begin: the verb, the account if it is named, and a blank.

    `plain` is for messages without headers, `with_headers` for the others.
    """

    __slots__ = ("plain", "with_headers")

    def __init__(self, plain: bytes, with_headers: bytes) -> None:
        self.plain = plain
        self.with_headers = with_headers


class LinkOutbound(Outbound):
    """Output for one link."""

    def append_plain(self, frame: Frame, heads: Heads) -> None:
        """Add `frame` for the plain subscriptions of the other side."""
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

    def append_with_queues(self, frame: Frame, heads: Heads, queues: list[bytes]) -> None:
        """Add `frame` for a member of each of `queues` too; there must be one at least."""
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

    def append_plain_run(self, frame: Frame, heads: Heads, count: int) -> None:
        """Add `count` messages, `frame` the first, that differ in their payloads only."""
        base = frame.base
        for _ in range(count):
            self.append_plain(frame, heads)
            frame.base += frame.end
        frame.base = base
