"""The dialect that two servers speak over a leaf node link, as nats-server 2.15.1 does.

It is the client protocol with four lines in place of PUB, SUB and UNSUB::

    LS+ <subject> [<queue> <weight>]                  interest, and how many members a queue has
    LS- <subject> [<queue>]                           its end
    LMSG <subject> [<reply>] <size>                   a message for plain subscriptions
    LMSG <subject> + <reply> <queue>… <size>          and for these queue groups
    LMSG <subject> | <queue>… <size>                  the same without a reply
    HMSG <subject> …  <header size> <total size>      each of these forms, with headers

A message is handled in place in the read buffer, as a PUB is.
"""

from midge.protocol.errors import UNKNOWN_OPERATION, ProtocolError
from midge.protocol.handler import Handler
from midge.protocol.link import LinkParser

_LETTER = 0x4C  # L


class LeafParser(LinkParser):
    """Parser of one end of a leaf node link; the handler's `on_link_…` methods take the four lines.

    `max_control_line` bounds the other lines, CONNECT and INFO above all.
    """

    __slots__ = ()

    def __init__(
        self, handler: Handler, *, max_control_line: int = 4096, max_payload: int = 1 << 20
    ) -> None:
        LinkParser.__init__(
            self,
            handler,
            _LETTER,
            has_account=False,
            max_control_line=max_control_line,
            max_payload=max_payload,
        )

    def _take_line(
        self, tokens: list[bytes], data: bytearray, start: int, body: int, end: int
    ) -> int:
        """Handle the line of `tokens`, which ends at `body`; return the same as `_command`."""
        verb = tokens[0].upper()
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
