"""Interest between the other workers and what lies behind links to other servers.

Only the first worker has such links. Towards them all workers are one server: what the others want
is told as this one's own, and what is wanted behind the links is told to the others likewise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from midge.server.links.interest import Interests
    from midge.server.routing.account import Account
    from midge.server.workers.interest import Interest
    from midge.server.workers.link import WorkerPart
    from midge.sublist.subscription import RemoteSubscription


class Outside:
    """Passes on interest between `interests`, of links to other servers, and that of workers."""

    def __init__(self, interests: Interests, own: Interest) -> None:
        self._interests = interests
        self._own = own
        interests.outside = self._wanted_outside

    def add(self, part: WorkerPart) -> None:
        """Tell other servers what the worker of `part` wants in its account, from now on."""
        part.told = NothingTold()
        self._interests.of(part.account).add(part, _nothing)

    def remove(self, part: WorkerPart) -> None:
        """Take note that its link has ended."""
        self._interests.of(part.account).remove(part)

    def wanted_inside(self, part: WorkerPart, told: RemoteSubscription, change: int) -> None:
        """Tell other servers that a worker wants so much more, or less."""
        interest = self._interests.of(part.account)
        interest.link_changed(part, told.subject, told.queue, change)

    def _wanted_outside(
        self, account: Account, subject: bytes, queue: bytes | None, change: int, from_where: str
    ) -> None:
        self._own.change((account.name.encode(), subject, queue, from_where.encode()), change)


class NothingTold:
    """Tells a worker nothing of what other servers are told: `Interest` tells it everything."""

    def __init__(self) -> None:
        self.allows = _nothing

    def hears_of(self, source: object, origin: str) -> bool:
        """Say that interest of other links is not for it."""
        return False

    def begin(self, *_: object) -> None:
        """Tell nothing."""

    def change(self, key: object, change: int) -> None:
        """Tell nothing."""

    def look(self, key: object) -> None:
        """Tell nothing."""

    def end(self) -> None:
        """Tell nothing more."""


def _nothing(_: bytes) -> bool:
    return False
