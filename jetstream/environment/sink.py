"""The outgoing side: how JetStream publishes into its account and delivers to subscribers."""

from __future__ import annotations

from collections.abc import Callable

from midge.jetstream.store.interface import MessageView
from midge.protocol import memory


class Receiver:
    """Receiver of a consumer's messages, straight from its store.

    `subject_size` is the length of the subject that they are delivered to.
    """

    def __init__(self, subject_size: int) -> None:
        self.subject_size = subject_size

    def is_current(self) -> bool:
        """Tell whether `Sink.receiver` would still return the same."""
        raise NotImplementedError

    def is_open(self, message: MessageView) -> bool:
        """Tell whether `take` would take `message`; otherwise `Sink.deliver` has to be asked."""
        raise NotImplementedError

    def take(self, message: MessageView, reply: bytearray, reply_end: int) -> None:
        """Deliver `message`, with ``reply[:reply_end]`` for its reply subject."""
        raise NotImplementedError


class Sink:
    """The account that a stream belongs to, as its streams and consumers see it.

    The server's sink routes; a test's sink collects. `headers` is a whole header block with its
    blank line, or empty. `reply` is empty without a reply subject.
    """

    def send(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> int:
        """Publish a message into the account; return how many subscriptions took it.

        Acks, API responses, advisories and republished messages go this way.
        """
        raise NotImplementedError

    def send_stored(
        self, subject: bytes, head: bytearray, head_end: int, message: MessageView
    ) -> int:
        """Do what `send` does with the payload of `message` and ``head[:head_end]`` for headers."""
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
            False when no subscription took it.
        """
        raise NotImplementedError

    def receiver(self, subject: bytes) -> Receiver | None:
        """Return the only receiver of `subject`, which takes messages straight from the store.

        None when that is not one subscription to write to, so that `deliver` has to be asked.
        """
        return None

    def has_interest(self, subject: bytes) -> bool:
        """Tell whether a subscription of the account would get what is sent to `subject`."""
        raise NotImplementedError

    def is_subscribed(self, subject: bytes, group: bytes) -> bool:
        """Tell whether there is a subscription of exactly `subject`.

        A wildcard that matches does not count. With `group`, it must be one of that queue group;
        with an empty one, a plain subscription.
        """
        raise NotImplementedError

    def subscribe(
        self, subject: bytes, take: Callable[[bytes, bytes, bytes, bytes], bool]
    ) -> object:
        """Call `take` with subject, reply, headers and payload of each message to `subject`.

        It returns whether it took the message.

        Returns:
            A token for `unsubscribe`.
        """
        raise NotImplementedError

    def unsubscribe(self, token: object) -> None:
        """End what `subscribe` began."""
        raise NotImplementedError

    def watch_interest(
        self, subject: bytes, changed: Callable[[bool], object], group: bytes
    ) -> object:
        """Call `changed` whenever what `is_subscribed` tells becomes another.

        Returns:
            A token for `unwatch_interest`.
        """
        raise NotImplementedError

    def unwatch_interest(self, token: object) -> None:
        """End what `watch_interest` began."""
        raise NotImplementedError
