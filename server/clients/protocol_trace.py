"""Protocol traces: the lines that one connection receives and sends, with secrets redacted.

A `Tracer` is attached to a connection while `logging.trace` is on; without one, tracing costs the
message path nothing. Passwords and tokens never reach the log, whatever their JSON looks like.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec.structs import fields

from midge.protocol.errors import quote
from midge.protocol.messages import ConnectOptions
from midge.server.config.table import REDACTED
from midge.server.log.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.protocol import Frame
    from midge.server.config.options import Logging
    from midge.sublist.subscription import Subscription

SHOWN = frozenset(field.encode_name for field in fields(ConnectOptions)) - {
    "pass",
    "auth_token",
    "jwt",
    "sig",
    "proxy_sig",
}
"""Fields of CONNECT that are not secret. Unknown fields are not shown: they may be."""


class Tracer:
    """Logs the lines that one connection receives and sends."""

    def __init__(
        self, cid: int, peer: str, options: Logging, label: Callable[[], str | None]
    ) -> None:
        """Trace the connection `cid`; `options` bound the payloads.

        `label` returns how the client is named now, or None while it is not traced.
        """
        self._label = label
        self._payload_max = options.max_traced_message_bytes
        self._log = get_logger(peer=peer, cid=cid)

    def connect_received(self, document: bytes) -> None:
        """Trace a CONNECT with its secrets redacted."""
        self.received(f"CONNECT {redact(document)}")

    def subscribe_received(self, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        """Trace a SUB."""
        self.received(_line(b"SUB", subject, queue, sid))

    def unsubscribe_received(self, sid: bytes, max_messages: int) -> None:
        """Trace an UNSUB."""
        self.received(_line(b"UNSUB", sid, b"%d" % max_messages if max_messages else None))

    def publish_received(self, frame: Frame) -> None:
        """Trace a PUB or HPUB and its payload."""
        verb = b"PUB" if frame.header_size < 0 else b"HPUB"
        line = _line(verb, frame.subject_bytes(), frame.reply_bytes(), *_sizes(frame))
        self.received(line)
        if frame.size:
            self._write("payload_received", payload=self._payload(frame))

    def message_sent(self, subscription: Subscription, frame: Frame) -> None:
        """Trace a MSG or HMSG and its payload."""
        verb = b"MSG" if frame.header_size < 0 else b"HMSG"
        subject, sid = frame.subject_bytes(), subscription.sid
        self.sent(_line(verb, subject, sid, frame.reply_bytes(), *_sizes(frame)))
        if frame.size:
            self._write("payload_sent", payload=self._payload(frame))

    def subscription_removed(self, subscription: Subscription) -> None:
        """Trace the end of a subscription."""
        self._write(
            "subscription_removed", sid=subscription.sid.decode("utf-8", "backslashreplace")
        )

    def received(self, line: str) -> None:
        """Trace a protocol line from the client."""
        self._write("protocol_received", line=line)

    def sent(self, line: str) -> None:
        """Trace a protocol line to the client."""
        self._write("protocol_sent", line=line)

    def _write(self, event: str, **fields: str) -> None:
        label = self._label()
        if label is not None:
            self._log.trace(event, client=label, **fields)

    def _payload(self, frame: Frame) -> str:
        raw = (frame.header_bytes() or b"") + frame.payload_bytes()
        if 0 < self._payload_max < len(raw):
            raw = raw[: self._payload_max] + b"..."
        return quote(raw)


def _line(*words: bytes | None) -> str:
    return b" ".join(word for word in words if word is not None).decode("utf-8", "backslashreplace")


def _sizes(frame: Frame) -> tuple[bytes, ...]:
    size = b"%d" % frame.size
    return (size,) if frame.header_size < 0 else (b"%d" % frame.header_size, size)


def redact(document: bytes) -> str:
    """Return the JSON of a CONNECT with everything replaced that may be a secret.

    The document is parsed and serialized again, so that no spelling of a key hides its value.
    """
    try:
        given = json.loads(document)
    except (ValueError, RecursionError):
        return REDACTED
    if not isinstance(given, dict):
        return REDACTED
    shown: dict[str, Any] = {
        name: value if name.lower() in SHOWN or isinstance(value, bool) else REDACTED
        for name, value in given.items()
    }
    return json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
