"""The lines that two servers, or two workers of one server, send each other: one parser for all.

Each dialect is the client protocol with other lines in place of PUB, SUB and UNSUB, as nats-server
2.15.1 speaks it. A LEAF link belongs to one account. A ROUTE carries all accounts, so every line
names one; a line on behalf of a leaf node also names the cluster of that leaf node (the origin),
which must not get it back. A WORKER link is a route to another worker of the same server::

    LEAF     LS+ <subject> [<queue> <weight>]                 interest, and how many members a queue
             LS- <subject> [<queue>]                          has; its end
             LMSG <subject> …                                 a message
             HMSG <subject> …                                 a message with headers
    ROUTE    RS+ <account> <subject> [<queue> <weight>]       interest
             RS- <account> <subject> [<queue>]                its end
             LS+ <origin> <account> <subject> [<queue> <weight>]    interest of leaf nodes
             LS- <origin> <account> <subject> [<queue>]             its end
             RMSG <account> <subject> …                       a message
             HMSG <account> <subject> …                       a message with headers
             LMSG <origin> <account> <subject> …              one of a leaf node, in HMSG's form
             A+ <account>    A- <account>                     of old servers; kept in `announced`
    WORKER   NS+ <account> <subject> <number> <sid>           interest of one subscription
             BLK <number> <count> <length> <size>             `length` bytes of messages for it

A message line names the queue groups that get it besides plain subscriptions::

    <verb> [<account>] <subject> [<reply>] <size>             for plain subscriptions
    <verb> [<account>] <subject> + <reply> <queue>… <size>    and for these queue groups
    <verb> [<account>] <subject> | <queue>… <size>            the same without a reply
    HMSG …  <header size> <total size>                        each of these forms, with headers

The header size of an LMSG of a route is 0 if it has no headers. A route that carries only one
account, its dedicated route, has no account in any line. A message is handled in place in
the read buffer, as a PUB is.

Blocks. A worker numbers each subscription of its clients that is alone on its subject. Messages for
such a subscription cross the link in the form that the client gets, as MSG lines, many behind one
block head, and are not parsed again. The four numbers of a head have four bytes each, lowest byte
first, without separators: the number of the subscription, the count of messages, the bytes that
follow, and the bytes of the payloads. The block belongs to the account announced last.
"""

from midge.protocol import memory
from midge.protocol.errors import (
    AUTHORIZATION_VIOLATION,
    MAXIMUM_CONTROL_LINE,
    MAXIMUM_PAYLOAD,
    UNKNOWN_OPERATION,
    ProtocolError,
)
from midge.protocol.frame import compose
from midge.protocol.handler import Handler
from midge.protocol.parser import COSTS, Parser
from midge.protocol.stream_parser import RUN, parse_size, split_arguments

LEAF = 0
"""The dialect of a leaf node link."""

ROUTE = 1
"""The dialect of a route."""

WORKER = 2
"""The dialect of a link between two workers."""

BLOCK_VERB = b"BLK "

BLOCK_HEAD_BYTES = 20
"""Length of a block's head."""

LINE_MAX_BYTES = 64 * 1024
"""Longest line of a dialect, in bytes. nats-server has no limit on links; no list of queue groups
gets this long."""

WEIGHT_MAX = (1 << 31) - 1
"""Largest weight of a queue group; nats-server keeps it in 32 bits."""

_LINE_MAX = LINE_MAX_BYTES  # C numbers where this is compiled
_HEAD = BLOCK_HEAD_BYTES
_VERB = BLOCK_VERB
_LF = 0x0A
_CR = 0x0D
_SPACE = 0x20
_UPPER_CASE = 0xDF
_WITHOUT_REPLY = 0x7C  # a bar
_A = 0x41
_B = 0x42
_H = 0x48
_I = 0x49
_L = 0x4C
_N = 0x4E
_R = 0x52
_S = 0x53
_U = 0x55
_VERB_BYTES = 5  # with its blank
_UNUSUAL = -1

_SUBSCRIBE_COST = COSTS[b"SUB"]
_UNSUBSCRIBE_COST = COSTS[b"UNSUB"]
_MESSAGE_COST = COSTS[b"HPUB"]
_PER_QUEUE_COST = 256
_BLOCK_COST = COSTS[RUN]
_PER_MESSAGE_COST = 16
_ARGUMENTS = 4  # of an NS+ line
_WITH_ACCOUNT = 2  # tokens of the shortest line: a verb and an account


class BlockHandler:
    """Handles the blocks and the numbered subscriptions of a link between workers."""

    def take_block(
        self, data: bytearray, start: int, end: int, number: int, count: int, size: int
    ) -> None:
        """Take `count` MSG lines in ``data[start:end]``, for the subscription `number`."""

    def take_numbered(self, subject: bytes, number: int, sid: bytes) -> None:
        """Record the only subscription to `subject`, in the parser's `account`."""


NOBODY = BlockHandler()
"""A handler that drops everything."""


class LinkParser(Parser):
    """Parser of one end of a link; the handler's `on_link_…` methods take the lines of `dialect`.

    During a call of the handler, `account` and `origin` are the account that the line names and the
    cluster of the leaf node that sent it; both are empty if the line names none. While consecutive
    lines name the same account, `account` is the same object.

    `on_publish` gets a message in canonical form that names no queue group, or one group and
    neither reply nor headers; `queues` has that group, or is None. `on_link_message` gets any other
    message, with an empty list if it names no group. `on_publish` also gets a peer's ``PUB``, which
    begins 4 bytes before its subject and names no account. Between workers, such a message belongs
    to the account in `announced`, which the last A+ has named; it is empty before the first A+.

    `blocks` takes the lines that only workers send. `max_control_line` bounds CONNECT, INFO and
    what else a client may send.
    """

    __slots__ = (
        "_has_account",
        "_is_route",
        "_is_worker",
        "_letter",
        "account",
        "announced",
        "blocks",
        "origin",
        "queues",
    )

    def __init__(
        self,
        handler: Handler,
        dialect: int,
        *,
        max_control_line: int = 4096,
        max_payload: int = 1 << 20,
        blocks: BlockHandler = NOBODY,
    ) -> None:
        Parser.__init__(self, handler, max_control_line=max_control_line, max_payload=max_payload)
        self.account = b""
        self.announced = b""
        self.origin = b""
        self.queues: list[bytes] | None = None
        self.blocks = blocks
        self._is_worker = dialect == WORKER
        self._is_route = self._is_worker or dialect == ROUTE
        self._has_account = self._is_route
        self._letter = _R if self._is_route else _L  # begins the verb of a message

    def dedicate(self, account: bytes) -> None:
        """Read lines without an account from now on: all of them are of `account`."""
        self.account = account
        self._has_account = False

    def _speaks(self, byte: int) -> bool:
        """Return whether `byte`, in upper case, begins a verb that only links have."""
        if self._is_route and (byte == _S or byte == _U):
            raise ProtocolError(UNKNOWN_OPERATION, "a client's line on a route")
        if byte == self._letter or byte == _H:
            return True
        if byte == _N:
            return self._is_worker
        return self._is_route and (byte == _L or byte == _A)

    def _command(self, data: bytearray, start: int, end: int) -> int:
        """Handle the command at `start`; return the index behind it, or `start` if incomplete."""
        if data[start] == _B and self._is_worker:
            return self._block(data, start, end)
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

    def _block(self, data: bytearray, start: int, end: int) -> int:
        """Handle the block at `start`; return the same as `_command`."""
        if end - start < _HEAD:
            return start
        if not memory.starts_with(data, start, end, _VERB):
            raise ProtocolError(None, "no block after its first byte")
        first = start + _HEAD
        after = first + _number_at(data, start + 12)
        if after > end:
            return start
        count = _number_at(data, start + 8)
        self._repeatable = False
        self._charge(_BLOCK_COST + count * _PER_MESSAGE_COST + after - start)
        number, size = _number_at(data, start + 4), _number_at(data, start + 16)
        self.blocks.take_block(data, first, after, number, count, size)
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
        verb = tokens[0].upper()
        if self._is_route:
            return self._take_route_line(verb, tokens, data, start, body, end)
        if verb == b"LMSG":
            return self._message(tokens, 1, data, start, body, end)
        if verb == b"HMSG":
            return self._message(tokens, 2, data, start, body, end)
        if verb == b"LS+":
            self._begin_interest(tokens)
        elif verb == b"LS-":
            self._end_interest(tokens)
        else:
            raise ProtocolError(UNKNOWN_OPERATION, f"unknown verb {verb[:16]!r}")
        return body

    def _take_route_line(
        self, verb: bytes, tokens: list[bytes], data: bytearray, start: int, body: int, end: int
    ) -> int:
        """Handle the line of `tokens` where links carry all accounts; see `_take_line`."""
        if verb == b"RMSG":
            return self._message(self._named(tokens), 1, data, start, body, end)
        if verb == b"HMSG":
            return self._message(self._named(tokens), 2, data, start, body, end)
        if verb == b"LMSG":
            after = self._message(self._named_with_origin(tokens), 2, data, start, body, end)
            self.origin = b""
            return after
        if verb == b"RS+":
            self._begin_interest(self._named(tokens))
        elif verb == b"RS-":
            self._end_interest(self._named(tokens))
        elif verb == b"LS+":
            self._begin_interest(self._named_with_origin(tokens))
            self.origin = b""
        elif verb == b"LS-":
            self._end_interest(self._named_with_origin(tokens))
            self.origin = b""
        elif verb == b"A+":
            self.announced = tokens[-1]
        elif verb == b"NS+" and self._is_worker:
            self._begin_numbered(tokens)
        elif verb != b"A-":
            raise ProtocolError(UNKNOWN_OPERATION, f"unknown verb {verb[:16]!r}")
        return body

    def _named(self, tokens: list[bytes]) -> list[bytes]:
        """Set `account` from a line, and return the line without it."""
        if not self._has_account:
            return tokens
        if len(tokens) < _WITH_ACCOUNT + 1:
            raise ProtocolError(None, f"{tokens[0][:4]!r} with too few arguments")
        if self.account != tokens[1]:
            self.account = tokens[1]
        return [tokens[0], *tokens[2:]]

    def _named_with_origin(self, tokens: list[bytes]) -> list[bytes]:
        """Set `origin` and `account` from a line, and return the line without them."""
        if len(tokens) < _WITH_ACCOUNT + 1:
            raise ProtocolError(None, f"{tokens[0][:4]!r} with too few arguments")
        origin = tokens[1]
        named = self._named([tokens[0], *tokens[2:]])
        self.origin = origin
        return named

    def _begin_numbered(self, tokens: list[bytes]) -> None:
        """Take ``NS+ <account> <subject> <number> <sid>``."""
        if len(tokens) != 1 + _ARGUMENTS:
            raise ProtocolError(None, f"a numbered subscription with {len(tokens) - 1} arguments")
        _, subject, number, sid = self._named(tokens)
        self.blocks.take_numbered(subject, int(number), sid)

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


def _number_at(data: bytearray, at: int) -> int:
    """Return the number in the four bytes from `at` on."""
    return data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24


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
