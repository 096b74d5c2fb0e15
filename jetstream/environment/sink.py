"""The outgoing side: how JetStream publishes into its account and delivers to subscribers."""

from __future__ import annotations

from collections.abc import Callable

from midge.jetstream.store.interface import MessageView
from midge.protocol import memory


class Receiver:
    """Receives a consumer's messages directly from its store.

    `subject_size` is the length of the deliver subject.
    """

    def __init__(self, subject_size: int) -> None:
        self.subject_size = subject_size

    def is_current(self) -> bool:
        """Return whether `Sink.receiver` would still return this receiver."""
        raise NotImplementedError

    def is_open(self, message: MessageView) -> bool:
        """Return whether `take` would take `message`; if not, use `Sink.deliver`."""
        raise NotImplementedError

    def take(self, message: MessageView, reply: bytearray, reply_end: int) -> None:
        """Deliver `message` with the reply subject ``reply[:reply_end]``."""
        raise NotImplementedError


class Sink:
    """The account of a stream, as its streams and consumers use it.

    The server's sink routes messages; a test's sink collects them. `headers` is a whole header
    block with its blank line, or empty. `reply` is empty without a reply subject.
    """

    def send(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> int:
        """Publish a message into the account; return how many subscriptions took it.

        Acks, API responses, advisories and republished messages are sent by this method.
        """
        raise NotImplementedError

    def send_stored(
        self, subject: bytes, head: bytearray, head_end: int, message: MessageView
    ) -> int:
        """Do the same as `send`, with `message` as payload and ``head[:head_end]`` as headers."""
        headers = memory.take(head, 0, head_end)
        payload = memory.take(message.body, message.payload_start, message.payload_end)
        return self.send(subject, b"", headers, payload)

    def deliver(
        self,
        deliver_subject: bytes,
        message_subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> bool:
        """Route a message by `deliver_subject` and show `message_subject` to the receivers.

        Returns:
            False if no subscription took it.
        """
        raise NotImplementedError

    def receiver(self, subject: bytes) -> Receiver | None:
        """Return the only receiver of `subject`, which takes messages directly from the store.

        Returns None if the receiver is not a single subscription to write to; then use `deliver`.
        """
        return None

    def has_interest(self, subject: bytes) -> bool:
        """Return whether a subscription of the account would get a message to `subject`."""
        raise NotImplementedError

    def is_subscribed(self, subject: bytes, group: bytes) -> bool:
        """Return whether there is a subscription of exactly `subject`.

        A matching wildcard does not count. With `group`, it must be a member of that queue group;
        with an empty `group`, a plain subscription.
        """
        raise NotImplementedError

    def subscribe(
        self, subject: bytes, take: Callable[[bytes, bytes, bytes, bytes], bool]
    ) -> object:
        """Call `take` with subject, reply, headers and payload of each message to `subject`.

        `take` returns whether it took the message.

        Returns:
            A token for `unsubscribe`.
        """
        raise NotImplementedError

    def unsubscribe(self, token: object) -> None:
        """End the subscription of `token`."""
        raise NotImplementedError

    def watch_interest(
        self, subject: bytes, changed: Callable[[bool], object], group: bytes
    ) -> object:
        """Call `changed` whenever the result of `is_subscribed` changes.

        Returns:
            A token for `unwatch_interest`.
        """
        raise NotImplementedError

    def unwatch_interest(self, token: object) -> None:
        """End the watch of `token`."""
        raise NotImplementedError
