"""Parse the bytes that a client sends into commands, as nats-server reads them.

What the parser does. `feed` gets a contiguous buffer and calls one method of the handler for each
whole command, in order. It returns the index of the first byte that it did not use. The caller
keeps the bytes from there on and passes them again with more bytes behind them. The result is
therefore the same however the network splits the stream, and a property test feeds the same bytes
split at random to prove it.

State between two calls. Starting over at the unused bytes means that the parser needs no state for
a half-read line or payload. Two inputs have no limit on their length, so the caller cannot be asked
to keep their bytes, and a state stands in for them:

    _ignoring   PING, PONG or +OK was read. The rest of its line is dropped up to the LF.
    _verb       A verb was read, and the blanks behind it are dropped until its arguments begin.

Everything else is bounded: arguments by `max_control_line`, a payload by `max_payload`, and both
limits are checked before the rest of the command arrives.

Three ways to read a publish. Almost all the commands of a busy client are publishes, so there is a
short way for the common forms. Each way leaves what it does not know to the next one:

    1. a run          The line equals the previous one byte for byte, as the lines of a publisher
                      with one subject and one size do. Nothing is parsed again: `_count_repeats`
                      counts the messages, and `on_publish_run` gets them in one call.
    2. the plain way  `_plain_publish` reads a complete ``PUB subject [reply] size`` with single
                      blanks and CR LF in one scan. It raises no errors.
    3. the general    `_command` reads every verb in every spelling, and is the only one of the
       way            three that finds errors in a control line. It scans a line four times.

A frame with double blanks, a TAB, a missing CR or an empty header block is not canonical. It is
rewritten, because a delivery copies the end of the publish line as it is (see frame.py).

Verbs are recognized by their first bytes, in upper or lower case, without a table: the bytes of a
wrong verb raise as soon as no verb begins with them, even if the line has not ended.

Limits and quirks are nats-server 2.15.1's, as it shows them on the wire:

- The first byte of the arguments never ends the line, even if it is an LF.
- A stray CR anywhere within a line removes the last byte of the line, as if it stood at the end.
- Bytes behind PING, PONG and +OK are ignored.
- HPUB from a client that announced no headers closes the connection without an -ERR.

Work is charged before it is done. Each command takes its bytes and a constant of its verb off
`budget` (see stream_parser.py). When the budget is spent, `handler.on_budget_spent` either adds to
it or sets `halted`; after the current command, `feed` then returns. A frame that is parsed again
because its payload is incomplete is charged again.
"""

from midge.protocol import lines, memory
from midge.protocol.errors import (
    AUTHORIZATION_VIOLATION,
    MAXIMUM_CONTROL_LINE,
    MAXIMUM_PAYLOAD,
    UNKNOWN_OPERATION,
    ProtocolError,
)
from midge.protocol.frame import Frame, rewritten
from midge.protocol.handler import Handler
from midge.protocol.stream_parser import (
    COMPILED_COSTS,
    INTERPRETED_COSTS,
    RUN,
    RUN_LINE,
    StreamParser,
    parse_size,
    split_arguments,
)

_TAB = 0x09
_LF = 0x0A
_CR = 0x0D
_SPACE = 0x20

_PLAIN_LINE_MIN = len(b"PUB a 0\r\n\r\n")
_REPLY_AND_SIZE_MIN = len(b"r 0\r\n\r\n")

# Verbs are numbers, so that the compiled build, too, compares integers.
_NO_VERB = 0
_PUB = 1
_HPUB = 2
_SUB = 3
_UNSUB = 4
_CONNECT = 5
_INFO = 6
_ERR = 7
_PING = 8
_PONG = 9
_OK = 10

_WORDS = (b"", *b"PUB HPUB SUB UNSUB CONNECT INFO -ERR PING PONG +OK".split())
_PUB_WORD = _WORDS[_PUB]

VERBS = _WORDS[1:]
"""Every verb that the parser knows."""

COSTS = COMPILED_COSTS if memory.is_compiled() else INTERPRETED_COSTS
"""The charge for each verb, and for a run of publishes, besides its bytes."""


class Parser(StreamParser):
    """Calls `handler` for each command in the bytes passed to `feed`.

    `max_control_line` bounds the arguments of a line, in bytes; `headers` allows HPUB. `costs` maps
    each of VERBS, RUN and RUN_LINE to its charge against the budget, besides its bytes.
    """

    __slots__ = (
        "_costs",
        "_frame",
        "_ignoring",
        "_publish_cost",
        "_repeatable",
        "_run_cost",
        "_verb",
        "headers",
        "max_control_line",
    )

    def __init__(
        self,
        handler: Handler,
        *,
        max_control_line: int = 4096,
        max_payload: int = 1 << 20,
        costs: dict[bytes, int] = COSTS,
    ) -> None:
        StreamParser.__init__(self, handler, max_payload)
        self.run_line_cost = costs[RUN_LINE]
        self.max_control_line = max_control_line
        self.headers = False
        self._costs = costs
        self._publish_cost = costs[_PUB_WORD]
        self._run_cost = costs[RUN]
        self._frame = Frame()
        self._repeatable = False  # whether `_frame` is a complete line that may repeat
        self._verb = _NO_VERB  # seen and consumed, with its arguments still to come
        self._ignoring = _NO_VERB  # seen and consumed, with the rest of its line to be dropped

    def feed(self, buffer: bytearray, start: int, end: int) -> int:
        """Handle the commands in ``buffer[start:end]``; return the index of the first unused byte.

        Raises:
            ProtocolError: the client broke the protocol; nothing more may be fed.
        """
        data = buffer
        frame = self._frame
        frame.buffer = buffer
        frame.data = data
        self._repeatable = False
        position = start
        longest_run = end - start
        while position < end and not self.halted:
            if self.taker is not None and not self._ignoring and not self._verb:
                position = self.offer_lines(
                    data, position, end, self.max_control_line, self._publish_cost
                )
                self._repeatable = False  # the taker may have moved past the line in `_frame`
                if position == end or self.halted:
                    break
            # Publishers often repeat a control line: an equal line is not parsed again. Different
            # lines mostly differ at the end, and comparing one word is cheaper than a call.
            if (
                self._repeatable
                and position + frame.end <= end
                and memory.same_word(
                    data, frame.base + frame.payload - 8, position + frame.payload - 8
                )
            ):
                count = self._count_repeats(data, position, end, longest_run)
                if count > 0:
                    frame.base = position
                    frame.repeated = True
                    taken = 1
                    if count > 1:
                        self._charge(self._run_cost)
                        taken = self.handler.on_publish_run(frame, count)
                        # Only the handler knows how many it takes.
                        self._charge(taken * (frame.end + self.run_line_cost))
                    else:
                        self._charge(self._run_cost + frame.end)
                        self.handler.on_publish(frame)
                    if taken < count:
                        longest_run = 1  # this handler takes messages singly: count no further
                    position += taken * frame.end
                    frame.base = position - frame.end
                    continue
            if self._ignoring:
                after = self._ignore_line(data, position, end)
            elif self._verb:
                after = self._after_verb(self._verb, data, position, position, end)
            else:
                after = self._plain_publish(data, position, end)
                if after == position:
                    after = self._command(data, position, end)
            if after == position:
                break
            position = after
        return position

    def _charge(self, cost_bytes: int) -> None:
        self.budget -= cost_bytes
        if self.budget < 0:
            self.handler.on_budget_spent()

    def forget_buffer(self) -> None:
        """Release the last buffer passed to `feed`, which the frame references."""
        self._frame = Frame()
        self._repeatable = False

    def _count_repeats(self, data: bytearray, start: int, end: int, most: int) -> int:
        """Count the whole messages from `start` on, up to `most`, with the last control line.

        Raises:
            ProtocolError: the payload of the first is not followed by CR LF.
        """
        frame = self._frame
        length = frame.end
        count = 0
        while count < most and start + length <= end:
            if not memory.same(data, frame.base, start, frame.payload):
                break
            start += length
            if data[start - 2] != _CR or data[start - 1] != _LF:
                if count == 0:
                    raise ProtocolError(UNKNOWN_OPERATION, "payload not followed by CR LF")
                break
            count += 1
        return count

    def _plain_publish(self, data: bytearray, line: int, end: int) -> int:
        """Handle a complete ``PUB subject [reply] size⏎payload⏎`` at `line` in exactly this form.

        Returns the index behind it, or `line` if anything is unusual, wrong or incomplete; the
        general way handles those cases. The general way scans a line four times, this one scans it
        once. Nearly all messages whose control line differs from the previous one are read here.
        """
        if (
            end - line < _PLAIN_LINE_MIN
            or not lines.is_publish(data, line)
            or self.connect_required
        ):
            return line
        subject_end = lines.token_end(data, line + 4, end)
        reply_start = reply_end = size_start = subject_end + 1
        found = lines.size_at(data, size_start, end)
        if found == 0 and end - reply_start >= _REPLY_AND_SIZE_MIN:
            reply_end = lines.token_end(data, reply_start, end)
            size_start = reply_end + 1
            if reply_end > reply_start and reply_end < end and data[reply_end] == _SPACE:
                found = lines.size_at(data, size_start, end)
        size = found >> 3
        position = size_start + (found & 7)
        body = position + 2
        after = body + size + 2
        if (
            found == 0
            or after > end
            or subject_end == line + 4
            or data[subject_end] != _SPACE
            or data[position] != _CR
            or data[position + 1] != _LF
            or data[after - 2] != _CR
            or data[after - 1] != _LF
            or position - line - 4 > self.max_control_line
            or (size > self.max_payload >= 0)
        ):
            return line
        frame = self._frame
        frame.base = line
        frame.subject_start = 4
        frame.subject_end = subject_end - line
        frame.reply_start = frame.tail = reply_start - line
        frame.reply_end = reply_end - line
        frame.header_size = -1
        frame.size = size
        frame.payload = body - line
        frame.end = after - line
        frame.repeated = False
        self._repeatable = True
        self.budget -= self._publish_cost + after - line
        if self.budget < 0:
            self.handler.on_budget_spent()
        self.handler.on_publish(frame)
        return after

    def _command(self, data: bytearray, start: int, end: int) -> int:
        """Handle the command at `start`; return the index behind it, or `start` if incomplete."""
        if self.connect_required and data[start] != 0x43 and data[start] != 0x63:
            raise ProtocolError(AUTHORIZATION_VIOLATION, "first command is no CONNECT")
        verb = self._expected_verb(data, start, end)
        if verb == _NO_VERB:
            return start
        position = start + len(_WORDS[verb])
        if verb == _PING or verb == _PONG or verb == _OK:
            self._ignoring = verb
            return self._ignore_line(data, position, end) if position < end else position
        if verb != _CONNECT and verb != _INFO:
            if position == end:
                return start
            if data[position] != _SPACE and data[position] != _TAB:
                raise ProtocolError(UNKNOWN_OPERATION, "no blank after the verb")
        return self._after_verb(verb, data, start, position, end)

    def _after_verb(self, verb: int, data: bytearray, line: int, start: int, end: int) -> int:
        """Drop blanks, then handle `verb`; return the index behind it.

        If it is incomplete, `_verb` keeps it, and the index of its arguments is returned.
        """
        while start < end and (data[start] == _SPACE or data[start] == _TAB):
            start += 1
        if start < end:
            after = self._arguments(verb, data, line, start, end)
            if after >= 0:
                return after
        self._verb = verb
        self._charge(start - line)
        return start

    def _expected_verb(self, data: bytearray, start: int, end: int) -> int:
        """Return the verb at `start`, or _NO_VERB while its bytes are only a prefix of one."""
        if memory.starts_with(data, start, end, _PUB_WORD):
            return _PUB  # nearly all commands are publishes
        byte = data[start] & 0xDF if data[start] >= 0x41 else data[start]
        verb = _NO_VERB
        if byte == 0x50:  # P
            if start + 1 == end:
                return _NO_VERB
            byte = data[start + 1] & 0xDF
            if byte == 0x55:
                verb = _PUB
            elif byte == 0x49:
                verb = _PING
            elif byte == 0x4F:
                verb = _PONG
        elif byte == 0x48:
            verb = _HPUB
        elif byte == 0x53:
            verb = _SUB
        elif byte == 0x55:
            verb = _UNSUB
        elif byte == 0x43:
            verb = _CONNECT
        elif byte == 0x49:
            verb = _INFO
        elif byte == 0x2B:
            verb = _OK
        elif byte == 0x2D:
            verb = _ERR
        if verb == _NO_VERB:
            raise ProtocolError(UNKNOWN_OPERATION, "unknown verb")
        word = _WORDS[verb]
        for i in range(1, len(word)):
            if start + i == end:
                return _NO_VERB
            byte = data[start + i]
            if 0x61 <= byte <= 0x7A:
                byte -= 0x20
            if byte != word[i]:
                raise ProtocolError(UNKNOWN_OPERATION, "unknown verb")
        return verb

    def _ignore_line(self, data: bytearray, start: int, end: int) -> int:
        """Drop the rest of a PING, PONG or +OK line and, at its end, handle it."""
        line_feed = memory.find(data, _LF, start, end)
        if line_feed < 0:
            self._charge(end - start)
            return end
        verb = self._ignoring
        self._ignoring = _NO_VERB
        self._charge(self._cost_of(verb) + line_feed + 1 - start)
        if verb == _PING:
            self.handler.on_ping()
        elif verb == _PONG:
            self.handler.on_pong()
        return line_feed + 1

    def _arguments(self, verb: int, data: bytearray, line: int, start: int, end: int) -> int:
        """Handle `verb`, arguments from `start`; return the index behind it, -1 if incomplete."""
        line_feed = memory.find(data, _LF, start + 1, end)
        if line_feed < 0:
            stop = end - 1 if memory.find(data, _CR, start + 1, end) >= 0 else end
            self._check_control_line(stop - start)
            return -1
        stop = line_feed
        if (line_feed > start + 1 and data[line_feed - 1] == _CR) or (
            memory.find(data, _CR, start + 1, line_feed) >= 0
        ):
            stop -= 1
        self._check_control_line(stop - start)
        if verb == _PUB or verb == _HPUB:
            return self._publish(verb == _HPUB, data, line, start, stop, line_feed + 1, end)
        self._verb = _NO_VERB
        self._charge(self._cost_of(verb) + line_feed + 1 - line)
        arguments = memory.take(data, start, stop)
        if verb == _SUB:
            self._subscribe(arguments)
        elif verb == _UNSUB:
            self._unsubscribe(arguments)
        elif verb == _CONNECT:
            self._repeatable = False
            self.connect_required = False
            self.handler.on_connect(arguments)
        elif verb == _INFO:
            self.handler.on_info(arguments)
        else:
            self.handler.on_peer_error(arguments)
        return line_feed + 1

    def _cost_of(self, verb: int) -> int:
        return self._costs[_WORDS[verb]]

    def _check_control_line(self, length: int) -> None:
        if length > self.max_control_line:
            raise ProtocolError(
                MAXIMUM_CONTROL_LINE,
                f"control line of {length} bytes, {self.max_control_line} allowed",
            )

    def _publish(
        self,
        with_headers: bool,
        data: bytearray,
        line: int,
        start: int,
        stop: int,
        body: int,
        end: int,
    ) -> int:
        """Handle a PUB or HPUB with arguments in ``data[start:stop]``, its payload at `body`.

        Returns the index behind it, or -1 if the payload is incomplete.
        """
        count = 0
        first_start = first_end = 0
        second_start = second_end = 0
        third_start = third_end = 0
        fourth_start = fourth_end = 0
        canonical = body - stop == 2 and data[stop] == _CR
        position = start
        while position < stop:
            byte = data[position]
            if byte == _SPACE or byte == _TAB:
                if byte == _TAB or data[position - 1] == _SPACE:
                    canonical = False
                position += 1
                continue
            token = position
            while position < stop and data[position] != _SPACE and data[position] != _TAB:
                position += 1
            count += 1
            if count == 1:
                first_start, first_end = token, position
            elif count == 2:
                second_start, second_end = token, position
            elif count == 3:
                third_start, third_end = token, position
            else:
                fourth_start, fourth_end = token, position
        if data[stop - 1] == _SPACE:
            canonical = False
        header_size = -1
        tail = second_start
        if with_headers:
            if not self.headers:
                raise ProtocolError(None, "HPUB from a client that announced no headers")
            if count == 3:
                header_size = parse_size(data, second_start, second_end)
                size = parse_size(data, third_start, third_end)
                second_end = second_start
            elif count == 4:
                header_size = parse_size(data, third_start, third_end)
                size = parse_size(data, fourth_start, fourth_end)
            else:
                raise ProtocolError(None, f"HPUB with {count} arguments, 3 or 4 expected")
            if header_size < 0 or size < 0 or header_size > size:
                raise ProtocolError(None, "HPUB with a bad header size or total size")
            if header_size == 0:
                canonical = False
        elif count == 2:
            size = parse_size(data, second_start, second_end)
            second_end = second_start
        elif count == 3:
            size = parse_size(data, third_start, third_end)
        else:
            raise ProtocolError(None, f"PUB with {count} arguments, 2 or 3 expected")
        if size < 0:
            raise ProtocolError(None, "PUB with a bad or missing size")
        if self.max_payload >= 0 and size > self.max_payload:
            raise ProtocolError(
                MAXIMUM_PAYLOAD, f"payload of {size} bytes, {self.max_payload} allowed"
            )
        after = self._after_payload(data, body + size, end)
        if after < 0:
            self._charge(body - line)  # the line is parsed again when more bytes have arrived
            return -1
        frame = self._frame
        frame.base = line
        frame.subject_start = first_start - line
        frame.subject_end = first_end - line
        frame.reply_start = second_start - line
        frame.reply_end = second_end - line
        frame.tail = tail - line
        frame.header_size = header_size
        frame.size = size
        frame.payload = body - line
        frame.end = after - line
        frame.repeated = False
        # If an earlier call consumed the verb, the frame starts at the arguments, and a later line
        # must not be compared with it.
        self._repeatable = canonical and not self._verb
        self._verb = _NO_VERB
        # Rewriting a frame scans and copies it once more.
        cost = self._cost_of(_HPUB) if with_headers else self._publish_cost
        self._charge((cost if canonical else 3 * cost) + after - line)
        self.handler.on_publish(frame if canonical else rewritten(frame, stop - line))
        return after

    def _after_payload(self, data: bytearray, payload_end: int, end: int) -> int:
        """Return the index behind the CR LF at `payload_end`, or -1 if it has not arrived yet."""
        if (payload_end < end and data[payload_end] != _CR) or (
            payload_end + 1 < end and data[payload_end + 1] != _LF
        ):
            raise ProtocolError(UNKNOWN_OPERATION, "payload not followed by CR LF")
        return payload_end + 2 if payload_end + 2 <= end else -1

    def _subscribe(self, arguments: bytes) -> None:
        tokens = split_arguments(arguments)
        if len(tokens) == 2:
            self.handler.on_subscribe(tokens[0], None, tokens[1])
        elif len(tokens) == 3:
            self.handler.on_subscribe(tokens[0], tokens[1], tokens[2])
        else:
            raise ProtocolError(None, f"SUB with {len(tokens)} arguments, 2 or 3 expected")

    def _unsubscribe(self, arguments: bytes) -> None:
        tokens = split_arguments(arguments)
        if len(tokens) == 1:
            self.handler.on_unsubscribe(tokens[0], 0)
        elif len(tokens) == 2:
            limit = tokens[1]
            self.handler.on_unsubscribe(tokens[0], max(0, parse_size(limit, 0, len(limit))))
        else:
            raise ProtocolError(None, f"UNSUB with {len(tokens)} arguments, 1 or 2 expected")
