"""The interfaces of what the rooms above give to connections, for type checkers.

Nothing here runs: these are the shapes of the broker, of what it decides and of what waits for
interceptors. They are generic in the class of the client that publishes and in that of the whole
connection, which import this module and cannot be imported by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from midge.server.routing import outbound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from midge.protocol.frame import Frame
    from midge.server.clock import Clock
    from midge.server.config.options import Options
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client
    from midge.server.routing.outbound import ChunkPool
    from midge.server.routing.router import Router
    from midge.server.routing.subscription import RoutedSubscription
    from midge.sublist.result import SubListResult
    from midge.sublist.subscription import Subscription

Publisher_contra = TypeVar("Publisher_contra", contravariant=True)
Asking_contra = TypeVar("Asking_contra", contravariant=True)


class Transport(outbound.Transport, Protocol):
    """The methods of an asyncio transport that a channel uses."""

    def set_write_buffer_limits(self, *, high: int) -> None:
        """Say from how many waiting bytes on the writer is told to pause."""

    def get_extra_info(self, name: str) -> Any:
        """Return a fact about the transport; None when it is not known."""

    def pause_reading(self) -> None:
        """Stop reading."""

    def resume_reading(self) -> None:
        """Read on."""

    def can_write_eof(self) -> bool:
        """Tell whether one direction can be closed alone."""

    def write_eof(self) -> None:
        """Close the writing side once everything is written; reading continues."""

    def close(self) -> None:
        """Close, once everything is written."""

    def abort(self) -> None:
        """Close at once."""


class Trace(Protocol):
    """Notes what one client sends and what is sent to it."""

    def received(self, line: str) -> None:
        """Note a line from the client."""

    def sent(self, line: str) -> None:
        """Note a line to the client."""

    def connect_received(self, document: bytes) -> None:
        """Note a CONNECT."""

    def subscribe_received(self, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        """Note a SUB."""

    def unsubscribe_received(self, sid: bytes, max_messages: int) -> None:
        """Note an UNSUB."""

    def publish_received(self, frame: Frame) -> None:
        """Note a PUB or HPUB."""

    def message_sent(self, subscription: Subscription, frame: Frame) -> None:
        """Note a MSG or HMSG."""

    def subscription_removed(self, subscription: Subscription) -> None:
        """Note the end of a subscription."""


class Waiting(Protocol):
    """The commands of one client that wait for interceptors."""

    def defer(self, command: Callable[..., object], *arguments: Any) -> None:
        """Run `command` when all before it is done."""

    def defer_connect(self, document: bytes) -> None:
        """Handle a CONNECT when all before it is done."""


class Keys(Protocol):
    """The names that a server gives itself."""

    @property
    def server_id(self) -> str:
        """Its id."""


class Gate(Protocol[Asking_contra]):
    """Admits clients."""

    def asks_who(self, connection: Asking_contra) -> bool:
        """Tell whether a CONNECT may change the identity of a client."""

    def authenticate(self, connection: Asking_contra) -> None:
        """Authenticate the client."""

    def note_refused(self, connection: Asking_contra, detail: str) -> None:
        """Log that a client was not let in."""


class Rights(Protocol[Publisher_contra, Asking_contra]):
    """Answers what each client may do."""

    def refuse_subscription(
        self, connection: Asking_contra, subject: bytes, queue: bytes | None
    ) -> str | None:
        """Return the -ERR text for a subscription that may not be, or None."""

    def permits_delivery(
        self, connection: Publisher_contra, queue: bytes | None, frame: Frame
    ) -> bool:
        """Tell whether `frame` comes by a subject that is not denied, whatever it shows."""

    def refuse_publish(
        self, connection: Publisher_contra, subject: bytes, frame: Frame
    ) -> str | None:
        """Return the -ERR text for a message that may not be published, or None."""

    def refuse_reply(self, frame: Frame) -> str | None:
        """Return the -ERR text for a reply subject that no client may name, or None."""

    def grant_reply(self, connection: Asking_contra, frame: Frame) -> None:
        """Note that the client may answer the message that it is about to get."""


class Subscribing(Protocol[Asking_contra]):
    """The interception of subscriptions, asked before a client subscribes."""

    def subscribe(
        self, connection: Asking_contra, subject: bytes, queue: bytes | None, sid: bytes
    ) -> None:
        """Subscribe for the client, now or later, if it is allowed."""


class Passing(Protocol[Asking_contra]):
    """The screens that messages pass."""

    def attach(self, connection: Asking_contra) -> None:
        """Set the checks of `connection` to what the screens want to see."""

    def publish(self, connection: Asking_contra, frame: Frame) -> None:
        """Route what the client publishes, unless a screen objects."""

    def deliver(
        self,
        connection: Asking_contra,
        subscription: Subscription,
        publisher: Client | None,
        frame: Frame,
    ) -> Frame | None:
        """Return what the client gets of `frame`, None, or the router's SWALLOWED."""


class Hinting(Protocol):
    """The hints to the operator, each logged once."""

    def jetstream_missed(self, options: Options, account: str, frame: Frame) -> None:
        """Log that a request to JetStream had no receiver."""


class MessageTrace(Protocol):
    """The trace of one message that asks for it."""

    @property
    def is_void(self) -> bool:
        """Whether the message goes nowhere."""

    @property
    def refusal(self) -> str | None:
        """The -ERR for a destination that is not allowed, or None."""

    def go_on(self, subject: bytes, target: bytes, refusal: str | None) -> None:
        """Note that mappings make `target` of `subject`, and why it is refused, if it is."""

    def route(self, result: SubListResult, frame: Frame) -> int:
        """Deliver `frame`, or tell how it would be; return how many take it."""

    def send(self) -> None:
        """Publish the trace."""


class Tracing(Protocol[Publisher_contra]):
    """The source of traces for the messages that ask for them."""

    def begin(self, connection: Publisher_contra, frame: Frame) -> MessageTrace | None:
        """Return the trace that the headers of `frame` ask for, or None."""


class Home(Protocol[Publisher_contra, Asking_contra]):
    """The members of the broker that a connection uses, besides those of a Host for its channel."""

    options: Options
    global_account: Account
    system_account: Account

    @property
    def clock(self) -> Clock:
        """The only source of time."""

    @property
    def router(self) -> Router:
        """Where messages go."""

    @property
    def chunks(self) -> ChunkPool:
        """Where output piles up."""

    @property
    def clients(self) -> Mapping[int, Client]:
        """The live connections by cid."""

    @property
    def keys(self) -> Keys:
        """The names of the server."""

    @property
    def admission(self) -> Gate[Asking_contra]:
        """Admission."""

    @property
    def rights(self) -> Rights[Publisher_contra, Asking_contra]:
        """The checks of clients' permissions and limits."""

    @property
    def interception(self) -> Subscribing[Asking_contra] | None:
        """The interceptors, if there are any."""

    @property
    def screens(self) -> Passing[Asking_contra]:
        """The screens that messages pass."""

    @property
    def hints(self) -> Hinting:
        """The hints, each logged once."""

    @property
    def traces(self) -> Tracing[Publisher_contra]:
        """The source of traces for the messages that ask for them."""

    @property
    def barrier(self) -> Callable[[Callable[[], None]], None] | None:
        """Calls a function when other workers have settled; None with a single process."""

    def ping_interval_s(self, listener_kind: str) -> float:
        """Return the seconds between PINGs to clients of a listener."""

    def connection_made(self, connection: Asking_contra) -> None:
        """Take a connection in, or turn it away."""

    def connection_lost(self, connection: Asking_contra) -> None:
        """Forget a connection whose transport is gone."""

    def client_connected(self, connection: Asking_contra) -> None:
        """Tell observers that the client has been let in."""

    def client_closed(self, connection: Asking_contra) -> None:
        """Count, log and tell observers that the connection has ended."""

    def error_sent(self, connection: Publisher_contra, text: str) -> None:
        """Log and count an -ERR after which the connection goes on."""

    def info_line(self, connection: Asking_contra, *, connect_info: bool = False) -> bytes:
        """Return INFO as the client is to see it."""

    def subscribed(self, connection: Asking_contra, subscription: RoutedSubscription) -> None:
        """Tell observers of a subscription."""

    def unsubscribed(
        self, connection: Asking_contra, subscription: RoutedSubscription, cause: str
    ) -> None:
        """Tell observers of the end of one."""

    def settle(self, done: Callable[[], None]) -> None:
        """Call `done` when every worker knows of the subscriptions so far."""
