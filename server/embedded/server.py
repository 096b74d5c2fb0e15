"""The server as a library: `async with midge.Server(port=-1) as server:`.

This is a facade over `midge.server.server.Server`, which the daemon runs: keyword options, URLs for
clients, direct access to the router, and snapshots of its state. Nothing here is on the message
path of clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Self, Unpack
from urllib.parse import quote

from msgspec.structs import replace

from midge.protocol.errors import MidgeError
from midge.server import server as core
from midge.server.auth.passwords import is_bcrypt
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.config.from_keywords import options_from_keywords
from midge.server.config.options import Keepalive, ServerProcesses, User
from midge.server.embedded import restarts
from midge.server.embedded.direct import PENDING_MAX, Direct
from midge.server.errors import ConfigError
from midge.server.listeners.sockets import host_in_url
from midge.server.preflight import require_packages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from midge.jetstream.store.disk import SuppliedDisk
    from midge.protocol.headers import Headers
    from midge.server.broker.broker import Broker
    from midge.server.clock import Clock
    from midge.server.config.keywords import Keywords
    from midge.server.config.options import Options
    from midge.server.embedded.direct import Callback, DirectSubscription
    from midge.server.embedded.faults import Faults
    from midge.server.embedded.inbox import Message
    from midge.server.embedded.jetstream import JetStream
    from midge.server.embedded.snapshots import ConnectionView, Stats, SubscriptionView
    from midge.server.interceptors.api import Interceptor
    from midge.server.jetstream.engine import Engine

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - to connect to  # nosec B104 - compared, not bound
_NEVER_S = 20 * 365 * 86400.0
_LOOP_TICKS_AFTER_STOP = 3  # turns for cancelled tasks and closed transports to finish


class Server:
    """A NATS server within the running event loop, of uvloop or asyncio.

    Settings are keyword arguments (`port=-1` takes a free port, `user=`, `token=`, `max_payload=`,
    …), an `Options` structure, or both; keywords take precedence. `interceptors` maps `connect`,
    `subscribe`, `publish` and `deliver` to functions, or to their names `module:function`; see
    `intercept`. `clock`, `random` and `seed` replace real time and randomness in tests, and `disk`,
    a `midge.testing.SimulatedDisk`, replaces the directory of file streams. With JetStream on and a
    virtual clock, clients get no PINGs unless `ping_interval` is set, because they cannot answer
    while a test advances the clock.

    Raises:
        ConfigError: an unknown option, a wrong value, or two that contradict each other.
    """

    def __init__(
        self,
        options: Options | None = None,
        /,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        seed: int | None = None,
        disk: SuppliedDisk | None = None,
        interceptors: Mapping[str, Any] | None = None,
        **settings: Unpack[Keywords],
    ) -> None:
        keywords: dict[str, Any] = dict(settings)
        if clock is not None and not hasattr(clock, "call_later"):
            expected = "expected a clock such as midge.testing.ManualClock()"
            raise ConfigError(f"{expected}, got {clock!r:.60}", key="clock")
        chance = random or (None if seed is None else Random(seed))  # noqa: S311 - for queues
        self._interceptors, named = _split_interceptors(interceptors)
        if named is not None:
            keywords["interceptors"] = named
        given = require_packages(options_from_keywords(options, keywords))
        if given.server.workers != 1:
            text = "a server within a program is one process; midge-server has workers"
            raise ConfigError(text, key="server.workers")
        if given.server.busy_poll_us != ServerProcesses().busy_poll_us:
            text = "a server within a program shares its loop, and always sleeps"
            raise ConfigError(text, key="server.busy_poll_us")
        if getattr(clock, "is_exact", False) and given.jetstream.enabled:
            given = _without_pings(given)
        if disk is not None and not given.jetstream.enabled:
            raise ConfigError("a disk is for file streams; it needs jetstream=True", key="disk")
        self._disk = disk
        self._clock = clock
        self._random = chance
        self.watchers: list[Callable[[Server], object]] = []
        self._core = core.Server(given, clock=clock, random=chance, disk=disk)
        self._direct: Direct | None = None
        self._restarting: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._faults: Faults | None = None

    # Start, stop and settings.

    async def start(self) -> Self:
        """Open the listeners and return the server.

        Raises:
            OSError: an address cannot be bound.
            ConfigError: the settings name invalid files or rules.
        """
        if self._direct is not None:
            raise MidgeError("the server has been started already")
        self._direct = Direct(self._core.broker)
        self._core.broker.intercept(self._interceptors)
        try:
            await self._core.start()
        except BaseException:
            await self._stop_running()
            raise
        for watch in self.watchers:
            watch(self)
        return self

    async def stop(self) -> None:
        """Write pending output and close everything; no task, socket or timer is left."""
        task, self._restarting = self._restarting, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if self._ending is not None:
            await self._ending
        await self._stop_running()

    async def restart(self, down_s: float = 0.0, *, power_failure: bool = False) -> None:
        """Stop, stay down for `down_s`, and start again on the same ports and the same store.

        Subscriptions of the process and faults end, and clients lose their connections; streams
        without a directory or a `disk` are lost. With `power_failure`, connections break at once,
        and the simulated disk loses unsynced data. A clock of a test advances by `down_s`.

        Raises:
            MidgeError: the server does not run, or has no simulated disk to fail.
            OSError: another program has taken a port meanwhile.
        """
        direct = self._started()
        options = restarts.on_same_ports(self._core)
        disk = restarts.failing_disk(self._disk) if power_failure else None
        left = None if disk is None else disk.power_failed()
        if disk is not None:
            for subscription in list(direct.subscriptions):
                subscription.unsubscribe()
            self._core.broker.abort_all()
        self._ending = asyncio.ensure_future(self._stop_running())
        await asyncio.shield(self._ending)
        if disk is not None and left is not None:
            disk.become(left)
        self._core = core.Server(options, clock=self._clock, random=self._random, disk=self._disk)
        await restarts.stay_down(self._clock, down_s)
        await self.start()

    def _restart_soon(self, down_s: float, power_failure: bool) -> None:
        """Restart in the background; `stop` also ends a restart."""
        restart = self.restart(down_s, power_failure=power_failure)
        self._restarting = asyncio.ensure_future(restart)

    async def _stop_running(self) -> None:
        if self._direct is not None:
            if self._faults is not None:
                self._faults.clear()
                self._faults = None
            await self._direct.close()
            self._direct = None
            await self._core.stop()
            for _ in range(_LOOP_TICKS_AFTER_STOP):
                await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def reload(self, options: Options | None = None, /, **settings: Unpack[Keywords]) -> None:
        """Apply new settings that can change while serving; keywords are merged into the old ones.

        Raises:
            ConfigError: they are invalid, or would change a fixed setting. Nothing has changed.
        """
        given = options_from_keywords(options or self.options, settings)
        await self._core.reload(require_packages(given))

    async def lame_duck(self) -> None:
        """Refuse new clients, inform the others, and close them one by one; then return."""
        await self._core.lame_duck()

    def intercept(
        self,
        *,
        connect: Interceptor | None = None,
        subscribe: Interceptor | None = None,
        publish: Interceptor | None = None,
        deliver: Interceptor | None = None,
    ) -> None:
        """Use these interceptors from now on, and the configured ones for the other events.

        See `midge.server.interceptors` for their arguments and results. Call it before `start` or
        in the loop's thread. Connected clients are not checked again.
        """
        given = {
            "connect": connect,
            "subscribe": subscribe,
            "publish": publish,
            "deliver": deliver,
        }
        self._interceptors = {name: one for name, one in given.items() if one is not None}
        if self._direct is not None:
            self._core.broker.intercept(self._interceptors)

    # State.

    @property
    def options(self) -> Options:
        """The settings in force."""
        return self._core.options

    @property
    def disk(self) -> SuppliedDisk | None:
        """The disk that the server was given for its file streams."""
        return self._disk

    @property
    def jetstream_engine(self) -> Engine | None:
        """The internals of JetStream, for extensions like `broker`; None if JetStream is off."""
        return self._core.jetstream

    @property
    def broker(self) -> Broker:
        """The server's internals, for extensions; they may change with every version."""
        self._started()
        return self._core.broker

    @property
    def hub(self) -> Broker:
        """The same object as `broker`, under its documented name."""
        return self.broker

    @property
    def host(self) -> str:
        """The address for clients on this machine."""
        bound = self.broker.host
        return _ANY_ADDRESS.get(bound, bound)

    @property
    def port(self) -> int:
        """The port that clients connect to."""
        return self.broker.port

    @property
    def url(self) -> str:
        """The URL for clients, without credentials."""
        return self._url("")

    @property
    def leafnode_url(self) -> str:
        """The URL that other servers connect to as leaf nodes; empty without `leafnodes.port`."""
        return "".join(self._core.urls().get("leafnodes", ()))

    @property
    def cluster_url(self) -> str:
        """The URL that other servers of the cluster connect to; empty without `cluster.port`."""
        return "".join(self._core.urls().get("cluster", ()))

    @property
    def links(self) -> list[str]:
        """The names of the servers that are linked to this one: routes, then leaf nodes."""
        return self._core.links()

    def client_url(self, user: str | None = None) -> str:
        """Return the URL with the credentials of `user`, or with the shared ones.

        Raises:
            ValueError: no such user, or only a hash of the password is known here.
        """
        authorization = self.options.authorization
        if user is None and authorization.token:
            return self._url(f"{_secret(authorization.token, 'the token')}@")
        for known in self._users():
            if user in (None, known.user):
                password = _secret(known.password, f"the password of {known.user!r}")
                return self._url(f"{quote(known.user, safe='')}:{password}@")
        if user is None:
            return self.url
        names = ", ".join(repr(known.user) for known in self._users())
        expected = f"expected one of {names}" if names else "expected none, for none is configured"
        raise ValueError(f"user: {expected}, got {user!r}")

    @property
    def connections(self) -> list[ConnectionView]:
        """The live client connections."""
        from midge.server.embedded.snapshots import view_connection  # noqa: PLC0415 - not needed to start

        return [view_connection(connection) for connection in self.broker.clients.values()]

    @property
    def subscriptions(self) -> list[SubscriptionView]:
        """The subscriptions of all clients, and of the process itself."""
        from midge.server.embedded.snapshots import view_subscriptions  # noqa: PLC0415 - as above

        return view_subscriptions(self.broker, self._started())

    @property
    def stats(self) -> Stats:
        """Counts since the start."""
        from midge.server.embedded.snapshots import view_stats  # noqa: PLC0415 - as above

        return view_stats(self.broker, self._started())

    @property
    def faults(self) -> Faults:
        """Fault injection, for tests of the server's clients."""
        self._started()
        if self._faults is None:
            from midge.server.embedded.faults import Faults  # noqa: PLC0415 - few need it

            self._faults = Faults(self._core, self._restart_soon)
        return self._faults

    @property
    def jetstream(self) -> JetStream:
        """The streams and key-value buckets of the global account; see `jetstream_of`.

        Raises:
            MidgeError: streams are off.
        """
        return self.jetstream_of(GLOBAL_ACCOUNT)

    def jetstream_of(self, account: str) -> JetStream:
        """Return access to the streams and key-value buckets of an account, without a socket.

        Raises:
            MidgeError: streams are off.
            ValueError: the account does not exist.
        """
        from midge.server.embedded.jetstream import JetStream  # noqa: PLC0415 - few need it

        direct = self._started()
        if not self.options.jetstream.enabled:
            raise MidgeError("streams are off; start the server with jetstream=True or a directory")
        direct.known_account(account)
        return JetStream(direct, account)

    # Direct access.

    def publish(
        self,
        subject: str | bytes,
        payload: bytes | str = b"",
        headers: Headers | None = None,
        reply: str | bytes | None = None,
        *,
        account: str = GLOBAL_ACCOUNT,
    ) -> int:
        """Publish a message without a socket; return how many subscriptions have taken it.

        The server writes to clients at the end of this turn of the loop. Call it only from the
        loop's thread.

        Raises:
            ValueError: the subject is invalid for publishing, or the payload is too large.
            TypeError: the payload is neither bytes nor text.
        """
        direct = self._direct or self._started()
        return direct.send(subject, payload, headers, reply, account)

    def subscribe(
        self,
        pattern: str | bytes,
        callback: Callback | None = None,
        queue: str | bytes | None = None,
        *,
        account: str = GLOBAL_ACCOUNT,
        pending_max: int = PENDING_MAX,
    ) -> DirectSubscription:
        """Subscribe without a socket: `callback`, plain or async, is called with every `Message`.

        Without a callback, iterate over the subscription or await its `next`. At most `pending_max`
        messages wait for a slow receiver; further ones are dropped and counted.

        Raises:
            ValueError: the pattern or the queue name is invalid.
        """
        direct = self._started()
        return direct.subscribe(pattern, callback, queue, account, pending_max)

    async def request(
        self,
        subject: str | bytes,
        payload: bytes | str = b"",
        timeout_s: float = 1.0,
        headers: Headers | None = None,
        *,
        account: str = GLOBAL_ACCOUNT,
    ) -> Message:
        """Publish a request and return the first answer.

        Raises:
            NoRespondersError: the request has no responders.
            TimeoutError: no answer arrived in time.
            ValueError: as `publish`.
        """
        direct = self._started()
        return await direct.request(subject, payload, timeout_s, headers, account)

    def __repr__(self) -> str:
        state = "stopped" if self._direct is None else self.url
        return f"<midge.Server {state}>"

    if not TYPE_CHECKING:  # a type checker names the missing method by itself

        def __enter__(self) -> None:
            raise TypeError(
                "use `async with midge.Server(…)` in a coroutine, "
                "or `with midge.run_in_thread(…)` without an event loop"
            )

        def __exit__(self, *_: object) -> None:
            """Exist beside `__enter__`, which explains the mistake."""

    # Internals.

    def _started(self) -> Direct:
        if self._direct is None:
            if self._restarting is not None and not self._restarting.done():
                raise MidgeError("the server is down; it restarts")
            raise MidgeError("the server is not running; use `async with` or await `start()` first")
        return self._direct

    def _url(self, credentials: str) -> str:
        scheme = "tls" if self.options.tls.enabled else "nats"
        return f"{scheme}://{credentials}{host_in_url(self.host)}:{self.port}"

    def _users(self) -> Iterator[User]:
        """Yield all users with a name and a password."""
        authorization = self.options.authorization
        if authorization.user:
            yield User(user=authorization.user, password=authorization.password)
        yield from (user for user in authorization.users if user.user)
        for account in self.options.accounts:
            yield from (user for user in account.users if user.user)


def _without_pings(options: Options) -> Options:
    """Return the options with an interval of years for PINGs, unless it is set."""
    if options.keepalive.ping_interval_s != Keepalive().ping_interval_s:
        return options
    keepalive = replace(options.keepalive, ping_interval_s=_NEVER_S)
    return replace(options, keepalive=keepalive)


def _split_interceptors(
    given: Mapping[str, Any] | None,
) -> tuple[dict[str, Interceptor], Mapping[str, Any] | None]:
    """Separate functions from settings. Raises: ConfigError for a function of an unknown event."""
    if not isinstance(given, Mapping):
        return {}, given
    functions = {name: one for name, one in given.items() if callable(one)}
    if not functions:
        return {}, given
    from midge.server.interceptors.api import EVENTS  # noqa: PLC0415 - only for servers with some

    for name in functions.keys() - set(EVENTS):
        raise ConfigError(f"expected one of {', '.join(EVENTS)}", key=f"interceptors.{name}")
    return functions, {name: one for name, one in given.items() if name not in functions}


def _secret(text: str, what: str) -> str:
    """Return a secret for a URL. Raises: ValueError when only its hash is known."""
    if is_bcrypt(text):
        raise ValueError(f"{what} is configured as a bcrypt hash, so no URL can be made of it")
    # Only the characters that a URL cannot hold, because nats-py never unquotes.
    return quote(text, safe="!$&'()*+,;=~")
