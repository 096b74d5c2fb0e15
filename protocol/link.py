"""Parsing shared by the dialects of links between servers.

A message line names its account if the link carries several, and then the subject::

    <verb> [<account>] <subject> [<reply>] <size>             a message for plain subscriptions
    <verb> [<account>] <subject> + <reply> <queue>… <size>    and for these queue groups
    <verb> [<account>] <subject> | <queue>… <size>            the same without a reply
    HMSG …  <header size> <total size>                        each of these forms, with headers

The verb without headers is LMSG for a leaf node link and RMSG for a route. A message is handled in
place in the read buffer, as a PUB is.
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
from midge.protocol.handler import Handler
from midge.protocol.parser import Parser

LINE_MAX_BYTES = 64 * 1024
"""Longest line of a dialect, in bytes. nats-server has no limit on links; no list of queue groups
gets this long."""

WEIGHT_MAX = (1 << 31) - 1
"""Largest weight of a queue group; nats-server keeps it in 32 bits."""

_LINE_MAX = LINE_MAX_BYTES  # C numbers where this is compiled
_LF = 0x0A
_CR = 0x0D
_SPACE = 0x20
_UPPER_CASE = 0xDF
_WITHOUT_REPLY = 0x7C  # a bar
_H = 0x48
_I = 0x49
_VERB_BYTES = 5  # with its blank
_UNUSUAL = -1

_COSTS = COMPILED_COSTS if memory.is_compiled() else INTERPRETED_COSTS
_SUBSCRIBE_COST = _COSTS[b"SUB"]
_UNSUBSCRIBE_COST = _COSTS[b"UNSUB"]
_MESSAGE_COST = _COSTS[b"HPUB"]
_PER_QUEUE_COST = 256


class LinkParser(Parser):
    """Parser of one end of a link; the handler's `on_link_…` methods take the lines of its dialect.

    `letter` begins the verb of a message, and with `has_account` its first argument is an account.
    During a call of the handler, `account` and `origin` are the account that the line names and the
    cluster of the leaf node that sent it; both are empty if the line names none. While consecutive
    lines name the same account, `account` is the same object. `queues` has the queue groups that
    get the message of `on_publish`, or is None. `max_control_line` bounds the other lines, CONNECT
    and INFO above all.
    """

    __slots__ = ("_has_account", "_letter", "account", "origin", "queues")

    def __init__(
        self,
        handler: Handler,
        letter: int,
        *,
        has_account: bool,
        max_control_line: int = 4096,
        max_payload: int = 1 << 20,
    ) -> None:
        Parser.__init__(self, handler, max_control_line=max_control_line, max_payload=max_payload)
        self.account = b""
        self.origin = b""
        self.queues: list[bytes] | None = None
        self._letter = letter
        self._has_account = has_account

    def _speaks(self, byte: int) -> bool:
        """Return whether `byte`, in upper case, begins a verb that only links have."""
        return byte == self._letter or byte == _H

    def _command(self, data: bytearray, start: int, end: int) -> int:
        """Handle the command at `start`; return the index behind it, or `start` if incomplete."""
        if not self._speaks(data[start] & _UPPER_CASE):
            if self.connect_required and data[start] == _I:  # INFO, to agree on compression
                self.connect_required = False
                after = Parser._command(self, data, start, end)  # noqa: SLF001 - C has no super()
                self.connect_required = True
                return after
            return Parser._command(self, data, start, end)  # noqa: SLF001 - likewise
        if self.connect_required:
            raise ProtocolError(AUTHORIZATION_VIOLATION, "first command is no CONNECT")
        after = self._plain_message(data, start, end)
        if after == _UNUSUAL:
            return self._line(data, start, end)
        return after

    def _plain_message(self, data: bytearray, line: int, end: int) -> int:
        """Handle a message at `line` in canonical form and without queue groups.

        Returns the index behind it, `line` if it is incomplete, or _UNUSUAL.
        """
        if end - line < _VERB_BYTES:
            return _UNUSUAL
        with_headers = data[line] == _H
        if (
            (not with_headers and data[line] != self._letter)
            or data[line + 1] != 0x4D
            or data[line + 2] != 0x53
            or data[line + 3] != 0x47
            or data[line + 4] != _SPACE
        ):
            return _UNUSUAL
        account_start = first_start = line + _VERB_BYTES
        if self._has_account:
            first_start = memory.token_end(data, account_start, end) + 1
            if (
                first_start > end
                or first_start - 1 == account_start
                or data[first_start - 1] != _SPACE
            ):
                return _UNUSUAL
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
        if (
            count == 4
            and not with_headers
            and second_end - second_start == 1
            and data[second_start] == _WITHOUT_REPLY
        ):
            size = parse_size(data, fourth_start, fourth_end)
            self._frame.subject_start = first_start - line
            self._frame.subject_end = first_end - line
            return self._for_queue(data, line, third_start, fourth_start, body, size, end)
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
            self._charge(body - line)  # the line is parsed again when more bytes have arrived
            return line
        if self._has_account:
            self._note_account(data, account_start, first_start - 1)
        frame = self._frame
        frame.base = line
        frame.subject_start = first_start - line
        frame.subject_end = first_end - line
        frame.tail = second_start - line
        frame.reply_start = frame.tail
        frame.reply_end = second_end - line if has_reply else frame.tail
        frame.header_size = header_size
        frame.size = size
        frame.payload = body - line
        frame.end = after - line
        frame.repeated = False
        self.queues = None
        self._repeatable = True
        self._charge(_MESSAGE_COST + after - line)
        self.handler.on_publish(frame)
        return after

    def _for_queue(
        self,
        data: bytearray,
        line: int,
        queue: int,
        tail: int,
        body: int,
        size: int,
        end: int,
    ) -> int:
        """Handle a message without reply or headers for one queue group; as `_plain_message`.

        The size at `tail` follows the subject in the MSG line for clients. The frame already has
        the subject.
        """
        if size < 0 or size > self.max_payload >= 0:
            return _UNUSUAL
        after = self._after_payload(data, body + size, end)
        if after < 0:
            self._charge(body - line)
            return line
        if self._has_account:
            self._note_account(data, line + _VERB_BYTES, line + self._frame.subject_start - 1)
        known = self.queues
        if (
            known is None
            or len(known) != 1
            or len(known[0]) != tail - 1 - queue
            or not memory.starts_with(data, queue, tail - 1, known[0])
        ):
            self.queues = [memory.take(data, queue, tail - 1)]
        frame = self._frame
        frame.base = line
        frame.tail = tail - line
        frame.reply_start = frame.tail
        frame.reply_end = frame.tail
        frame.header_size = -1
        frame.size = size
        frame.payload = body - line
        frame.end = after - line
        frame.repeated = False
        self._repeatable = True
        self._charge(_MESSAGE_COST + _PER_QUEUE_COST + after - line)
        self.handler.on_publish(frame)
        return after

    def _note_account(self, data: bytearray, start: int, end: int) -> None:
        """Set `account` to ``data[start:end]``; keep the object if it is equal."""
        known = self.account
        if len(known) != end - start or not memory.starts_with(data, start, end, known):
            self.account = memory.take(data, start, end)
        self.origin = b""

    def _line(self, data: bytearray, start: int, end: int) -> int:
        """Handle any line of the dialect in any form; return the same as `_command`."""
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
        return self._take_line(split_arguments(line), data, start, line_feed + 1, end)

    def _take_line(
        self, tokens: list[bytes], data: bytearray, start: int, body: int, end: int
    ) -> int:
        """Handle the line of `tokens`, which ends at `body`; return the same as `_command`."""
        raise ProtocolError(UNKNOWN_OPERATION, f"unknown verb {tokens[0][:16]!r}")

    def _begin_interest(self, tokens: list[bytes]) -> None:
        """Take ``<verb> <subject> [<queue> <weight>]``."""
        self._repeatable = False
        self._charge(_SUBSCRIBE_COST + _length_of(tokens))
        count = len(tokens) - 1
        if count == 0:
            raise ProtocolError(UNKNOWN_OPERATION, "no blank after the verb")
        if count == 1:
            self.handler.on_link_subscribe(tokens[1], None, 1)
            return
        if count != 3:
            raise ProtocolError(None, f"interest with {count} arguments, 1 or 3 expected")
        weight = tokens[3]
        number = int(weight) if weight.isdigit() and len(weight) < 18 else 0
        self.handler.on_link_subscribe(tokens[1], tokens[2], min(number, WEIGHT_MAX))

    def _end_interest(self, tokens: list[bytes]) -> None:
        """Take ``<verb> <subject> [<queue>]``."""
        self._repeatable = False
        self._charge(_UNSUBSCRIBE_COST + _length_of(tokens))
        count = len(tokens) - 1
        if count == 0:
            raise ProtocolError(UNKNOWN_OPERATION, "no blank after the verb")
        if count != 1 and count != 2:
            raise ProtocolError(None, f"end of interest with {count} arguments, 1 or 2 expected")
        self.handler.on_link_unsubscribe(tokens[1], tokens[2] if count == 2 else None)

    def _message(
        self,
        tokens: list[bytes],
        sizes: int,
        data: bytearray,
        start: int,
        body: int,
        end: int,
    ) -> int:
        """Handle the message of `tokens`, without an account; its last `sizes` tokens are sizes."""
        reply, queues = _destinations(tokens, sizes)
        last = tokens[-1]
        size = parse_size(last, 0, len(last))
        header_size = -1
        if sizes == 2:
            last = tokens[-2]
            header_size = parse_size(last, 0, len(last))
            if header_size < 0 or header_size > size:
                raise ProtocolError(None, "a message with a bad header size")
        if size < 0:
            raise ProtocolError(None, "a message with a bad size")
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
        self.handler.on_link_message(frame, queues)
        return after


def _length_of(tokens: list[bytes]) -> int:
    """Return the approximate length in bytes of the line that had `tokens`."""
    return sum([len(token) for token in tokens]) + len(tokens)


def _destinations(tokens: list[bytes], sizes: int) -> tuple[bytes | None, list[bytes]]:
    """Return reply subject and queue groups of a message line; its last `sizes` tokens are sizes.

    Raises:
        ProtocolError: there are too few arguments, or a list of queue groups begins with neither
            ``+`` nor ``|``.
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
