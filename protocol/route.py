"""The dialect that two servers speak over a route, as nats-server 2.15.1 does.

It is the client protocol with other lines in place of PUB, SUB and UNSUB. A route carries all
accounts, so every line names one. A line on behalf of a leaf node also names the cluster of that
leaf node (the origin), which must not get it back::

    RS+ <account> <subject> [<queue> <weight>]            interest, and how many members a queue has
    RS- <account> <subject> [<queue>]                     its end
    LS+ <origin> <account> <subject> [<queue> <weight>]   interest of leaf nodes of a cluster
    LS- <origin> <account> <subject> [<queue>]            its end
    RMSG <account> <subject> [<reply>] <size>             a message, in the forms of link.py
    HMSG <account> <subject> …  <header size> <total size>
    LMSG <origin> <account> <subject> …  <header size> <total size>    one of a leaf node
    A+ <account>    A- <account>                          of old servers; kept in `announced`

The header size of an LMSG is 0 where it has no headers.
"""

from midge.protocol.errors import UNKNOWN_OPERATION, ProtocolError
from midge.protocol.handler import Handler
from midge.protocol.link import LinkParser

_LETTER = 0x52  # R
_L = 0x4C
_A = 0x41
_H = 0x48
_S = 0x53
_U = 0x55
_WITH_ACCOUNT = 2  # tokens of the shortest line: a verb and an account
_WITH_ORIGIN = 3


class RouteParser(LinkParser):
    """Parser of one end of a route; the handler's `on_link_…` methods take the lines above.

    `on_publish` gets a message in canonical form that names no queue group, or one group and
    neither reply nor headers. `on_link_message` gets any other message, with an empty list if it
    names no group. `on_publish` also gets a peer's ``PUB``, which begins 4 bytes before its subject
    and names no account. Between workers, such a message belongs to the account in `announced`,
    which the last A+ has named; it is empty before the first A+.
    """

    __slots__ = ("announced",)

    def __init__(
        self, handler: Handler, *, max_control_line: int = 4096, max_payload: int = 1 << 20
    ) -> None:
        LinkParser.__init__(
            self,
            handler,
            _LETTER,
            has_account=True,
            max_control_line=max_control_line,
            max_payload=max_payload,
        )
        self.announced = b""

    def _speaks(self, byte: int) -> bool:
        """Return whether `byte`, in upper case, begins a verb that only links have."""
        if byte == _S or byte == _U:
            raise ProtocolError(UNKNOWN_OPERATION, "a client's line on a route")
        return byte == _LETTER or byte == _H or byte == _L or byte == _A

    def _take_line(
        self, tokens: list[bytes], data: bytearray, start: int, body: int, end: int
    ) -> int:
        """Handle the line of `tokens`, which ends at `body`; return the same as `_command`."""
        verb = tokens[0].upper()
        if verb == b"RMSG":
            return self._message(self._named(tokens), 1, data, start, body, end)
        if verb == b"HMSG":
            return self._message(self._named(tokens), 2, data, start, body, end)
        if verb == b"LMSG":
            return self._message(self._named_with_origin(tokens), 2, data, start, body, end)
        if verb == b"RS+":
            self._begin_interest(self._named(tokens))
        elif verb == b"RS-":
            self._end_interest(self._named(tokens))
        elif verb == b"LS+":
            self._begin_interest(self._named_with_origin(tokens))
        elif verb == b"LS-":
            self._end_interest(self._named_with_origin(tokens))
        elif verb == b"A+":
            self.announced = tokens[-1]
        elif verb != b"A-":
            raise ProtocolError(UNKNOWN_OPERATION, f"unknown verb {verb[:16]!r}")
        return body

    def _named(self, tokens: list[bytes]) -> list[bytes]:
        """Set `account` from a line, and return the line without it."""
        if len(tokens) < _WITH_ACCOUNT + 1:
            raise ProtocolError(None, f"{tokens[0][:4]!r} with too few arguments")
        self.origin = b""
        if self.account != tokens[1]:
            self.account = tokens[1]
        return [tokens[0], *tokens[2:]]

    def _named_with_origin(self, tokens: list[bytes]) -> list[bytes]:
        """Set `origin` and `account` from a line, and return the line without them."""
        if len(tokens) < _WITH_ORIGIN + 1:
            raise ProtocolError(None, f"{tokens[0][:4]!r} with too few arguments")
        if self.account != tokens[2]:
            self.account = tokens[2]
        self.origin = tokens[1]
        return [tokens[0], *tokens[3:]]
