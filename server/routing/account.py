"""An account: an isolated subject space with its own SubList and its own counts."""

from typing import TYPE_CHECKING, Protocol

from midge.server.config.account_names import SYSTEM_ACCOUNT
from midge.sublist.sublist import SubList, SubListError
from midge.sublist.subscription import Subscription

if TYPE_CHECKING:
    from midge.sublist.listener import InterestListener


class Mapper(Protocol):
    """Rewrites published subjects; `steps` counts its work in steps of a SubList."""

    steps: int

    def map(self, subject: bytes) -> bytes | None:
        """Return what becomes of `subject`; None when the message is dropped."""

    def sources(self) -> list[bytes]:
        """List the subjects that are mapped."""


class InterestWatcher(Protocol):
    """Watches subscriptions being added and removed, such as to tell another process of them."""

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
        self.mapper: Mapper | None = None  # when the account has mappings
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
        """Tell `listener`, too, of what `interest_listener` is told."""
        present = self.sublist.listener
        if present is None:
            self.sublist.listener = listener
        elif isinstance(present, SeveralListeners):
            present.listeners.append(listener)
        else:
            self.sublist.listener = SeveralListeners([present, listener])

    def remove_listener(self, listener: "InterestListener") -> None:
        """Stop telling `listener`."""
        present = self.sublist.listener
        if present is listener:
            self.sublist.listener = None
        elif isinstance(present, SeveralListeners) and listener in present.listeners:
            present.listeners.remove(listener)

    def add_watcher(self, watcher: InterestWatcher) -> None:
        """Have `watcher`, too, see every subscription from now on."""
        present = self.watcher
        if present is None:
            self.watcher = watcher
        elif isinstance(present, SeveralWatchers):
            present.watchers.append(watcher)
        else:
            self.watcher = SeveralWatchers([present, watcher])

    def remove_watcher(self, watcher: InterestWatcher) -> None:
        """Show it nothing more."""
        present = self.watcher
        if present is watcher:
            self.watcher = None
        elif isinstance(present, SeveralWatchers) and watcher in present.watchers:
            present.watchers.remove(watcher)

    def interest(self) -> list[tuple[bytes, bytes | None]]:
        """List the subjects that there is interest in, each plain or with a queue group."""
        return self.sublist.interest()

    def __repr__(self) -> str:
        clients, subscriptions = len(self.clients), len(self.sublist)
        return f"<Account {self.name} {clients} clients {subscriptions} subscriptions>"


class SeveralListeners:
    """Several listeners of an account's interest as one, which is all that a SubList has."""

    def __init__(self, listeners: "list[InterestListener]") -> None:
        self.listeners = listeners

    def interest_began(self, subject: bytes, queue: bytes | None) -> None:
        """Pass on that there is interest."""
        for listener in tuple(self.listeners):
            listener.interest_began(subject, queue)

    def interest_ended(self, subject: bytes, queue: bytes | None) -> None:
        """Pass on that there is none any more."""
        for listener in tuple(self.listeners):
            listener.interest_ended(subject, queue)

    def group_resized(self, subject: bytes, queue: bytes, members: int) -> None:
        """Pass on how many members a queue group has."""
        for listener in tuple(self.listeners):
            listener.group_resized(subject, queue, members)

    def remote_changed(self, subject: bytes, queue: bytes | None) -> None:
        """Pass on that a link has told something."""
        for listener in tuple(self.listeners):
            listener.remote_changed(subject, queue)


class SeveralWatchers:
    """Several watchers of an account as one, which is all that it has."""

    def __init__(self, watchers: list[InterestWatcher]) -> None:
        self.watchers = watchers

    def added(self, subscription: Subscription) -> None:
        """Show a subscription that has come in."""
        for watcher in tuple(self.watchers):
            watcher.added(subscription)

    def removed(self, subscription: Subscription) -> None:
        """Show one that has left."""
        for watcher in tuple(self.watchers):
            watcher.removed(subscription)
