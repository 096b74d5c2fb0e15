"""Answers that wait until every worker knows what a client subscribes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.clients.reading import SETTLING
from midge.server.clients.state import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.clients.publishing import PublishingClient


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
