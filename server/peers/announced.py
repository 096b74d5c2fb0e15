"""The interest that the other server of a link has announced: its bounds, and its end.

It is in the SubLists of the accounts, as RemoteSubscriptions. Each branch of a link lists its own,
so that all of it can be removed when the link ends: some at once, and the rest turn by turn.
"""

from functools import partial
from typing import Any

from midge.server.channels.charges import STEP_BYTES
from midge.server.channels.fair_turns import PORTION_BYTES
from midge.server.routing.client import Client
from midge.sublist.subscription import RemoteSubscription

_BEGUN_BYTES = 20480  # beside the charge of the line: 13 us in all, of 20 ms for 32 MiB
_ENDED_BYTES = 16384  # likewise: 10 us
_DROPPED_AT_ONCE = 500  # subscriptions of a link that has gone, before others have their turn
_DROP_MAX_BYTES = 64 * PORTION_BYTES  # likewise, in a later turn
_USUAL_TOKENS = 8
_USUAL_BYTES = 1024


class Announced:
    """The interest announced over one link: `count` subscriptions, and their size up to `max_size`.

    A subscription has the size 1, or more if it names much. Each method gets the link, because a
    reference to it would be a cycle.
    """

    def __init__(self) -> None:
        self.count = 0
        self.max_size = 0
        self._size = 0

    def known(
        self, link: Any, source: Client, subject: bytes, queue: bytes | None, origin: str
    ) -> RemoteSubscription | None:
        """Return the interest of this kind that `source` has from the other server, or None."""
        remotes = source.account.sublist.remotes
        if remotes is None:
            return None
        found: list[Any] = remotes.exactly(subject, queue)
        link.spend(len(found) * STEP_BYTES)
        for one in found:
            if one.remote is source and one.origin == origin:
                remote: RemoteSubscription = one
                return remote
        return None

    def begin(self, link: Any, source: Any, remote: RemoteSubscription) -> None:
        """Add `remote` to the interest of `source`, or note that its group has another weight."""
        known = self.known(link, source, remote.subject, remote.queue, remote.origin)
        if known is not None:
            change = remote.weight - known.weight
            known.weight = remote.weight
            if change:
                link.end.interest_changed(source, known, change)
            return
        size = _size_of(remote)
        if self._size + size > self.max_size:
            link.end.refuse_surplus(link)
            return
        if not link.end.allows_interest(link, remote.subject):
            return
        sublist = source.account.sublist
        steps = sublist.steps
        if sublist.insert_remote(remote) is not None:
            link.end.refuse_subject(link)
            return
        link.spend(_BEGUN_BYTES + (sublist.steps - steps) * STEP_BYTES)
        interest = source.interest
        remote.place = len(interest)
        interest.append(remote)
        self.count += 1
        self._size += size
        link.end.interest_changed(source, remote, remote.weight)

    def end(self, link: Any, source: Any, subject: bytes, queue: bytes | None, origin: str) -> None:
        """Forget interest of the other server."""
        remote = self.known(link, source, subject, queue, origin)
        if remote is None:
            return
        interest = source.interest
        last = interest.pop()
        if last is not remote:
            interest[remote.place] = last
            last.place = remote.place
        self.forget_size(remote)
        sublist = source.account.sublist
        steps = sublist.steps
        sublist.remove_remote(remote)
        link.spend(_ENDED_BYTES + (sublist.steps - steps) * STEP_BYTES)
        link.end.interest_changed(source, remote, -remote.weight)

    def forget_size(self, remote: RemoteSubscription) -> None:
        """Subtract removed interest of the other server from the counts."""
        self.count -= 1
        self._size -= _size_of(remote)

    def drop_all(self, link: Any) -> None:
        """Remove all that the other server has announced."""
        for branch in list(link.commands.branches.values()):
            left, branch.interest = branch.interest, []
            self.drop(link, branch, left)

    def drop(self, link: Any, source: Client, left: list[RemoteSubscription]) -> None:
        """Remove the interest in `left`, some of it now and the rest in later turns."""
        self._drop(link, source, left, _DROPPED_AT_ONCE)

    def _drop(self, link: Any, source: Client, left: list[RemoteSubscription], most: int) -> None:
        for _ in range(min(len(left), most)):
            remote = left.pop()
            source.account.sublist.remove_remote(remote)
            link.end.interest_changed(source, remote, -remote.weight)
        if left:
            link.broker.turns.wait(partial(self._drop_more, link, source, left))

    def _drop_more(self, link: Any, source: Client, left: list[RemoteSubscription]) -> None:
        """Drop more in a later turn: use a part of its budget, and return the rest."""
        turns = link.broker.turns
        share = turns.share()
        most = max(min(share, _DROP_MAX_BYTES) // _ENDED_BYTES, 1)
        turns.give_back(share - most * _ENDED_BYTES)
        self._drop(link, source, left, most)


def _size_of(remote: RemoteSubscription) -> int:
    """Return 1, and one more for each token beyond 8 and for each 1,024 bytes of what it names.

    A token of a wildcard subject takes 300 bytes where no other subject shares it, and a line may
    have 30,000: without this, 200 lines took 1.9 GB.
    """
    subject, queue = remote.subject, remote.queue
    named = len(subject) + len(remote.origin) + (0 if queue is None else len(queue))
    size = 1 + named // _USUAL_BYTES
    tokens = 1 + subject.count(b".") if len(subject) > _USUAL_TOKENS else 1
    return size + max(tokens - _USUAL_TOKENS, 0)
