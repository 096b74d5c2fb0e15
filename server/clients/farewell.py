"""The end of a transport: wait until the peer has the last output, then close or abort it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from midge.server.clients.host import Host
    from midge.server.clients.seams import Transport
    from midge.server.clock import Timer

_LINGER_S = 0.25  # how long to read on after the last output, so that no reset drops it


class Farewell:
    """Closes `transport`, to which everything has been written."""

    def __init__(self, host: "Host", transport: "Transport") -> None:
        self._host = host
        self._transport = transport
        self._timer: Timer | None = None

    def begin(self, *, has_words: bool) -> None:
        """Close; with `has_words`, close only the writing side first and read on.

        Closing with unread input would reset the connection, and the peer could lose an -ERR.
        """
        if not has_words or not self._transport.can_write_eof():
            self._close()
            return
        try:
            self._transport.write_eof()
        except OSError:
            self._close()
            return
        self._timer = self._host.clock.call_later(_LINGER_S, self._close)

    def end(self) -> None:
        """Cancel the timer: the transport is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        """Close, and abort if the peer does not take the last output within the write deadline.

        The connection has left `clients`, so no other timer would close it.
        """
        deadline_s = self._host.options.limits.write_deadline_s
        self._timer = self._host.clock.call_later(deadline_s, self._cut)
        self._transport.close()

    def _cut(self) -> None:
        self._host.limit_hits["last_words"] += 1
        self._transport.abort()
