"""Answers that wait until every worker knows a client's subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from midge.server.channels.channel_state import ChannelState
from midge.server.channels.reading import SETTLING

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.channels.channel import Channel

_PINGS_AHEAD = "python3"  # the `lang` of nats.py


def answer_when_settled(
    channel: Channel, settle: Callable[[Callable[[], None]], None], answer: Callable[[], None]
) -> None:
    """Call `answer` once every worker knows the subscriptions so far; halt parsing until then.

    `settle` begins a round over all workers. If the client leaves meanwhile, it gets no answer.
    """

    def settled() -> None:
        if channel.state < ChannelState.CLOSING:
            channel.reading.unhalt(SETTLING)
            answer()
            channel.resume()

    channel.reading.halt(SETTLING)
    settle(settled)


class Asking(Protocol):
    """A connection, as its late PONGs need it."""

    is_unsettled: bool
    channel: Channel

    def send_pong(self) -> None:
        """Send PONG."""


def make_late_pongs(
    client: Asking, lang: str, settle: Callable[[Callable[[], None]], None]
) -> LatePongs | None:
    """Return the LatePongs of a client that sends PING too early; None for any other client.

    `lang` is the field of its CONNECT, and `settle` begins a round over all workers.
    """
    return LatePongs(client, settle) if lang == _PINGS_AHEAD else None


class LatePongs:
    """The PONGs for a client whose PING comes before the SUB that it is meant to cover.

    nats.py's `flush` writes PING at once, and the queued commands with its next write. If one
    process serves all clients, it has handled that SUB before the client can do anything else. With
    several workers, 8 of 300 messages that another client published right after `flush` missed a
    subscription. PONG therefore waits for a round over all workers (0.1 ms), and for another one if
    the client has subscribed meanwhile. The client's commands are parsed all the time.
    """

    def __init__(self, client: Asking, settle: Callable[[Callable[[], None]], None]) -> None:
        self._client = client
        self._settle = settle
        self._owed = 0
        self._covered = 0  # how many of the owed PONGs the current round covers

    def is_due(self) -> bool:
        """Return whether a PONG is owed."""
        return self._owed > 0

    def ping(self) -> None:
        """Owe one more PONG; a PING that comes during a round waits for the next one."""
        self._owed += 1
        if self._owed == 1:
            self._begin()

    def _begin(self) -> None:
        self._covered = self._owed
        self._settle(self._taken)

    def _taken(self) -> None:
        """Answer, unless the client has subscribed since the round began."""
        if self._client.is_unsettled:
            self._client.is_unsettled = False
            self._settle(self._answer)
        else:
            self._answer()

    def _answer(self) -> None:
        client = self._client
        if client.channel.state >= ChannelState.CLOSING:
            return
        for _ in range(self._covered):
            client.send_pong()
        self._owed -= self._covered
        if self._owed:
            self._begin()
        client.channel.resume()
