"""The exception tree, and the -ERR texts of the wire.

    MidgeError                 everything that midge raises on purpose
    ├── ProtocolError          the peer's fault; carries the text for its -ERR, or None
    ├── UnsendableError        midge's own fault: a subject that no line can carry
    └── (server) ConfigError   the operator's fault; names file, line and key

The texts are nats-server's, to the letter: clients compare them.
"""


class MidgeError(Exception):
    """The root of every error that midge raises on purpose."""

    __module__ = "midge"


class ProtocolError(MidgeError):
    """A peer broke the protocol, and its connection ends.

    `wire` is the text for the ``-ERR`` that it gets, or None where nats-server closes the
    connection without one; `detail` describes the fault for the log.
    """

    def __init__(self, wire: str | None, detail: str = "") -> None:
        super().__init__(detail or wire or "protocol error")
        self.wire = wire
        self.detail = detail or wire or ""


class UnsendableError(MidgeError):
    """A subject or a reply holds a blank, TAB, CR or LF, which no protocol line can carry."""


UNKNOWN_OPERATION = "Unknown Protocol Operation"
MAXIMUM_CONTROL_LINE = "maximum control line exceeded"
MAXIMUM_PAYLOAD = "Maximum Payload Violation"
AUTHORIZATION_VIOLATION = "Authorization Violation"
AUTHENTICATION_TIMEOUT = "Authentication Timeout"
AUTHENTICATION_EXPIRED = "User Authentication Expired"
ACCOUNT_AUTHENTICATION_EXPIRED = "Account Authentication Expired"
AUTHENTICATION_REVOKED = "User Authentication Revoked"
INVALID_CLIENT_PROTOCOL = "invalid client protocol"
NO_RESPONDERS_REQUIRES_HEADERS = "no responders requires headers support"
MAXIMUM_CONNECTIONS = "maximum connections exceeded"
MAXIMUM_ACCOUNT_CONNECTIONS = "maximum account active connections exceeded"
MAXIMUM_SUBSCRIPTIONS = "maximum subscriptions exceeded"
INVALID_SUBJECT = "Invalid Subject"
INVALID_PUBLISH_SUBJECT = "Invalid Publish Subject"
STALE_CONNECTION = "Stale Connection"
CONNECTION_THROTTLED = "Connection throttling is active. Please try again later."


def quote(raw: bytes) -> str:
    r"""Quote `raw` as Go's ``%q`` does: ``"`` and control bytes escaped, non-UTF-8 as ``\xNN``."""
    text = raw.decode("utf-8", "surrogateescape")
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'  # the usual case: nothing to escape
    pieces = ['"']
    for char in text:
        code = ord(char)
        if char in '"\\':
            pieces.append("\\" + char)
        elif 0xDC80 <= code <= 0xDCFF:
            pieces.append(f"\\x{code - 0xDC00:02x}")
        elif char in _GO_ESCAPES:
            pieces.append(_GO_ESCAPES[char])
        elif code < 0x20 or code == 0x7F:
            pieces.append(f"\\x{code:02x}")
        elif char.isprintable():
            pieces.append(char)
        else:
            pieces.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    pieces.append('"')
    return "".join(pieces)


def publish_violation(subject: bytes) -> str:
    """Return the text for a publish that permissions refuse."""
    return f"Permissions Violation for Publish to {quote(subject)}"


def reply_violation(reply: bytes) -> str:
    """Return the text for a publish whose reply subject is reserved."""
    return f"Permissions Violation for Publish with Reply of {quote(reply)}"


def subscription_violation(subject: bytes, queue: bytes | None = None) -> str:
    """Return the text for a subscription that permissions refuse."""
    text = f"Permissions Violation for Subscription to {quote(subject)}"
    return text if queue is None else f"{text} using queue {quote(queue)}"


def too_many_tokens(subject: bytes) -> str:
    """Return the text for a subscription with more tokens than the server allows."""
    return f"Permissions Violation for Subscription to {quote(subject)}, too many tokens"


def removed_subscription(subject: bytes, queue: bytes | None, sid: bytes) -> str:
    """Return the text for a subscription that a change of permissions removed."""
    using = "" if queue is None else f" using queue {quote(queue)}"
    return f"Permissions Violation for Subscription to {quote(subject)}{using} (sid {quote(sid)})"


_GO_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
