"""An account: an isolated subject space with its own SubList and its own counts."""

from typing import TYPE_CHECKING, Any, Protocol

from midge.server.config.account_names import SYSTEM_ACCOUNT
from midge.sublist.sublist import SubList, SubListError
from midge.sublist.subscription import Subscription

if TYPE_CHECKING:
    from midge.server.routing.mapping import Mappings
    from midge.sublist.interest_listener import InterestListener


class InterestWatcher(Protocol):
    """Watches subscriptions being added and removed, such as to report them to another process."""

    def added(self, subscription: Subscription) -> None:
        """See a subscription that has come in."""

    def removed(self, subscription: Subscription) -> None:
        """See one that has left."""


class Account:
    """One subject space. Connections of different accounts never see each other's messages.

    All subscriptions are added and removed by `add` and `remove`; messages are matched in `sublist`
    directly. `watcher`, if any, sees each of them.
    """

    __slots__ = ("__weakref__", "clients", "mapper", "name", "sublist", "system", "watcher")

    def __init__(self, name: str, sublist: SubList | None = None) -> None:
        self.name = name
        self.sublist = SubList() if sublist is None else sublist
        self.clients = set[int]()  # by cid
        self.mapper: Mappings | None = None  # when the account has mappings
        self.system = name == SYSTEM_ACCOUNT
        self.watcher: InterestWatcher | None = None

    def add(self, subscription: Subscription) -> SubListError | None:
        """Add a subscription; None, or why it was refused. All subscriptions come in by here."""
        refusal = self.sublist.insert(subscription)
        if self.watcher is not None and refusal is None:
            self.watcher.added(subscription)
        return refusal

    def remove(self, subscription: Subscription) -> SubListError | None:
        """Remove a subscription; None, or NOT_FOUND. All subscriptions leave by here."""
        refusal = self.sublist.remove(subscription)
        if self.watcher is not None and refusal is None:
            self.watcher.removed(subscription)
        return refusal

    @property
    def interest_listener(self) -> "InterestListener | None":
        """Listener for the first and the last interest of each kind, from any source."""
        return self.sublist.listener

    @interest_listener.setter
    def interest_listener(self, listener: "InterestListener | None") -> None:
        self.sublist.listener = listener

    def add_listener(self, listener: "InterestListener") -> None:
        """Notify `listener` of interest, in addition to the present listeners."""
        self.sublist.listener = _with(self.sublist.listener, listener, SeveralListeners)

    def remove_listener(self, listener: "InterestListener") -> None:
        """Stop calling `listener`."""
        self.sublist.listener = _without(self.sublist.listener, listener)

    def add_watcher(self, watcher: InterestWatcher) -> None:
        """Notify `watcher` of every subscription from now on, in addition to the others."""
        self.watcher = _with(self.watcher, watcher, SeveralWatchers)

    def remove_watcher(self, watcher: InterestWatcher) -> None:
        """Show it nothing more."""
        self.watcher = _without(self.watcher, watcher)

    def interest(self) -> list[tuple[bytes, bytes | None]]:
        """List the subjects that there is interest in, each plain or with a queue group."""
        return self.sublist.interest()

    def __repr__(self) -> str:
        clients, subscriptions = len(self.clients), len(self.sublist)
        return f"<Account {self.name} {clients} clients {subscriptions} subscriptions>"


class Several:
    """Several listeners, or watchers, as one, which is all that there is room for."""

    def __init__(self, members: list[Any]) -> None:
        self.members = members


class SeveralListeners(Several):
    """Several listeners of an account's interest."""

    def interest_began(self, subject: bytes, queue: bytes | None) -> None:
        """Pass on that there is interest."""
        for listener in tuple(self.members):
            listener.interest_began(subject, queue)

    def interest_ended(self, subject: bytes, queue: bytes | None) -> None:
        """Announce the end of interest."""
        for listener in tuple(self.members):
            listener.interest_ended(subject, queue)

    def group_resized(self, subject: bytes, queue: bytes, members: int) -> None:
        """Announce the new number of members of a queue group."""
        for listener in tuple(self.members):
            listener.group_resized(subject, queue, members)

    def remote_changed(self, subject: bytes, queue: bytes | None) -> None:
        """Pass on a change of the interest behind a link."""
        for listener in tuple(self.members):
            listener.remote_changed(subject, queue)


class SeveralWatchers(Several):
    """Several watchers of an account."""

    def added(self, subscription: Subscription) -> None:
        """Show a subscription that has come in."""
        for watcher in tuple(self.members):
            watcher.added(subscription)

    def removed(self, subscription: Subscription) -> None:
        """Show one that has left."""
        for watcher in tuple(self.members):
            watcher.removed(subscription)


def _with(present: Any, one: Any, several: type[Several]) -> Any:
    """Return an object that forwards to `present`, unless it is None, and to `one`."""
    if present is None:
        return one
    if isinstance(present, several):
        present.members.append(one)
        return present
    return several([present, one])


def _without(present: Any, one: Any) -> Any:
    """Return the object that forwards to `present` without `one`; None if no other is left."""
    if present is one:
        return None
    if isinstance(present, Several) and one in present.members:
        present.members.remove(one)
    return present
