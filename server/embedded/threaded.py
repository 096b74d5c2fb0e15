"""A server in its own thread, for programs without an event loop."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

from midge.protocol.errors import MidgeError
from midge.protocol.text import decode
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.embedded.direct import PENDING_MAX
from midge.server.embedded.server import Server
from midge.server.embedded.server_thread import ServerThread

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from midge.jetstream.store.disk import SuppliedDisk
    from midge.protocol.headers import Headers
    from midge.server.clock import Clock
    from midge.server.config.keywords import Keywords
    from midge.server.config.options import Options
    from midge.server.embedded.direct import Callback, DirectSubscription
    from midge.server.embedded.fault_kinds import Fault
    from midge.server.embedded.faults import Faults
    from midge.server.embedded.inbox import Message
    from midge.server.embedded.snapshots import ConnectionView, Stats, SubscriptionView
    from midge.server.embedded.threaded_jetstream import ThreadedJetStream
    from midge.server.interceptors.api import Interceptor


def run_in_thread(
    options: Options | None = None,
    /,
    *,
    clock: Clock | None = None,
    random: Random | None = None,
    seed: int | None = None,
    disk: SuppliedDisk | None = None,
    interceptors: Mapping[str, Any] | None = None,
    **settings: Unpack[Keywords],
) -> ThreadedServer:
    """Start a server in a thread and return once clients can connect; same arguments as `Server`.

    Use it in a `with` block, or call `stop()` at the end.

    Raises:
        OSError: the address cannot be bound.
        ConfigError: the settings are invalid.
    """
    server = Server(
        options,
        clock=clock,
        random=random,
        seed=seed,
        disk=disk,
        interceptors=interceptors,
        **settings,
    )
    return ThreadedServer(server)


class ThreadedServer(ServerThread):
    """A running server whose loop is in another thread; its methods are thread-safe.

    Callbacks of subscriptions run in the server's thread, so they must be fast and must not wait
    for the server: `request`, `wait` and `stop` raise in that thread.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = self.url if self.is_running else "stopped"
        return f"<midge.ThreadedServer {state}>"

    @property
    def options(self) -> Options:
        """The settings in force."""
        return self._server.options

    @property
    def host(self) -> str:
        """The address for clients on this machine."""
        return self.call(lambda server: server.host)

    @property
    def port(self) -> int:
        """The port that clients connect to."""
        return self.call(lambda server: server.port)

    @property
    def url(self) -> str:
        """The URL for clients, without credentials."""
        return self.call(lambda server: server.url)

    @property
    def leafnode_url(self) -> str:
        """The URL that leaf nodes connect to; empty without `leafnodes.port`."""
        return self.call(lambda server: server.leafnode_url)

    @property
    def cluster_url(self) -> str:
        """The URL that servers of the cluster connect to; empty without `cluster.port`."""
        return self.call(lambda server: server.cluster_url)

    @property
    def links(self) -> list[str]:
        """The names of the servers that are linked to this one: routes, then leaf nodes."""
        return self.call(lambda server: server.links)

    def client_url(self, user: str | None = None) -> str:
        """Return the URL with the credentials of `user`; see `Server.client_url`."""
        return self.call(lambda server: server.client_url(user))

    @property
    def connections(self) -> list[ConnectionView]:
        """The live client connections."""
        return self.call(lambda server: server.connections)

    @property
    def subscriptions(self) -> list[SubscriptionView]:
        """The subscriptions of all clients, and of the process itself."""
        return self.call(lambda server: server.subscriptions)

    @property
    def stats(self) -> Stats:
        """Counts since the start."""
        return self.call(lambda server: server.stats)

    def publish(
        self,
        subject: str | bytes,
        payload: bytes | str = b"",
        headers: Headers | None = None,
        reply: str | bytes | None = None,
        *,
        account: str = GLOBAL_ACCOUNT,
    ) -> int:
        """Publish a message; see `Server.publish`."""
        __tracebackhide__ = True
        return self.call(
            lambda server: server.publish(subject, payload, headers, reply, account=account)
        )

    def subscribe(
        self,
        pattern: str | bytes,
        callback: Callback | None = None,
        queue: str | bytes | None = None,
        *,
        account: str = GLOBAL_ACCOUNT,
        pending_max: int = PENDING_MAX,
    ) -> ThreadedSubscription:
        """Subscribe; `callback` runs in the server's thread. See `Server.subscribe`.

        Without a callback, iterate over the subscription or call its `next`, both of which block.
        """
        __tracebackhide__ = True
        inner = self.call(
            lambda server: server.subscribe(
                pattern, callback, queue, account=account, pending_max=pending_max
            )
        )
        return ThreadedSubscription(self, inner)

    def unsubscribe(self, subscription: ThreadedSubscription) -> None:
        """End a subscription."""
        subscription.unsubscribe()

    def request(
        self,
        subject: str | bytes,
        payload: bytes | str = b"",
        timeout_s: float = 1.0,
        headers: Headers | None = None,
        *,
        account: str = GLOBAL_ACCOUNT,
    ) -> Message:
        """Publish a request and return the first answer; see `Server.request`."""
        __tracebackhide__ = True
        return self.wait(
            lambda server: server.request(subject, payload, timeout_s, headers, account=account)
        )

    def reload(self, options: Options | None = None, /, **settings: Unpack[Keywords]) -> None:
        """Apply new settings that can change while serving; see `Server.reload`."""
        __tracebackhide__ = True
        self.wait(lambda server: server.reload(options, **settings))

    def lame_duck(self) -> None:
        """Refuse new clients, close the others one by one, and return when all are closed."""
        __tracebackhide__ = True
        self.wait(lambda server: server.lame_duck())

    def restart(self, down_s: float = 0.0, *, power_failure: bool = False) -> None:
        """Stop, and start again on the same ports and store; see `Server.restart`."""
        __tracebackhide__ = True
        self.wait(lambda server: server.restart(down_s, power_failure=power_failure))

    def intercept(self, **interceptors: Interceptor | None) -> None:
        """Use these interceptors from now on, in the server's thread; see `Server.intercept`."""
        __tracebackhide__ = True
        self.call(lambda server: server.intercept(**interceptors))

    @property
    def jetstream(self) -> ThreadedJetStream:
        """The streams and key-value buckets of the global account; see `jetstream_of`.

        Raises:
            MidgeError: streams are off.
        """
        return self.jetstream_of(GLOBAL_ACCOUNT)

    def jetstream_of(self, account: str) -> ThreadedJetStream:
        """Return access to an account's streams, by methods that block; see `Server.jetstream_of`.

        Raises:
            MidgeError: streams are off.
            ValueError: the account does not exist.
        """
        __tracebackhide__ = True
        from midge.server.embedded.threaded_jetstream import ThreadedJetStream  # noqa: PLC0415 - few need it

        self.call(lambda server: server.jetstream_of(account))
        return ThreadedJetStream(self, account)

    @property
    def faults(self) -> Faults:
        """Fault injection; see `Server.faults`. Faults are started and ended from this thread."""
        return cast("Faults", _FaultsElsewhere(self))


class _FaultsElsewhere:
    """The faults of a server in another thread: each starts and ends in that thread."""

    def __init__(self, server: ServerThread) -> None:
        self._server = server

    def __getattr__(self, name: str) -> Any:
        from midge.server.embedded.faults import Faults, unknown_fault  # noqa: PLC0415 - few need it

        if not hasattr(Faults, name):
            raise AttributeError(unknown_fault(name))

        def begin(*arguments: Any, **settings: Any) -> Any:
            __tracebackhide__ = True
            fault = self._server.wait(partial(_begin, name, arguments, settings))
            return None if fault is None else _FaultElsewhere(self._server, fault)

        return begin


class _FaultElsewhere:
    """One fault of a server in another thread."""

    def __init__(self, server: ServerThread, fault: Fault) -> None:
        self._server = server
        self._fault = fault

    @property
    def hits(self) -> int:
        """How often the fault has struck."""
        return self._fault.hits

    def end(self) -> None:
        """End the fault."""
        self._server.call(lambda _: self._fault.end())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


async def _begin(
    name: str, arguments: tuple[Any, ...], settings: dict[str, Any], server: Server
) -> Any:
    """Call a method of the server's faults, and await its result if it is async."""
    __tracebackhide__ = True
    begun = getattr(server.faults, name)(*arguments, **settings)
    return await begun if inspect.isawaitable(begun) else begun


class ThreadedSubscription:
    """The result of `ThreadedServer.subscribe`; its methods are thread-safe.

    With a callback, each message is passed to it in the server's thread; without one, iterate or
    call `next`. It ends with its `with` block, or by `unsubscribe`.
    """

    def __init__(self, server: ServerThread, inner: DirectSubscription) -> None:
        self._server = server
        self._inner = inner

    @property
    def subject(self) -> str:
        """The pattern of the subscription."""
        return decode(self._inner.subject)

    @property
    def queue(self) -> str | None:
        """The queue group, or None."""
        return None if self._inner.queue is None else decode(self._inner.queue)

    @property
    def dropped(self) -> int:
        """The number of messages dropped because too many waited."""
        return self._inner.dropped

    def pending(self) -> int:
        """Count the messages that wait for the receiver."""
        return self._inner.pending()

    def next(self, timeout_s: float | None = None) -> Message:
        """Block until the next message, and return it.

        Raises:
            TimeoutError: none arrived within `timeout_s`, by the server's clock.
            MidgeError: the subscription or the server has ended.
        """
        return self._server.wait(lambda _: self._inner.next(timeout_s))

    def unsubscribe(self) -> None:
        """End the subscription; waiting messages are still delivered.

        A second call does nothing.
        """
        if self._server.is_running:
            self._server.call(lambda _: self._inner.unsubscribe())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        try:
            return self.next()
        except MidgeError:
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unsubscribe()

    def __repr__(self) -> str:
        queue = "" if self.queue is None else f" queue={self.queue!r}"
        return f"<midge.ThreadedSubscription {self.subject!r}{queue}>"
