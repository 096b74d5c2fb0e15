"""Screens: hooks that may delay, change or refuse messages, and are called one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from midge.server.routing.router import DEFERRED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from midge.protocol.frame import Frame
    from midge.protocol.messages import Info
    from midge.server.clients.connection import Connection
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client
    from midge.server.routing.subscription import RoutedSubscription
    from midge.sublist.subscription import Subscription


class Screen:
    """A hook that may delay, change or drop messages; this one lets all of them pass."""

    decides = False
    """Whether +OK to a verbose client waits until this has passed its message."""

    def screens_publishes(self, connection: Connection) -> bool:
        """Return whether a publish of `connection` must be shown."""
        return True

    def screens_deliveries(self, connection: Connection) -> bool:
        """Return whether a delivery to `connection` must be shown."""
        return True

    def publish(self, passage: Passage) -> None:
        """Decide on a published message: `passage.go_on`, now or later, lets it pass."""
        passage.go_on()

    def deliver(
        self,
        connection: Connection,
        subscription: RoutedSubscription,
        publisher: Client | None,
        frame: Frame,
    ) -> Frame | None:
        """Return the frame for `connection`, None for a refusal, or the router's DEFERRED."""
        return frame

    def edit_info(self, info: Info) -> None:
        """Change the INFO that a connection gets."""


class Passage:
    """A published message that passes `screens` before it reaches the router.

    `publisher` is None for the process itself, whose messages `route` delivers in the end. `taken`
    is the number of receivers; it is 1 while a screen keeps the message and the number is unknown.
    """

    __slots__ = (
        "_commands",
        "_is_accepted",
        "_is_replaced",
        "_left",
        "_route",
        "account",
        "frame",
        "publisher",
        "taken",
    )

    def __init__(
        self,
        screens: tuple[Screen, ...],
        account: Account,
        publisher: Connection | None,
        frame: Frame,
        route: Callable[[Account, bytes, Frame], int] | None = None,
    ) -> None:
        self.account = account
        self.publisher = publisher
        self.frame = frame
        self.taken = 1
        self._commands = None if publisher is None else publisher.commands
        self._left: Iterator[Screen] = iter(screens)
        self._route = route
        self._is_accepted = False
        self._is_replaced = False

    def go_on(self) -> None:
        """Show the message to the next screen; after the last one, route it."""
        screen = next(self._left, None)
        if screen is None or not screen.decides:
            self._accept()
        if screen is not None:
            self.taken = 1
            screen.publish(self)
        elif self._route is not None:
            self.taken = self._route(self.account, self.frame.subject_bytes(), self.frame)
        elif self._commands is not None and self._is_replaced:
            self._commands.route_apart(self.frame)
        elif self._commands is not None:
            self._commands.route_mapped(self.frame)

    def go_on_with(self, frame: Frame) -> None:
        """Go on with `frame` in place of the message; a frame that goes on later must be a copy."""
        self.frame = frame
        self._is_replaced = True
        self.go_on()

    def refuse(self) -> None:
        """Drop the message and set `taken` to 0."""
        self.taken = 0

    def _accept(self) -> None:
        """Send +OK to a verbose client, once."""
        if self._is_accepted:
            return
        self._is_accepted = True
        publisher, commands = self.publisher, self._commands
        if publisher is not None and commands is not None and publisher.options.verbose:
            commands.send_ok()


class Screens:
    """The screens of one server, in the order in which they are asked."""

    def __init__(self) -> None:
        self._all: tuple[Screen, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, screen: Screen) -> None:
        """Add `screen` unless it is there; screens that decide come first."""
        self.remove(screen)
        self._all = tuple(sorted((*self._all, screen), key=lambda one: not one.decides))

    def remove(self, screen: Screen) -> None:
        """Remove `screen`; messages that are passing the screens are still shown to it."""
        self._all = tuple(one for one in self._all if one is not screen)

    def attach(self, connection: Connection) -> None:
        """Set the checks of `connection` that the screens need."""
        connection.screen(
            any(screen.screens_publishes(connection) for screen in self._all),
            any(screen.screens_deliveries(connection) for screen in self._all),
        )

    def publish(self, connection: Connection, frame: Frame) -> None:
        """Route a message that the client of `connection` publishes, unless a screen objects."""
        Passage(self._all, connection.account, connection, frame).go_on()

    def publish_own(
        self, account: Account, frame: Frame, route: Callable[[Account, bytes, Frame], int]
    ) -> int:
        """Route a message of the process itself; return the number of receivers."""
        passage = Passage(self._all, account, None, frame, route)
        passage.go_on()
        return passage.taken

    def deliver(
        self,
        connection: Connection,
        subscription: Subscription,
        publisher: Client | None,
        frame: Frame,
    ) -> Frame | None:
        """Return the frame that `connection` gets, None for nothing, or the router's DEFERRED."""
        routed = cast("RoutedSubscription", subscription)
        for screen in self._all:
            seen = screen.deliver(connection, routed, publisher, frame)
            if seen is None or seen is DEFERRED:
                return seen
            frame = seen
        return frame

    def edit_info(self, info: Info) -> None:
        """Call each screen to change INFO for a connection."""
        for screen in self._all:
            screen.edit_info(info)
