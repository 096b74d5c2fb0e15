"""Publishing within the server's own process: from a call to the router, without a socket.

Most checks of a message need not be repeated for the next one: a valid subject stays valid. A
message without receivers and observers is counted, but gets no frame.
"""

from typing import TYPE_CHECKING, Any

from midge.protocol.frame import Frame, compose, with_subject
from midge.protocol.headers import Headers, format_headers
from midge.protocol.text import encode
from midge.server.internal.internal_publisher import InternalPublisher
from midge.server.routing.account import Account
from midge.sublist.bounded_cache import BoundedCache
from midge.sublist.subjects import is_valid_publish_subject

if TYPE_CHECKING:
    import asyncio

    from midge.server.broker.broker import Broker

SUBJECTS_MAX = 1024
"""Most valid subjects that are cached."""


class Publisher:
    """The process's own access to the router; `in_messages` and `in_bytes` count its messages."""

    __slots__ = (
        "_internal",
        "_subjects",
        "broker",
        "in_bytes",
        "in_messages",
        "loop",
    )

    def __init__(self, broker: "Broker", loop: "asyncio.AbstractEventLoop") -> None:
        self.broker = broker
        self.loop = loop
        self.in_messages = 0
        self.in_bytes = 0
        self._internal: InternalPublisher = broker.internal
        self._subjects = BoundedCache(SUBJECTS_MAX)

    def send(
        self,
        subject: str | bytes,
        payload: bytes | str,
        headers: Headers | None,
        reply: str | bytes | None,
        account: str,
    ) -> int:
        """Route one message; return how many subscriptions have taken it.

        `Server.publish` describes the arguments; here they are positional, which is faster.

        Raises:
            ValueError: the subject is invalid for publishing, or the payload is too large.
        """
        topic = self._valid(subject, "subject")
        answer_to = None if reply is None else self._valid(reply, "reply")
        block = None if headers is None else format_headers(headers)
        content = payload if isinstance(payload, bytes) else payload_bytes(payload)
        size = len(content) if block is None else len(block) + len(content)
        broker = self.broker
        largest = broker.options.limits.max_payload_bytes
        if size > largest >= 0:
            raise ValueError(f"message: expected at most {largest} bytes, got {size}")
        home = broker.accounts.get(account)
        if home is None:
            home = self.known_account(account)
        self.in_messages += 1
        self.in_bytes += size
        if broker.screens:
            frame = compose(topic, content, answer_to, block)
            return broker.screens.publish_own(home, frame, self._mapped)
        if home.mapper is not None:
            return self._mapped(home, topic, compose(topic, content, answer_to, block))
        return self._internal.publish(home, topic, content, answer_to, block)

    def known_account(self, name: str) -> Account:
        """Return the account called `name`. Raises: ValueError if it does not exist."""
        account: Account | None = self.broker.accounts.get(name)
        if account is None:
            known = ", ".join(sorted(self.broker.accounts))
            raise ValueError(f"account: expected one of {known}, got {name!r}")
        return account

    def _valid(self, subject: str | bytes, what: str) -> bytes:
        """Return the same as `literal_subject`, from a cache."""
        if not isinstance(subject, str):
            return literal_subject(subject, what)
        known: bytes | None = self._subjects.get(subject)
        if known is None:
            known = literal_subject(subject, what)
            self._subjects.put(subject, known)
        return known

    def _mapped(self, account: Account, subject: bytes, frame: Frame) -> int:
        """Route `frame` under its subject after the account's mappings."""
        if account.mapper is not None:
            mapped = account.mapper.map(subject)
            if mapped is None:
                return 0
            if mapped != subject:
                subject = mapped
                frame = with_subject(frame, mapped)
        return self._internal.route_frame(account, account.sublist.match(subject), frame, None)


def literal_subject(subject: str | bytes, what: str = "subject") -> bytes:
    """Return `subject` as bytes if it is valid for publishing; errors call it `what`.

    Raises:
        ValueError: it is empty, or has a blank, a line end, an empty token or a wildcard.
        TypeError: it is not text.
    """
    raw: Any = encode(subject) if isinstance(subject, str) else subject
    if not isinstance(raw, bytes):
        raise TypeError(f"{what}: expected str or bytes, got {type(raw).__name__}")
    if not is_valid_publish_subject(raw):
        raise ValueError(f"{what}: expected literal tokens separated by dots, got {subject!r}")
    given: bytes = raw
    return given


def payload_bytes(payload: bytes | str) -> bytes:
    """Return a payload as bytes. Raises: TypeError if it is neither bytes nor text."""
    if isinstance(payload, str):
        return payload.encode()
    if isinstance(payload, bytes):
        return payload
    raise TypeError(f"payload: expected bytes or str, got {type(payload).__name__}")
