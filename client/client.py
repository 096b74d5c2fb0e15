"""A small blocking NATS client for Spark's workers: one connection, one thread, no reconnecting.

It connects, publishes, subscribes and asks. When the connection breaks, its caller connects again,
with a `Backoff` between attempts, because only the caller knows its progress.
"""

import base64
import collections
import logging
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from midge.client.errors import (
    AuthorizationError,
    ClientError,
    NoAnswerError,
    OptionError,
    ServerError,
    reason_of,
)
from midge.client.options import ClientOptions, ServerAddress
from midge.protocol import client_side
from midge.protocol.client_side import FrameReader, ReceivedMessage
from midge.protocol.credentials import decode_user_seed, split_credentials
from midge.protocol.errors import ProtocolError
from midge.protocol.nkeys import USER_PREFIX, encode_nkey
from midge.version import __version__

_READ_BYTES = 1 << 18
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 2.0
_REFUSALS = ("authorization", "authentication", "credentials")

_log = logging.getLogger(__name__)


class NatsClient:
    """A connection to the first of the given servers that lets us in.

    Not safe to use from several threads.
    """

    def __init__(self, options: ClientOptions) -> None:
        """Connect.

        Raises:
            AuthorizationError: the server refused the credentials.
            ServerError: no server could be reached.

        """
        self.info: dict[str, Any] = {}
        self.errors: list[str] = []
        """Texts of the server's errors that did not close the connection."""
        self._options = options
        self._reader = FrameReader()
        self._backlog: collections.deque[ReceivedMessage] = collections.deque()
        self._pongs = 0
        self._sids = 0
        self._inbox = b"_INBOX." + secrets.token_hex(11).encode()
        self._requests = 0
        self._socket = self._connect()
        try:
            self.subscribe(self._inbox + b".*")
        except ServerError:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Return the connected client itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; harmless when it is closed already."""
        self._socket.close()

    @property
    def max_payload_bytes(self) -> int:
        """The size of the largest message that the server takes, headers included."""
        return int(self.info.get("max_payload", 1 << 20))

    def subscribe(self, subject: bytes, queue: bytes = b"") -> bytes:
        """Subscribe, in a queue group if one is named; return the sid."""
        self._sids += 1
        sid = b"%d" % self._sids
        self.send(client_side.subscribe_line(subject, sid, queue))
        return sid

    def new_inbox(self) -> bytes:
        """Return a new, unique subject for replies."""
        self._requests += 1
        return b"%b.%d" % (self._inbox, self._requests)

    def send(self, data: bytes) -> None:
        """Write whole frames to the server."""
        with self._network("writing to the server"):
            self._socket.sendall(data)

    def receive(self, timeout_s: float) -> list[ReceivedMessage]:
        """Return deliveries as soon as there are any.

        None when `timeout_s` has passed, or when the server has added a complaint to `errors`.

        Raises:
            ServerError: the connection broke.

        """
        if self._backlog:
            messages = list(self._backlog)
            self._backlog.clear()
            return messages
        deadline, complaints = time.monotonic() + timeout_s, len(self.errors)
        while True:
            messages = self._read(deadline)
            if messages or len(self.errors) > complaints or time.monotonic() >= deadline:
                return messages

    def unsubscribe(self, sid: bytes) -> None:
        """End a subscription; messages under way may still arrive."""
        self.send(client_side.unsubscribe_line(sid))

    def request(self, subject: bytes, payload: bytes, headers: bytes = b"") -> ReceivedMessage:
        """Return the first answer to a request; `headers` is a whole block or empty.

        Raises:
            NoAnswerError: no answer came in time.
            ServerError: the connection broke.

        """
        reply = self.new_inbox()
        self.send(client_side.publish_frame(subject, reply, headers, payload))
        deadline = time.monotonic() + self._options.request_timeout_s
        while time.monotonic() < deadline:
            answer: ReceivedMessage | None = None
            for message in self._read(deadline):
                if message.subject == reply and answer is None:
                    answer = message
                else:
                    self._backlog.append(message)
            if answer is not None:
                return answer
            self._raise_permission_error(subject)
        raise NoAnswerError(subject.decode(), self._options.request_timeout_s)

    def ping(self) -> None:
        """Return when the server has handled everything sent so far.

        Raises:
            ServerError: the connection broke, or the server did not answer in time.

        """
        wanted = self._pongs + 1
        self.send(client_side.PING)
        deadline = time.monotonic() + self._options.request_timeout_s
        while self._pongs < wanted:
            if time.monotonic() >= deadline:
                raise ServerError("the server does not answer PING")
            self._backlog.extend(self._read(deadline))

    def _raise_permission_error(self, subject: bytes) -> None:
        """Turn a complaint about `subject` or our inbox into an error: no answer will come."""
        for text in self.errors:
            if f'"{subject.decode()}"' in text or '"_INBOX' in text:
                raise AuthorizationError(f"the server answers: {text}")

    def _read(self, deadline: float) -> list[ReceivedMessage]:
        """Read once, answer what the protocol wants answered, and return the deliveries."""
        self._socket.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            with self._network("reading from the server"):
                data = self._socket.recv(_READ_BYTES)
        except _NothingCameError:
            return []
        finally:
            self._socket.settimeout(self._options.request_timeout_s)
        if not data:
            raise ServerError(f"the server closed the connection{self._last_words()}")
        try:
            messages = self._reader.feed(data)
            if self._reader.controls:
                self._handle_controls()
        except ProtocolError as error:
            raise ServerError(error.detail) from error
        return messages

    def _handle_controls(self) -> None:
        controls = self._reader.controls[:]
        self._reader.controls.clear()
        for verb, argument in controls:
            if verb == b"PING":
                self.send(client_side.PONG)
            elif verb == b"PONG":
                self._pongs += 1
            elif verb == b"INFO":
                self.info |= client_side.read_info(argument)
            elif verb == b"-ERR":
                self.errors.append(argument.decode(errors="replace").strip("'"))

    def _last_words(self) -> str:
        return f" after saying: {self.errors[-1]}" if self.errors else ""

    @contextmanager
    def _network(self, doing: str) -> Iterator[None]:
        """Turn what the socket raises into this package's errors."""
        try:
            yield
        except TimeoutError as error:
            raise _NothingCameError(f"time-out {doing}") from error
        except OSError as error:
            raise ServerError(f"{doing}: {reason_of(error)}{self._last_words()}") from error

    # Connecting

    def _connect(self) -> socket.socket:
        """Return a socket on which a server said PONG to our CONNECT."""
        failures: list[str] = []
        for address in self._options.servers:
            try:
                return self._connect_to(address)
            except AuthorizationError:
                raise
            except (OSError, ClientError) as error:
                failures.append(f"{address}: {reason_of(error)}")
        raise ServerError(f"cannot connect to NATS ({'; '.join(failures)})")

    def _connect_to(self, address: ServerAddress) -> socket.socket:
        timeout_s = self._options.connect_timeout_s
        # Nothing that the server before said holds for this one.
        self._reader, self.info, self._pongs = FrameReader(), {}, 0
        self.errors.clear()
        deadline = time.monotonic() + timeout_s
        self._socket = socket.create_connection((address.host, address.port), timeout_s)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._options.tls_first:
                self._start_tls(address)
            self._wait_for(lambda: bool(self.info), deadline, "INFO")
            if self._options.tls and not self._options.tls_first:
                self._start_tls(address)
            elif self.info.get("tls_required") and not self._options.tls:
                raise ServerError("the server wants TLS: use tls:// in its URL, or name a CA file")
            self.send(client_side.connect_line(self._connect_options()) + client_side.PING)
            self._wait_for(lambda: self._pongs > 0, deadline, "PONG")
        except BaseException:
            self._socket.close()
            raise
        return self._socket

    def _wait_for(self, done: Callable[[], bool], deadline: float, what: str) -> None:
        """Read until `done`, and distinguish a refusal from a connection that merely broke."""
        while not done():
            if time.monotonic() >= deadline:
                raise ServerError(f"the server did not send {what} in time")
            try:
                self._backlog.extend(self._read(deadline))
            finally:
                if self._was_refused():
                    raise AuthorizationError(
                        f"the server refused the credentials: {self.errors[-1]}"
                    )

    def _was_refused(self) -> bool:
        # A server that is busy starting may time out the login: that is no refusal.
        texts = [text.lower() for text in self.errors if "timeout" not in text.lower()]
        return any(word in text for text in texts for word in _REFUSALS)

    def _start_tls(self, address: ServerAddress) -> None:
        hostname = self._options.tls_hostname or address.host
        context = tls_context(self._options)
        self._socket = context.wrap_socket(self._socket, server_hostname=hostname)

    def _connect_options(self) -> dict[str, Any]:
        return {
            "verbose": False,
            "pedantic": False,
            "lang": "python-midge",
            "version": __version__,
            "name": self._options.name,
            "protocol": 1,
            "headers": True,
            "no_responders": True,
            "echo": False,
            **login_fields(self._options, self.info),
        }


def tls_context(options: ClientOptions) -> ssl.SSLContext:
    """Return a context that trusts the given certificates, or else the system's.

    Raises:
        OptionError: a file cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=options.tls_ca_file or None)
        if options.tls_cert_file:
            context.load_cert_chain(options.tls_cert_file, options.tls_key_file or None)
    except (OSError, ssl.SSLError) as error:
        given = (options.tls_ca_file, options.tls_cert_file, options.tls_key_file)
        files = ", ".join(filter(None, given))
        raise OptionError(f"TLS files cannot be read: {reason_of(error)} ({files})") from error
    return context


def login_fields(options: ClientOptions, info: dict[str, Any]) -> dict[str, str]:
    """Return the fields of CONNECT that name the user; `info` is the server's INFO.

    Raises:
        OptionError: the credentials have no valid seed.
    """
    fields: dict[str, str] = {}
    if options.credentials:
        fields |= sign_nonce(options.credentials, str(info.get("nonce", "")))
    if options.user:
        fields |= {"user": options.user, "pass": options.password}
    if options.token:
        fields["auth_token"] = options.token
    return fields


def sign_nonce(credentials: str, nonce: str) -> dict[str, str]:
    """Return the fields of CONNECT that authenticate by nkey, with the JWT if the text has one.

    `credentials` is a credentials file's text, or a bare user seed (`SU…`).

    Raises:
        OptionError: it holds no valid user seed.

    """
    # Only nkeys need cryptography, which a cluster's executors may well lack.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    jwt, seed = split_credentials(credentials)
    if not seed:
        raise OptionError("credentialsFile: expected a user's nkey seed (SU…) in it")
    try:
        key = Ed25519PrivateKey.from_private_bytes(decode_user_seed(seed))
    except ValueError as error:
        raise OptionError(f"credentialsFile: the nkey seed {error}") from error
    signature = base64.urlsafe_b64encode(key.sign(nonce.encode())).rstrip(b"=").decode()
    if jwt:
        return {"jwt": jwt, "sig": signature}
    public = key.public_key().public_bytes(
        serialization.Encoding.Raw, serialization.PublicFormat.Raw
    )
    return {"nkey": encode_nkey(bytes([USER_PREFIX]) + public), "sig": signature}


class Backoff:
    """Pauses between attempts to reach the server, from 50 ms doubled up to 2 s.

    A process that lost its server makes attempts until `limit_s` have passed since the first of a
    row of failures.
    """

    def __init__(self, limit_s: float, doing: str) -> None:
        """`doing` names the work in the warning that the first failure logs."""
        self._limit_s = limit_s
        self._doing = doing
        self._pause_s = _FIRST_PAUSE_S
        self._failing_since: float | None = None

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt failed."""
        return self._failing_since is not None

    def succeeded(self) -> None:
        """End the row of failures: the server answers."""
        self._failing_since, self._pause_s = None, _FIRST_PAUSE_S

    def wait(self, error: ClientError) -> None:
        """Sleep until the next attempt; raise `error` once the time for attempts is over."""
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            _log.warning("%s: trying again for %g s after: %s", self._doing, self._limit_s, error)
        left_s = self._failing_since + self._limit_s - now
        if left_s <= 0:
            raise error
        time.sleep(min(self._pause_s, left_s))
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)


class _NothingCameError(ServerError):
    """A time-out: a question of patience while reading, an error while writing."""
