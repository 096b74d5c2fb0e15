"""The HTTP request that opens a WebSocket: parsed, checked and answered, without any I/O."""

import base64
import binascii
import ipaddress
from http import HTTPStatus
from urllib.parse import unquote, urlsplit

from websockets.utils import accept_key

from midge.server.config.options import WebSocket
from midge.server.listeners.websocket.messages import KeepDeflated

LEAFNODE_PATH = "/leafnode"
"""How the path ends that leaf nodes connect to."""

MAX_HEAD_BYTES = 16 * 1024
"""Longest request head in bytes, up to its blank line."""

_MAX_HEADERS = 100
_KEY_BYTES = 16
_DEFLATE = "permessage-deflate"
_NO_TAKEOVER = "server_no_context_takeover; client_no_context_takeover"
DEFLATE_OFFER = f"{_DEFLATE}; {_NO_TAKEOVER}"
"""The extension that frames are compressed by, each for itself."""

_MQTT = "/mqtt"  # a protocol that is not supported
_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_TOKEN = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")

Place = tuple[str, str, int]


class UpgradeRefusal(Exception):
    """The request gets an HTTP status instead of an upgrade."""

    def __init__(self, status: HTTPStatus, text: str, phrase: str = "") -> None:
        """`detail` is for the log; `phrase` replaces the status's usual one."""
        super().__init__(text)
        self.status = status
        self._phrase = phrase

    def answer(self) -> bytes:
        """Return the whole response."""
        phrase = self._phrase or self.status.phrase
        line = f"{self.status.value} {phrase}"
        body = line.encode() if self._phrase else f"{phrase}\n".encode()
        lines = [
            f"HTTP/1.1 {line}",
            "Content-Type: text/plain; charset=utf-8",
            "Sec-WebSocket-Version: 13",
            "X-Content-Type-Options: nosniff",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class UpgradeRequest:
    """The head of an HTTP request; header names are in lower case, values in order of arrival."""

    def __init__(self, head: bytes) -> None:
        """Read `head`, up to and without its blank line.

        Raises:
            UpgradeRefusal: it is not HTTP/1.1, or not well-formed.
        """
        lines = head.split(b"\r\n")
        parts = lines[0].split(b" ")
        if len(parts) != 3 or parts[2] != b"HTTP/1.1":
            raise _bad_request("expected a request line of HTTP/1.1")
        self.method = parts[0].decode("ascii", "replace")
        self.path = unquote(parts[1].decode("ascii", "replace").partition("?")[0])
        self.headers: dict[str, list[str]] = {}
        if len(lines) > _MAX_HEADERS:
            raise _bad_request("too many headers")
        for line in lines[1:]:
            self._add_header(line)

    def _add_header(self, line: bytes) -> None:
        name, colon, value = line.partition(b":")
        if not colon or not name or not _TOKEN.issuperset(name):
            raise _bad_request("expected `name: value` in a header")
        if b"\n" in value or b"\r" in value or b"\0" in value:
            raise _bad_request("expected no control character in a header")
        key = name.decode("ascii").lower()
        self.headers.setdefault(key, []).append(value.decode("latin-1").strip(" \t"))

    def header(self, name: str) -> str:
        """Return the first value of a header, or empty."""
        return self.headers.get(name, [""])[0]

    @property
    def is_leafnode(self) -> bool:
        """Whether it comes from a leaf node."""
        return self.path.endswith(LEAFNODE_PATH)

    def lists(self, name: str, word: str) -> bool:
        """Return whether a list header contains `word`, ignoring case."""
        values = ",".join(self.headers.get(name, ()))
        return word in (value.strip().lower() for value in values.split(","))

    def cookies(self) -> dict[str, str]:
        """Return the cookies; the last of two counts."""
        found: dict[str, str] = {}
        for header in self.headers.get("cookie", ()):
            for pair in header.split(";"):
                name, equals, value = pair.strip().partition("=")
                if equals:
                    found[name.strip()] = value.strip().strip('"')
        return found

    def forwarded_for(self) -> str:
        """Return the client's address in the proxy's header; untrusted, empty when absent."""
        first = self.header("x-forwarded-for").partition(",")[0].strip()
        try:
            return str(ipaddress.ip_address(first))
        except ValueError:
            return ""


class Upgrade:
    """The negotiated extensions: whether frames are compressed, and whether they are unmasked."""

    def __init__(
        self,
        request: UpgradeRequest,
        options: WebSocket,
        *,
        encrypted: bool,
        leafnodes: bool = False,
    ) -> None:
        """Check `request` against `options`; `encrypted` is true where it came over TLS.

        Leaf nodes are welcome where `leafnodes` says so.

        Raises:
            UpgradeRefusal: it cannot be upgraded.
        """
        if request.path == _MQTT or (request.is_leafnode and not leafnodes):
            raise UpgradeRefusal(HTTPStatus.NOT_FOUND, f"{request.path:.80} is not served")
        _check(request)
        _check_origin(request, options, encrypted=encrypted)
        self._key = request.header("sec-websocket-key")
        self.compressed = options.compression and names_deflate(request)
        self.unmasked = request.header("nats-no-masking").lower() == "true"
        self._more = options.headers

    def answer(self) -> bytes:
        """Return the response that switches protocols."""
        lines = [
            "HTTP/1.1 101 Switching Protocols",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Accept: {accept_key(self._key)}",
        ]
        if self.compressed:
            lines.append(f"Sec-WebSocket-Extensions: {DEFLATE_OFFER}")
        if self.unmasked:
            lines.append("Nats-No-Masking: true")
        lines += [f"{name}: {value}" for name, value in self._more.items()]
        return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"

    def extensions(self) -> list[KeepDeflated]:
        """Make the extensions of the frames."""
        return [deflate()] if self.compressed else []


def deflate() -> KeepDeflated:
    """Make the extension that compresses frames, each for itself."""
    return KeepDeflated(
        remote_no_context_takeover=True,
        local_no_context_takeover=True,
        remote_max_window_bits=15,
        local_max_window_bits=15,
        compress_settings={"level": 1},
    )


def credentials(cookies: dict[str, str], options: WebSocket) -> dict[str, str]:
    """Return the fields of CONNECT that `options` take from `cookies`."""
    names = {
        "jwt": options.jwt_cookie,
        "user": options.user_cookie,
        "password": options.pass_cookie,
        "auth_token": options.token_cookie,
    }
    return {field: cookies[name] for field, name in names.items() if name and cookies.get(name)}


def place_of(origin: str) -> Place:
    """Return scheme, host and port of an origin.

    Raises:
        ValueError: `text` is not an origin.
    """
    parts = urlsplit(origin)
    if not parts.scheme or not parts.hostname:
        raise ValueError(f"expected scheme://host[:port], got {origin!r:.80}")
    return parts.scheme, parts.hostname.lower(), parts.port or _PORTS.get(parts.scheme, 0)


def _bad_request(text: str) -> UpgradeRefusal:
    return UpgradeRefusal(HTTPStatus.BAD_REQUEST, text)


def _check(request: UpgradeRequest) -> None:
    """Refuse a request that is not an upgrade to a WebSocket of version 13."""
    if request.method != "GET":
        raise UpgradeRefusal(
            HTTPStatus.METHOD_NOT_ALLOWED, f"expected GET, got {request.method!r:.20}"
        )
    if not request.header("host"):
        text = "missing required Host header"
        raise UpgradeRefusal(HTTPStatus.BAD_REQUEST, text, f"Bad UpgradeRequest: {text}")
    if not request.lists("upgrade", "websocket"):
        raise _bad_request("expected `websocket` in the Upgrade header")
    if not request.lists("connection", "upgrade"):
        raise _bad_request("expected `upgrade` in the Connection header")
    try:
        key = base64.b64decode(request.header("sec-websocket-key"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY_BYTES:
        raise _bad_request("expected a Sec-WebSocket-Key of 16 bytes")
    if not request.lists("sec-websocket-version", "13"):
        raise _bad_request("expected Sec-WebSocket-Version 13")


def _check_origin(request: UpgradeRequest, options: WebSocket, *, encrypted: bool) -> None:
    """Refuse a browser whose page came from elsewhere than `options` allow."""
    if not options.same_origin and not options.allowed_origins:
        return
    origin = request.header("origin") or request.header("sec-websocket-origin")
    if not origin:
        return  # not a browser, which always sends one
    try:
        place = place_of(origin)
        own = place_of(f"{'https' if encrypted else 'http'}://{request.header('host')}")
    except ValueError:
        raise _wrong_origin("expected an origin") from None
    if options.same_origin and place[1:] != own[1:]:
        raise _wrong_origin(f"origin {origin!r:.80} is not the host's")
    if options.allowed_origins and place not in {
        place_of(allowed) for allowed in options.allowed_origins
    }:
        raise _wrong_origin(f"origin {origin!r:.80} is not allowed")


def _wrong_origin(text: str) -> UpgradeRefusal:
    return UpgradeRefusal(HTTPStatus.FORBIDDEN, text)


def names_deflate(request: UpgradeRequest) -> bool:
    """Return whether a request offers to compress frames, or an answer agrees to it."""
    offers = ",".join(request.headers.get("sec-websocket-extensions", ())).split(",")
    return any(offer.split(";")[0].strip().lower() == _DEFLATE for offer in offers)
