"""The dialect that two servers speak over a leaf node link, as nats-server 2.15.1 does.

It is the client protocol with four lines in place of PUB, SUB and UNSUB::

    LS+ <subject> [<queue> <weight>]                  interest, and how many members a queue has
    LS- <subject> [<queue>]                           its end
    LMSG <subject> [<reply>] <size>                   a message for plain subscriptions
    LMSG <subject> + <reply> <queue>… <size>          and for these queue groups
    LMSG <subject> | <queue>… <size>                  the same without a reply
    HMSG <subject> …  <header size> <total size>      each of these forms, with headers

A message lies in the read buffer just as a PUB does, and is handled where it lies.
"""

from midge.protocol import memory
from midge.protocol.arguments import parse_size, split_arguments
from midge.protocol.costs import COMPILED_COSTS, INTERPRETED_COSTS
from midge.protocol.errors import (
    AUTHORIZATION_VIOLATION,
    MAXIMUM_CONTROL_LINE,
    MAXIMUM_PAYLOAD,
    UNKNOWN_OPERATION,
    ProtocolError,
)
from midge.protocol.frame import compose
from midge.protocol.parser import Parser

LINE_MAX_BYTES = 64 * 1024
"""Longest of the four lines, in bytes; nats-server has no limit on links, but no queue list is
longer."""

WEIGHT_MAX = (1 << 31) - 1
"""Largest weight of a queue group; nats-server keeps it in 32 bits."""

_LINE_MAX = LINE_MAX_BYTES  # C numbers where this is compiled
_LF = 0x0A
_CR = 0x0D
_SPACE = 0x20
_UPPER_CASE = 0xDF
_L = 0x4C
_H = 0x48
_VERB_BYTES = 5  # with its blank
_UNUSUAL = -1

_COSTS = COMPILED_COSTS if memory.is_compiled() else INTERPRETED_COSTS
_SUBSCRIBE_COST = _COSTS[b"SUB"]
_UNSUBSCRIBE_COST = _COSTS[b"UNSUB"]
_MESSAGE_COST = _COSTS[b"HPUB"]
_PER_QUEUE_COST = 256


class LeafParser(Parser):
    """Parser of one end of a leaf node link; the handler's `on_link_…` methods take the four lines.

    `max_control_line` bounds the other lines, CONNECT and INFO above all.
    """

    __slots__ = ()

    def _command(self, data: bytearray, start: int, end: int) -> int:
        """Handle the command at `start`; return the index behind it, or `start` if incomplete."""
        byte = data[start] & _UPPER_CASE
        if byte != _L and byte != _H:
            return Parser._command(self, data, start, end)  # noqa: SLF001 - C has no super()
        if self.connect_required:
            raise ProtocolError(AUTHORIZATION_VIOLATION, "first command is no CONNECT")
        after = self._plain_message(data, start, end)
        if after == _UNUSUAL:
            return self._line(data, start, end)
        return after

    def _plain_message(self, data: bytearray, line: int, end: int) -> int:
        """Handle an LMSG or HMSG at `line` in canonical form and without queue groups.

        Returns the index behind it, `line` if it is incomplete, or _UNUSUAL.
        """
        if end - line < _VERB_BYTES:
            return _UNUSUAL
        with_headers = data[line] == _H
        if (
            (not with_headers and data[line] != _L)
            or data[line + 1] != 0x4D
            or data[line + 2] != 0x53
            or data[line + 3] != 0x47
            or data[line + 4] != _SPACE
        ):
            return _UNUSUAL
        first_start = line + _VERB_BYTES
        position = memory.token_end(data, first_start, end)
        first_end = position
        second_start = second_end = third_start = third_end = fourth_start = fourth_end = 0
        count = 1
        while position < end and data[position] == _SPACE and count < 4:
            token = position + 1
            position = memory.token_end(data, token, end)
            if position == token:
                return _UNUSUAL
            count += 1
            if count == 2:
                second_start, second_end = token, position
            elif count == 3:
                third_start, third_end = token, position
            else:
                fourth_start, fourth_end = token, position
        if position + 2 > end:
            return line if position - line <= _LINE_MAX else _UNUSUAL
        if (
            data[position] != _CR
            or data[position + 1] != _LF
            or first_end == first_start
            or position - line > _LINE_MAX
        ):
            return _UNUSUAL
        body = position + 2
        header_size = -1
        has_reply = count == (4 if with_headers else 3)
        if has_reply:
            count -= 1
        if with_headers:
            if count != 3:
                return _UNUSUAL
            if has_reply:
                header_size = parse_size(data, third_start, third_end)
                size = parse_size(data, fourth_start, fourth_end)
            else:
                header_size = parse_size(data, second_start, second_end)
                size = parse_size(data, third_start, third_end)
            if header_size <= 0 or header_size > size:
                return _UNUSUAL
        else:
            if count != 2:
                return _UNUSUAL
            if has_reply:
                size = parse_size(data, third_start, third_end)
            else:
                size = parse_size(data, second_start, second_end)
        if size < 0 or size > self.max_payload >= 0:
            return _UNUSUAL
        after = self._after_payload(data, body + size, end)
        if after < 0:
            self._charge(body - line)  # it is parsed again when more has arrived
            return line
        frame = self._frame
        frame.base = line
        frame.subject_start = _VERB_BYTES
        frame.subject_end = first_end - line
        frame.tail = second_start - line
        frame.reply_start = frame.tail
        frame.reply_end = second_end - line if has_reply else frame.tail
        frame.header_size = header_size
        frame.size = size
        frame.payload = body - line
        frame.end = after - line
        frame.repeated = False
        self._repeatable = True
        self._charge(_MESSAGE_COST + after - line)
        self.handler.on_publish(frame)
        return after

    def _line(self, data: bytearray, start: int, end: int) -> int:
        """Handle any of the four lines in any form; return the same as `_command`."""
        line_feed = memory.find(data, _LF, start, end)
        stop = end if line_feed < 0 else line_feed
        if stop - start > _LINE_MAX + _VERB_BYTES:
            raise ProtocolError(MAXIMUM_CONTROL_LINE, f"a line of {stop - start} bytes on a link")
        if line_feed < 0:
            self._charge(end - start)
            return start
        line = memory.take(data, start, stop)
        if line.endswith(b"\r"):
            line = line[:-1]
        tokens = split_arguments(line)
        verb = tokens[0].upper()
        if verb == b"LMSG" or verb == b"HMSG":
            return self._message(tokens, data, start, line_feed + 1, end)
        self._repeatable = False
        if verb == b"LS+":
            self._charge(_SUBSCRIBE_COST + line_feed - start)
            self._subscribe_link(tokens)
        elif verb == b"LS-":
            self._charge(_UNSUBSCRIBE_COST + line_feed - start)
            self._unsubscribe_link(tokens)
        else:
            raise ProtocolError(UNKNOWN_OPERATION, f"unknown verb {verb[:16]!r}")
        return line_feed + 1

    def _subscribe_link(self, tokens: list[bytes]) -> None:
        count = len(tokens) - 1
        if count == 0:
            raise ProtocolError(UNKNOWN_OPERATION, "no blank after the verb")
        if count == 1:
            self.handler.on_link_subscribe(tokens[1], None, 1)
            return
        if count != 3:
            raise ProtocolError(None, f"LS+ with {count} arguments, 1 or 3 expected")
        weight = tokens[3]
        number = int(weight) if weight.isdigit() and len(weight) < 18 else 0
        self.handler.on_link_subscribe(tokens[1], tokens[2], min(number, WEIGHT_MAX))

    def _unsubscribe_link(self, tokens: list[bytes]) -> None:
        count = len(tokens) - 1
        if count == 0:
            raise ProtocolError(UNKNOWN_OPERATION, "no blank after the verb")
        if count != 1 and count != 2:
            raise ProtocolError(None, f"LS- with {count} arguments, 1 or 2 expected")
        self.handler.on_link_unsubscribe(tokens[1], tokens[2] if count == 2 else None)

    def _message(
        self,
        tokens: list[bytes],
        data: bytearray,
        start: int,
        body: int,
        end: int,
    ) -> int:
        """Handle the LMSG or HMSG of `tokens`, its payload at `body`."""
        sizes = 2 if tokens[0][:1] in b"Hh" else 1
        reply, queues = _destinations(tokens, sizes)
        last = tokens[-1]
        size = parse_size(last, 0, len(last))
        header_size = -1
        if sizes == 2:
            last = tokens[-2]
            header_size = parse_size(last, 0, len(last))
            if header_size < 0 or header_size > size:
                raise ProtocolError(None, "HMSG with a bad header size")
        if size < 0:
            raise ProtocolError(None, "LMSG with a bad size")
        if size > self.max_payload >= 0:
            raise ProtocolError(
                MAXIMUM_PAYLOAD, f"payload of {size} bytes, {self.max_payload} allowed"
            )
        after = self._after_payload(data, body + size, end)
        self._charge(body - start)
        if after < 0:
            return start
        self._charge(3 * _MESSAGE_COST + _PER_QUEUE_COST * len(queues) + after - start)
        self._repeatable = False
        headers = None
        if header_size > 0:
            headers = memory.take(data, body, body + header_size)
        payload = memory.take(data, body + max(header_size, 0), body + size)
        frame = compose(tokens[1], payload, reply, headers)
        if queues:
            self.handler.on_link_message(frame, queues)
        else:
            self.handler.on_publish(frame)
        return after


def _destinations(tokens: list[bytes], sizes: int) -> tuple[bytes | None, list[bytes]]:
    """Return the reply subject and the queue groups of a message line that ends in `sizes` sizes.

    Raises:
        ProtocolError: there are too few arguments, or the second is neither + nor | of a list.
    """
    count = len(tokens) - 1 - sizes
    if count < 1:
        raise ProtocolError(None, f"{tokens[0][:4]!r} with too few arguments")
    if count == 1:
        return None, []
    if count == 2:
        return tokens[2], []
    if tokens[2] == b"+":
        return tokens[3], tokens[4:-sizes]
    if tokens[2] == b"|":
        return None, tokens[3:-sizes]
    raise ProtocolError(None, f"bad or missing reply indicator {tokens[2][:16]!r}")
