"""The links of one kind that a server has: one service holds, accepts, dials and closes them.

`LeafNodes`, `Cluster` and `WorkerLinks` add what differs between the kinds: what happens as a link
comes up and ends, and the changes by a reload.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from midge.protocol import COMPATIBLE_VERSION
from midge.server.broker.message_trace import TRACING_PROTOCOL
from midge.server.channels.closed_reason import ClosedReason
from midge.server.peers.announcer import InterestAnnouncer

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.broker.broker import Broker
    from midge.server.peers.announcer import InterestLines
    from midge.server.peers.dialler import Dialler
    from midge.server.peers.ledger import Ledger
    from midge.server.peers.link import Branch, Link
    from midge.server.peers.listener import LinkListener

INTEREST_MAX = 1 << 19
"""Most subscriptions that one link may announce where `limits.max_subscriptions` is not set.

Each takes some 400 bytes, so a hostile server can use 200 MB, and 1.3 GB with wildcard subjects
of eight tokens each that share none of them. Longer ones count more.
"""


class Ends(NamedTuple):
    """What makes the ends of links of one kind: of accepted ones, and of those opened here."""

    accepted: Callable[..., Any]
    solicited: Callable[..., Any]


class LinkService:
    """The links of one kind that the server of `broker` has; they share its `ledger`.

    `links` are those that are up, by a key of their kind. `listener` is the port that other servers
    connect to, and None without one; `address` is where it listens. Each of `diallers` keeps up a
    link that this server opens.
    """

    def __init__(self, broker: Broker, ledger: Ledger) -> None:
        self.broker = broker
        self.ledger = ledger
        self.links: dict[Any, Link] = {}
        self.listener: LinkListener | None = None
        self.address = ("", 0)
        self.diallers: list[Any] = []
        self._stopping: set[asyncio.Task[None]] = set()

    def server_name(self) -> str:
        """Return the name that this server has on links."""
        return self.broker.options.server_name or self.broker.keys.server_id

    def max_interest(self) -> int:
        """Return how much interest one link may announce."""
        return self.broker.options.limits.max_subscriptions or INTEREST_MAX

    def own_fields(self) -> dict[str, Any]:
        """Return the fields that each INFO to another server has."""
        options = self.broker.options
        return {
            "server_id": self.broker.keys.server_id,
            "server_name": self.server_name(),
            "version": COMPATIBLE_VERSION,
            "proto": TRACING_PROTOCOL,
            "go": "python",
            "headers": options.limits.header_support,
            "max_payload": options.limits.max_payload_bytes,
        }

    def leave(self, link: Link) -> None:
        """Forget `link`, which has ended."""
        raise NotImplementedError

    # Interest.

    def allows(self, branch: Any) -> Callable[[bytes], bool]:
        """Return the function that decides which interest is announced over `branch`."""
        raise NotImplementedError

    def announce_over(
        self, branch: Branch, lines: InterestLines, *, is_isolated: bool = False
    ) -> None:
        """Announce the interest over `branch` from now on, by `lines`; see InterestAnnouncer."""
        turns = self.broker.turns
        branch.announcer = InterestAnnouncer(branch, turns, lines, is_isolated=is_isolated)
        self.ledger.of(branch.account).add(branch, self.allows(branch))

    def announce_again(self, link: Link) -> None:
        """Announce newly allowed interest over `link`, and withdraw interest now denied."""
        for branch in link.commands.branches.values():
            if branch.announcer is not None:
                self.ledger.of(branch.account).renew(branch, self.allows(branch))

    def end_announcing(self, link: Link) -> None:
        """Announce nothing more over `link`, which has ended."""
        for branch in link.commands.branches.values():
            if branch.announcer is not None:
                self.ledger.of(branch.account).remove(branch)
                branch.announcer.end()

    # What all links of the kind have in common.

    def limit_links(self) -> None:
        """Apply the limits that the settings have now to the links that are up."""
        for link in self.links.values():
            link.announced.max_size = self.max_interest()
            link.parser.max_payload = self.broker.options.limits.max_payload_bytes

    def end_dialler(self, dialler: Dialler, reason: ClosedReason) -> None:
        """Remove `dialler`, and stop it."""
        self.diallers.remove(dialler)
        stopping = asyncio.get_running_loop().create_task(dialler.stop(reason))
        self._stopping.add(stopping)
        stopping.add_done_callback(self._stopping.discard)

    def close_all(self, reason: ClosedReason) -> None:
        """Close the links that are up."""
        for link in list(self.links.values()):
            link.close(reason)

    async def stop(self) -> None:
        """Accept and dial no more, and close the links."""
        if self.listener is not None:
            self.listener.close()
            self.listener = None
        diallers, self.diallers = self.diallers, []
        for dialler in diallers:
            await dialler.stop()
        await asyncio.gather(*self._stopping)
        self.close_all(ClosedReason.SERVER_SHUTDOWN)
