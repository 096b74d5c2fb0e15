"""The verdict on a server that connects: it may be there at once, or take a while."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from midge.server.auth import Verdict
from midge.server.channels.reading import AUTHENTICATING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from midge.server.links.link import Link


def when_decided(
    link: Link, verdict: Verdict | Awaitable[Verdict], conclude: Callable[[Verdict], None]
) -> None:
    """Call `conclude` with `verdict`, now or once it is there; `link` reads nothing meanwhile.

    A link that has ended by then is left alone.
    """
    if isinstance(verdict, Verdict):
        conclude(verdict)
        return

    def decided(done: asyncio.Future[Verdict]) -> None:
        if link.reason is None and not done.cancelled():
            link.channel.reading.unhalt(AUTHENTICATING)
            conclude(done.result())
            link.channel.resume()

    link.channel.reading.halt(AUTHENTICATING)
    asyncio.ensure_future(verdict).add_done_callback(decided)
