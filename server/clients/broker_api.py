"""The broker as connections use it, for type checkers: nothing here runs.

A connection gets the Broker itself, which is in a later package and knows connections. These are
its members whose types a connection cannot import; everything else that it uses is a class of this
package or an earlier one. They are generic in the class of the connection, because it imports this
module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from midge.protocol.frame import Frame
    from midge.server.accounts.stream_link import OpenTrace
    from midge.server.clients.publish_quota import PublishQuotas
    from midge.server.clients.rights import Rights
    from midge.server.clock import Clock
    from midge.server.config.options import Options
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client
    from midge.server.routing.outbound import ChunkPool
    from midge.server.routing.router import Router
    from midge.server.routing.subscription import RoutedSubscription
    from midge.sublist.subscription import Subscription

Asking_contra = TypeVar("Asking_contra", contravariant=True)


class Waiting(Protocol):
    """The commands of one client that wait for interceptors."""

    def defer(self, command: Callable[..., object], *arguments: Any) -> None:
        """Run `command` when all commands before it are done."""

    def defer_connect(self, document: bytes) -> None:
        """Handle a CONNECT when all commands before it are done."""


class Admitter(Protocol[Asking_contra]):
    """Admits clients."""

    def requires_auth(self, connection: Asking_contra) -> bool:
        """Return whether a CONNECT may change the identity of a client."""

    def authenticate(self, connection: Asking_contra) -> None:
        """Authenticate the client."""

    def note_refused(self, connection: Asking_contra, detail: str) -> None:
        """Log that a client was refused."""


class Subscribing(Protocol[Asking_contra]):
    """The interception of subscriptions, called before a client subscribes."""

    def subscribe(
        self, connection: Asking_contra, subject: bytes, queue: bytes | None, sid: bytes
    ) -> None:
        """Subscribe for the client, now or later, if it is allowed."""


class Passing(Protocol[Asking_contra]):
    """The screens that messages pass."""

    def attach(self, connection: Asking_contra) -> None:
        """Set the checks of `connection` that the screens need."""

    def publish(self, connection: Asking_contra, frame: Frame) -> None:
        """Route a message that the client publishes, unless a screen objects."""

    def deliver(
        self,
        connection: Asking_contra,
        subscription: Subscription,
        publisher: Client | None,
        frame: Frame,
    ) -> Frame | None:
        """Return the frame that the client gets, None, or the router's DEFERRED."""


class Tracing(Protocol[Asking_contra]):
    """The source of traces for the messages that ask for them."""

    def begin(self, connection: Asking_contra, frame: Frame) -> OpenTrace | None:
        """Return the trace that the headers of `frame` ask for, or None."""


class BrokerApi(Protocol[Asking_contra]):
    """The members of the broker that a connection uses, besides the Host's for its channel."""

    options: Options
    global_account: Account
    system_account: Account

    @property
    def clock(self) -> Clock:
        """The only source of time."""

    @property
    def router(self) -> Router:
        """The router of messages."""

    @property
    def chunks(self) -> ChunkPool:
        """The pool of output chunks."""

    @property
    def clients(self) -> Container[int]:
        """The cids of the live connections."""

    @property
    def admission(self) -> Admitter[Asking_contra]:
        """Admission."""

    @property
    def rights(self) -> Rights:
        """The checks of clients' permissions and limits."""

    @property
    def quotas(self) -> PublishQuotas:
        """The quotas of messages and bytes a second."""

    @property
    def interception(self) -> Subscribing[Asking_contra] | None:
        """The interceptors, or None."""

    @property
    def screens(self) -> Passing[Asking_contra]:
        """The screens that messages pass."""

    @property
    def traces(self) -> Tracing[Asking_contra]:
        """The source of traces for the messages that ask for them."""

    @property
    def barrier(self) -> Callable[[Callable[[], None]], None] | None:
        """Calls a function when other workers have settled; None with a single process."""

    def jetstream_missed(self, account: str, frame: Frame) -> None:
        """Log that a request to JetStream had no receiver."""

    def ping_interval_s(self, listener_kind: str) -> float:
        """Return the seconds between PINGs to clients of a listener."""

    def connection_made(self, connection: Asking_contra) -> None:
        """Admit a connection, or refuse it."""

    def connection_lost(self, connection: Asking_contra) -> None:
        """Forget a connection whose transport is gone."""

    def client_connected(self, connection: Asking_contra) -> None:
        """Notify observers that the client was admitted."""

    def client_closed(self, connection: Asking_contra) -> None:
        """Count and log the end of the connection, and notify observers."""

    def error_sent(self, connection: Asking_contra, text: str) -> None:
        """Log and count an -ERR after which the connection goes on."""

    def info_line(self, connection: Asking_contra, *, connect_info: bool = False) -> bytes:
        """Return the INFO line for the client."""

    def subscribed(self, connection: Asking_contra, subscription: RoutedSubscription) -> None:
        """Notify observers of a new subscription."""

    def unsubscribed(
        self, connection: Asking_contra, subscription: RoutedSubscription, cause: str
    ) -> None:
        """Notify observers of the end of a subscription."""

    def settle(self, done: Callable[[], None]) -> None:
        """Call `done` when every worker knows of the subscriptions so far."""
