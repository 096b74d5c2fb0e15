"""What JetStream sends: into its account, by the router, written at the end of the loop's turn."""

from collections.abc import Callable

from midge.jetstream.sink import Sink
from midge.protocol.frame import compose
from midge.server.internal.publisher import InternalPublisher
from midge.server.routing.account import Account
from midge.server.routing.client import Client


class AccountSink(Sink):
    """The outgoing side of one account.

    Messages for a consumer's subscribers go out in the name of `producer`, which receivers that are
    far behind hold back; acks, answers and advisories in the name of the server itself.
    """

    def __init__(self, account: Account, publisher: InternalPublisher, interest: "Interest") -> None:
        self.account = account
        self.publisher = publisher
        self.producer: Client | None = None
        self._interest = interest

    def send(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> int:
        """Publish a message in the account; return how many subscriptions took it."""
        return self.publisher.publish(
            self.account, subject, payload, reply or None, headers or None, None, False
        )

    def deliver(
        self,
        deliver_subject: bytes,
        message_subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> bool:
        """Route a message by `deliver_subject` that shows `message_subject`; False: not taken."""
        result = self.account.sublist.match(deliver_subject)
        if not result.plain and not result.queues:
            return False
        frame = compose(message_subject, payload, reply or None, headers or None)
        return self.publisher.route_frame(self.account, result, frame, self.producer) > 0

    def has_interest(self, subject: bytes) -> bool:
        """Tell whether a subscription of the account would get what is sent to `subject`."""
        result = self.account.sublist.match(subject)
        return bool(result.plain or result.queues)

    def watch_interest(self, subject: bytes, changed: Callable[[bool], object]) -> object:
        """Call `changed` when `subject` gains its first or loses its last subscription."""
        return self._interest.watch(subject, changed)

    def unwatch_interest(self, token: object) -> None:
        """End what `watch_interest` began."""
        self._interest.unwatch(token)


class Interest:
    """The subjects of one account that consumers deliver to, and whether anyone listens there.

    `look` is called whenever a subscription of the account has begun or ended.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._watched: dict[int, tuple[bytes, Callable[[bool], object]]] = {}
        self._known: dict[int, bool] = {}
        self._last = 0

    def watch(self, subject: bytes, changed: Callable[[bool], object]) -> int:
        """Begin to watch; returns a token."""
        self._last += 1
        self._watched[self._last] = (subject, changed)
        self._known[self._last] = self._account.sublist.has_interest(subject)
        return self._last

    def unwatch(self, token: object) -> None:
        """Watch no more."""
        self._watched.pop(token, None)  # type: ignore[call-overload]
        self._known.pop(token, None)  # type: ignore[call-overload]

    def look(self) -> None:
        """Tell what has changed since the last look."""
        has_interest = self._account.sublist.has_interest
        for token, (subject, changed) in list(self._watched.items()):
            there = has_interest(subject)
            if self._known.get(token) is not there and token in self._watched:
                self._known[token] = there
                changed(there)
