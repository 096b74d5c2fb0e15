"""A subscription of a server in another thread, for code that blocks instead of awaiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from midge.protocol.errors import MidgeError
from midge.protocol.text import decode

if TYPE_CHECKING:
    from midge.server.embedded.direct import DirectSubscription
    from midge.server.embedded.inbox import Message
    from midge.server.embedded.server_thread import ServerThread


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
