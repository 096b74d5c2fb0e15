"""Answers that wait until every worker knows what a client subscribes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from midge.server.clients.reading import SETTLING
from midge.server.clients.state import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.clients.channel import Channel
    from midge.server.clients.publishing import PublishingClient

_PINGS_AHEAD = "python3"  # how nats.py names its language


def answer_when_settled(client: PublishingClient, answer: Callable[[], None]) -> None:
    """Call `answer` once every worker knows of the subscriptions so far, and parse on then.

    Nothing more of what the client sends is parsed before. If it leaves meanwhile, it gets no
    answer.
    """
    channel = client.channel

    def settled() -> None:
        if channel.state < State.CLOSING:
            channel.reading.unhalt(SETTLING)
            answer()
            channel.resume()

    channel.reading.halt(SETTLING)
    client.broker.settle(settled)


class Asking(Protocol):
    """A connection, as its late PONGs need it."""

    is_unsettled: bool
    channel: Channel

    def send_pong(self) -> None:
        """Send PONG."""


def make_late_pongs(
    client: Asking, lang: str, settle: Callable[[Callable[[], None]], None]
) -> LatePongs | None:
    """Return what answers the PINGs of a client that sends them ahead; None for any other.

    `lang` is what its CONNECT says, and `settle` begins a round over all workers.
    """
    return LatePongs(client, settle) if lang == _PINGS_AHEAD else None


class LatePongs:
    """The PONGs for a client whose PING comes before the SUB that it is meant to cover.

    nats.py's `flush` writes PING at once, and what is queued with its next write. Where one process
    serves all, that SUB has been taken when the client does anything else. With several workers,
    of 300 messages published right after `flush` by another client 8 missed a subscription. So PONG
    waits for a round over all workers, 0.1 ms, and for another one if the client has subscribed
    meanwhile. What the client sends is parsed all the time.
    """

    def __init__(self, client: Asking, settle: Callable[[Callable[[], None]], None]) -> None:
        self._client = client
        self._settle = settle
        self._owed = 0
        self._covered = 0  # of those owed, by the round that is under way

    def is_due(self) -> bool:
        """Tell whether a PONG is owed."""
        return self._owed > 0

    def ping(self) -> None:
        """Owe one PONG more; those of PINGs that come during a round wait for the next one."""
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
        if client.channel.state >= State.CLOSING:
            return
        for _ in range(self._covered):
            client.send_pong()
        self._owed -= self._covered
        if self._owed:
            self._begin()
        client.channel.resume()
