"""Connecting to another server: its address, a socket, TLS, its first line, and failures.

A server that cannot be reached is tried again and again. `Attempts` decides which failures are
logged, and `cause_of` says in a sentence the cause.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from midge.server.channels.channel_state import ChannelState
from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.loop_adapter import forget, protocol_for
from midge.server.listeners.sockets import bound_receive_buffer, host_in_url, is_loopback
from midge.server.log.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from midge.server.broker.broker import Broker
    from midge.server.config.options import Options
    from midge.server.listeners.websocket.client import WebSocketClient
    from midge.server.peers.link import Link

LINE_MAX_BYTES = 1 << 20
"""Longest first line: a server's INFO may have lists of permissions and of addresses."""

_CAUSES_MAX = 16
"""Most different causes of one row of failures that are logged; a few addresses have a few each."""

ENDED = "the other server closed the connection before the link was up"
"""The failure of a link whose end has no other reason."""

NO_INFO = "no INFO, as where a server expects TLS first"
"""The failure of a link whose other server sends nothing."""

_TLS_CAUSES = {
    "CERTIFICATE_REQUIRED": "the other server requires a client certificate",
    "BAD_CERTIFICATE": "the other server requires a client certificate, or refuses this one",
    "UNKNOWN_CA": "the other server does not know the authority of this server's certificate",
    "WRONG_VERSION_NUMBER": "the other server does not speak TLS at this port",
    "RECORD_LAYER_FAILURE": "the other server does not speak TLS at this port",
    "PACKET_LENGTH_TOO_LONG": "the other server does not speak TLS at this port",
}
"""Causes, by a part of OpenSSL's reason."""


ROUTE_PORT = 6222
LEAF_PORT = 7422
"""The ports of routes and of leaf nodes where a URL names none."""

ROUTE_SCHEMES = ("nats-route", "nats", "tls")
LEAF_SCHEMES = ("nats-leaf", "nats", "tls", "leaf", "ws", "wss")
"""The schemes of URLs; the last two of a leaf node's are of a WebSocket."""

Place = int | str
"""Which route to a server it is: its index in the pool, or the account that it is dedicated to."""

log = get_logger()


class Address(NamedTuple):
    """The address of another server, and the credentials for it."""

    host: str
    port: int
    user: str = ""
    password: str = ""
    is_encrypted: bool = False
    path: str | None = None
    """Where a WebSocket is, a path; None without one."""

    def __str__(self) -> str:
        return f"{host_in_url(self.host)}:{self.port}"


def parse_route_address(url: str) -> Address:
    """Read the URL of a route, or a bare ``host[:port]``.

    Raises:
        ValueError: it is not an address; the message says why, without what may be a password.
    """
    return _split_url(url, ROUTE_SCHEMES, ROUTE_PORT, "a route")[1]


def parse_leaf_address(url: str) -> Address:
    """Read the URL of a remote, likewise.

    Raises:
        ValueError: likewise.
    """
    parts, address = _split_url(url, LEAF_SCHEMES, LEAF_PORT, "a remote")
    is_websocket = parts.scheme in {"ws", "wss"}
    return address._replace(
        is_encrypted=parts.scheme in {"tls", "wss"},
        path=parts.path.rstrip("/") + "/leafnode" if is_websocket else None,
    )


def _split_url(
    url: str, schemes: Sequence[str], default_port: int, of: str
) -> tuple[SplitResult, Address]:
    """Read the URL `of` something; a bare ``host[:port]`` is of the first of `schemes`."""
    parts = urlsplit(url if "://" in url else f"{schemes[0]}://{url}")
    if parts.scheme not in schemes:
        raise ValueError(f"expected one of {', '.join(schemes)} before ://, got {parts.scheme!r}")
    if not parts.hostname:
        raise ValueError(f"expected a host in the URL of {of}")
    try:
        port = parts.port or default_port
    except ValueError:
        raise ValueError(f"expected a port number from 1 to 65535 in the URL of {of}") from None
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return parts, Address(parts.hostname, port, user, password)


class Attempts:
    """The failed attempts in a row to reach one server, and which of them are logged.

    As on nats-server, every `connect_error_reports`-th failure is logged before the link has first
    come up, and every `reconnect_error_reports`-th after that. Each cause is logged the first time
    as well.
    """

    def __init__(self, options: Callable[[], Options]) -> None:
        self.count = 0
        self._options = options
        self._causes: set[str] = set()
        self._was_up = False

    def succeeded(self) -> None:
        """Begin a new row: the link is up."""
        self.count = 0
        self._causes.clear()
        self._was_up = True

    def is_reported(self, cause: str) -> bool:
        """Count a failure; return whether to log it as an error."""
        self.count += 1
        is_new = cause not in self._causes and len(self._causes) < _CAUSES_MAX
        if is_new:
            self._causes.add(cause)
        table = self._options().logging
        every = table.reconnect_error_reports if self._was_up else table.connect_error_reports
        return is_new or self.count % every == 0


class Dialler:
    """Keeps up a link to the server at `address`, from `start` to `stop`.

    Subclasses have the row of attempts, and what makes a link. `failed_event` is the name of a
    failure in the log.
    """

    failed_event = ""

    def __init__(self, broker: Broker, address: Address) -> None:
        self.address = address
        self.broker = broker
        self.attempts = Attempts(lambda: broker.options)
        self.link: Any = None
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Connect, and again when that fails or ends."""
        self._task = asyncio.get_running_loop().create_task(self.keep_up())

    async def stop(self, reason: ClosedReason = ClosedReason.SERVER_SHUTDOWN) -> None:
        """Try no more, and close the link."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self.link is not None:
            self.link.close(reason)

    def joined(self) -> None:
        """Record that the link is up."""
        raise NotImplementedError

    def ended(self, link: Link) -> None:
        """Record that the link is gone."""
        if link is self.link:
            self._ended.set()

    async def keep_up(self) -> None:
        """Make one attempt after the other."""
        raise NotImplementedError

    async def connect(self, end: Any) -> None:
        """Bring a link with this `end` up as far as a transport."""
        raise NotImplementedError

    async def attempt(self, end: Any) -> bool:
        """Keep a link up while it lasts; return False, and log why, where it has no transport."""
        self._ended.clear()
        try:
            await self.connect(end)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next attempt may succeed
            self.failed(cause_of(error))
            if self.link is not None:
                self.link.close(ClosedReason.CLIENT_CLOSED)
                self.link = None
            return False
        await self._ended.wait()
        self.link = None
        return True

    def failed(self, cause: str) -> None:
        """Log a failed attempt, if it is one of those that are logged."""
        remote, is_reported = str(self.address), self.attempts.is_reported(cause)
        count = self.attempts.count
        if is_reported:
            log.error(self.failed_event, remote=remote, attempt=count, error=cause)
        else:
            log.debug(self.failed_event, remote=remote, attempt=count, error=cause)


class Diallers(list[Any]):
    """The diallers of one service."""

    def __init__(self) -> None:
        list.__init__(self)
        self._stopping: set[asyncio.Task[None]] = set()

    def end(self, dialler: Dialler, reason: ClosedReason) -> None:
        """Remove `dialler`, and stop it."""
        self.remove(dialler)
        stopping = asyncio.get_running_loop().create_task(dialler.stop(reason))
        self._stopping.add(stopping)
        stopping.add_done_callback(self._stopping.discard)

    async def stop(self) -> None:
        """Stop all of them."""
        diallers = self[:]
        self.clear()
        for dialler in diallers:
            await dialler.stop()
        await asyncio.gather(*self._stopping)


def cause_of(error: BaseException) -> str:
    """Return in a sentence why a link is not up."""
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return ENDED
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the other server is not valid: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        return next(
            (text for part, text in _TLS_CAUSES.items() if part in reason), f"TLS: {reason}"
        )
    if isinstance(error, OSError) and error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__


@contextlib.asynccontextmanager
async def within(limit_s: float, missing: str) -> AsyncIterator[None]:
    """Limit the time of the block; 0 is no limit.

    Raises:
        TimeoutError: the time has passed; the message is `missing`.
    """
    try:
        async with asyncio.timeout(limit_s or None):
            yield
    except TimeoutError as error:
        raise TimeoutError(missing) from error


async def dial(
    loop: asyncio.AbstractEventLoop, host: str, port: int, limit_s: float
) -> socket.socket:
    """Connect a socket to the first of the addresses of a name that takes it.

    Raises:
        OSError: none does, or none has within `limit_s`; 0 is no limit.
    """
    async with within(limit_s, "no answer to the connection attempt"):
        return await _dial(loop, host, port)


async def _dial(loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure: OSError | None = None
    for family, kind, protocol, _, where in found:
        bare = socket.socket(family, kind, protocol)
        bare.setblocking(False)
        try:
            await loop.sock_connect(bare, where)
            bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if is_loopback(str(where[0])):
                bound_receive_buffer(bare)
        except OSError as error:
            bare.close()
            failure = error
        except BaseException:
            bare.close()
            raise
        else:
            return bare
    raise failure or OSError(f"{host} has no address")


async def read_line(loop: asyncio.AbstractEventLoop, bare: socket.socket) -> bytes:
    """Read up to the end of the first line, and the bytes that have arrived behind it."""
    line = b""
    while b"\n" not in line:
        piece = await loop.sock_recv(bare, 65536)
        if not piece:
            raise ConnectionError(NO_INFO)
        line += piece
        if len(line) > LINE_MAX_BYTES:
            raise ValueError(f"expected INFO, got more than {LINE_MAX_BYTES} bytes")
    return line


async def attach(
    link: Link,
    bare: socket.socket,
    host: str,
    tls: ssl.SSLContext | None,
    tls_timeout_s: float,
    upgrade: WebSocketClient | None = None,
    upgrade_timeout_s: float = 0.0,
) -> None:
    """Make a transport of the connected socket `bare` for `link`, by TLS with a context `tls`.

    `host` is the name that the certificate must have. With `upgrade`, the connection becomes a
    WebSocket. The time limits are None or 0 where there is none.

    Raises:
        OSError: it cannot be; `link` and the socket are closed.
        TimeoutError: likewise, a time limit has passed.
    """
    loop = asyncio.get_running_loop()
    if upgrade is None:
        link.channel.bare_socket = bare
    protocol = upgrade or protocol_for(loop, link.channel)
    try:
        await loop.create_connection(
            lambda: protocol,
            sock=bare,
            ssl=tls,
            server_hostname=host if tls else None,
            ssl_handshake_timeout=(tls_timeout_s or None) if tls else None,
        )
        if upgrade is not None:
            async with within(upgrade_timeout_s, "no answer to the upgrade to a WebSocket"):
                await upgrade.upgraded
            if upgrade.failure:
                raise ConnectionError(upgrade.failure)
    except BaseException:
        if upgrade is not None:
            upgrade.give_up()
        had_no_transport = link.channel.state == ChannelState.CONNECTING
        link.close(ClosedReason.CLIENT_CLOSED)
        if had_no_transport:  # which would report its end
            link.channel.let_go()
            forget(protocol)
        bare.close()
        raise
