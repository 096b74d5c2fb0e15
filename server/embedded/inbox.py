"""Messages for receivers within the server's own process, from the router to a callback.

The router passes a frame in a read buffer; an `Inbox` keeps a copy as a `Message` until the
receiver's turn of the loop. `midge.server.embedded.direct` adds waiting with coroutines.
"""

from collections import deque
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from midge.protocol.headers import Headers, parse_headers
from midge.server.routing.account import Account
from midge.server.routing.subscription import RoutedSubscription

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from midge.protocol.frame import Frame
    from midge.server.embedded.publisher import Publisher
    from midge.server.routing.client import Client


class Message:
    """A message for a receiver within the process: its own copy."""

    __slots__ = (
        "_header_block",
        "_headers",
        "_publisher",
        "account",
        "payload",
        "reply",
        "subject",
    )

    def __init__(
        self, frame: "Frame", publisher: "Publisher | None" = None, account: str = ""
    ) -> None:
        reply = frame.reply_bytes()
        self.subject = frame.subject_bytes().decode("utf-8", "surrogateescape")
        """Subject of the publish."""
        self.reply = None if reply is None else reply.decode("utf-8", "surrogateescape")
        """Subject to answer to, or None."""
        self.payload = frame.payload_bytes()
        """Payload, without the headers."""
        self.account = account
        """Account of the delivery."""
        self._header_block = frame.header_bytes()
        self._headers: dict[str, list[str]] | None = None
        self._publisher = publisher

    @property
    def headers(self) -> dict[str, list[str]]:
        """The headers by name, or empty."""
        if self._headers is None:
            self._headers = parse_headers(self._header_block) if self._header_block else {}
        return self._headers

    @property
    def text(self) -> str:
        """The payload as text; invalid UTF-8 is escaped."""
        return self.payload.decode("utf-8", "backslashreplace")

    def respond(self, payload: bytes | str = b"", headers: Headers | None = None) -> int:
        """Publish an answer to `reply`; return how many subscriptions have taken it.

        Raises:
            ValueError: the message has no reply subject.
        """
        if self.reply is None or self._publisher is None:
            raise ValueError(f"a message to {self.subject!r} without a reply subject")
        return self._publisher.send(self.reply, payload, headers, None, self.account)

    def __repr__(self) -> str:
        reply = f" reply={self.reply!r}" if self.reply else ""
        return f"<Message {self.subject!r}{reply} {self.payload[:64]!r}>"


class Inbox(RoutedSubscription):
    """A subscription whose messages wait here for `callback`, or for a reader.

    `dropped` counts messages that arrived while `pending_max` waited. Subclasses wake readers,
    await async callbacks, and report their exceptions.
    """

    def __init__(
        self,
        publisher: "Publisher",
        account: Account,
        subject: bytes,
        queue: bytes | None,
        callback: "Callable[[Message], Any] | None",
        pending_max: int,
    ) -> None:
        RoutedSubscription.__init__(self, subject, queue)
        self.account = account
        self.dropped = 0
        self.pending_max = pending_max
        self._publisher = publisher
        self._callback = callback
        self._waiting: deque[Message] = deque()
        self._is_scheduled = False
        self._is_open = True
        self._is_awaiting = False

    def receive(self, publisher: "Client | None", frame: "Frame") -> bool:
        """Keep a copy of `frame` for the receiver; return False when too many messages wait."""
        if not self._is_open:
            return False
        if len(self._waiting) >= self.pending_max:
            self.dropped += 1
            return False
        self._waiting.append(Message(frame, self._publisher, self.account.name))
        if self._callback is None:
            self._wake_reader()
        elif not self._is_scheduled and not self._is_awaiting:
            self._is_scheduled = True
            self._publisher.loop.call_soon(self._hand_over)
        return True

    def pending(self) -> int:
        """Count the messages that wait for the receiver."""
        return len(self._waiting)

    def _hand_over(self) -> None:
        """Call the callback for all waiting messages; continue in a task if it is async."""
        self._is_scheduled = False
        callback = self._callback
        assert callback is not None, "only subscriptions with a callback are scheduled"
        waiting = self._waiting
        while waiting and not self._is_awaiting:
            try:
                answer = callback(waiting.popleft())
            except Exception as error:  # noqa: BLE001 - the callback's own fault
                self._report(error)
                continue
            if answer is not None and isawaitable(answer):
                self._is_awaiting = True
                self._go_on_awaiting(answer)

    def _wake_reader(self) -> None:
        """Wake one reader."""

    def _go_on_awaiting(self, first: "Awaitable[Any]") -> None:
        """Await `first`, then the callback for each waiting message."""

    def _report(self, error: Exception) -> None:
        """Report that the callback has raised `error`."""
