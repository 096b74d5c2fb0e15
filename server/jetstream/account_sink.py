"""JetStream's output: into its account, by the router, written at the end of the loop's turn."""

from collections.abc import Callable
from typing import Any

from midge.jetstream.environment.sink import Receiver, Sink
from midge.jetstream.store.interface import MessageView
from midge.protocol import lines
from midge.protocol.errors import UnsendableError
from midge.protocol.frame import Frame, compose
from midge.server.accounts.links import AccountLinks
from midge.server.accounts.service_link import any_reached
from midge.server.accounts.stream_link import StreamLink
from midge.server.internal.internal_publisher import InternalPublisher
from midge.server.jetstream.api_subjects import InternalSubscription, Take
from midge.server.jetstream.receiver import (
    MessageLine,
    ProducersTurn,
    receiver_of,
    single,
    write,
    write_stored,
)
from midge.server.routing.account import Account
from midge.server.routing.ack_replies import as_sent
from midge.server.routing.client import Client
from midge.sublist.result import SubListResult
from midge.sublist.subscription import Subscription


class AccountSink(Sink):
    """The outgoing side of one account.

    Messages for a consumer's subscribers go out in the name of the producer whose `turn` it is,
    which receivers that are far behind hold back; all else in the name of the server itself.
    """

    def __init__(
        self, account: Account, publisher: InternalPublisher, interest: "Interest"
    ) -> None:
        self.account = account
        self.publisher = publisher
        self.turn = ProducersTurn()
        self._router = publisher.router
        self._line = MessageLine()
        self._interest = interest

    def send(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> int:
        """Publish a message in the account; return how many subscriptions took it.

        None does if its subject or its reply cannot be written into a line.
        """
        result = self._match(subject)
        subscription = single(result)
        if subscription is not None and write(
            subscription, self._router, self._line, subject, reply, headers, payload
        ):
            return 1
        if not reply and not headers and self._router.observer is None:
            link = only_link(result)
            is_sendable = link is not None and not lines.has_blank(subject, 0, len(subject))
            if link is not None and is_sendable and link.forward_parts(subject, payload):
                self._router.offers += 1
                return 1
        if not result and self._router.observer is None:
            return 0
        try:
            frame = compose(subject, payload, reply or None, headers or None)
        except UnsendableError:
            return 0
        return self.publisher.route_frame(self.account, result, frame, None)

    def send_stored(
        self, subject: bytes, head: bytearray, head_end: int, message: MessageView
    ) -> int:
        """See `Sink.send_stored`; what one client gets is copied straight from the store."""
        subscription = single(self._match(subject))
        if subscription is not None and write_stored(
            subscription, self._router, self._line, subject, head, head_end, message
        ):
            return 1
        return Sink.send_stored(self, subject, head, head_end, message)

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
        if not result:
            return False
        links = self._interest.links
        before = links.delivery if links is not None else None
        try:
            frame = compose(message_subject, payload, reply or None, headers or None)
            if links is not None:
                links.delivery = (frame, deliver_subject)
            over = None if result.remotes is None else as_sent(frame, deliver_subject)
            if headers and self._router.spans is not None:
                return self._deliver_with_span(result, frame, over)
            producer = self.turn.producer
            return self.publisher.route_frame(self.account, result, frame, producer, over) > 0
        except UnsendableError:
            return False
        finally:
            if links is not None:
                links.delivery = before

    def _deliver_with_span(self, result: SubListResult, frame: Frame, over: Frame | None) -> bool:
        """Route a message, and report a span if a client of this server has taken it."""
        spans = self._router.spans
        start_s = spans.now()
        producer = self.turn.producer
        taken = self.publisher.route_frame(self.account, result, frame, producer, over)
        if taken and (result.plain or result.queues):
            spans.delivered(frame, start_s)
        return taken > 0

    def receiver(self, subject: bytes) -> Receiver | None:
        """Return the client that is the only receiver for `subject`; None without such a client."""
        result = self._match(subject)
        return receiver_of(self.account, result, self._router, self.turn, self._line, subject)

    def _match(self, subject: bytes) -> SubListResult:
        """Return the match of `subject`, which is cached because inboxes often repeat."""
        return self.account.sublist.match_within(subject, 0, len(subject))

    def has_interest(self, subject: bytes) -> bool:
        """Return whether a subscription of the account matches `subject`."""
        result = self.account.sublist.match(subject)
        return bool(result) and any_reached(result)

    def is_subscribed(self, subject: bytes, group: bytes) -> bool:
        """Return whether `subject` itself has a subscription, in `group` if that is set."""
        return is_subscribed(self.account, subject, group)

    def subscribe(self, subject: bytes, take: Take) -> object:
        """Call `take` with each message for `subject`; return a token."""
        subscription = InternalSubscription(subject, take)
        self.account.add(subscription)
        return subscription

    def unsubscribe(self, token: object) -> None:
        """End what `subscribe` began."""
        if isinstance(token, InternalSubscription):
            self.account.remove(token)

    def watch_interest(
        self, subject: bytes, changed: Callable[[bool], object], group: bytes
    ) -> object:
        """Call `changed` whenever the result of `is_subscribed` changes."""
        return self._interest.watch(subject, changed, group)

    def unwatch_interest(self, token: object) -> None:
        """End what `watch_interest` began."""
        self._interest.unwatch(token)


class Interest:
    """Watches the interest of one account in the deliver subjects of its consumers.

    It also watches accounts that import these subjects.
    """

    def __init__(self, account: Account, links: AccountLinks | None = None) -> None:
        self._account = account
        self.links = links
        self._watched: dict[tuple[bytes, bytes | None], list[Watched]] = {}
        self._importers: dict[tuple[bytes, bytes | None], list[ImporterInterest]] = {}

    def watch(self, subject: bytes, changed: Callable[[bool], object], group: bytes) -> "Watched":
        """Begin to watch `subject`, in a queue group if `group` is not empty; returns a token."""
        watched = Watched((subject, group or None), changed)
        self._watched.setdefault(watched.kind, []).append(watched)
        self._watch_importers(watched.kind)
        return watched

    def unwatch(self, token: object) -> None:
        """Watch no more."""
        if isinstance(token, Watched):
            watched = self._watched.get(token.kind, [])
            if token in watched:
                watched.remove(token)
            if not watched:
                self._watched.pop(token.kind, None)
                for importer in self._importers.pop(token.kind, ()):
                    importer.end()

    def accounts_planned(self) -> None:
        """Find the importers of the watched subjects again, and report the present interest."""
        for kind in list(self._watched):
            self._watch_importers(kind)
            self.report(*kind)

    def _watch_importers(self, kind: tuple[bytes, bytes | None]) -> None:
        """Watch the interest of the accounts that import a subject."""
        for before in self._importers.pop(kind, ()):
            before.end()
        for one in self._account.sublist.match(kind[0]).plain:
            if isinstance(one, StreamLink):
                listener = ImporterInterest(
                    self, kind, one.importer, one.importers_subject(kind[0])
                )
                self._importers.setdefault(kind, []).append(listener)

    def interest_began(self, subject: bytes, queue: bytes | None) -> None:
        """Report the first subscription to a subject and queue group."""
        self.report(subject, queue)

    def interest_ended(self, subject: bytes, queue: bytes | None) -> None:
        """Report the end of the last subscription to a subject and queue group."""
        self.report(subject, queue)

    def group_resized(self, subject: bytes, queue: bytes, members: int) -> None:
        """Ignore the number of members, as long as there is one."""

    def remote_changed(self, subject: bytes, queue: bytes | None) -> None:
        """Report a change of the interest behind a link."""
        self.report(subject, queue)

    def report(self, subject: bytes, queue: bytes | None) -> None:
        """Report the present interest in a subject to its watchers."""
        watching = self._watched.get((subject, queue))
        if watching:
            is_there = is_subscribed(self._account, subject, queue or b"")
            for watched in list(watching):
                watched.changed(is_there)


class ImporterInterest:
    """The listener of an account that imports a watched subject, under its own name for it."""

    def __init__(
        self,
        interest: Interest,
        kind: tuple[bytes, bytes | None],
        importer: Account,
        subject: bytes,
    ) -> None:
        self._interest = interest
        self._kind = kind
        self._importer = importer
        self._subject = subject
        importer.add_listener(self)

    def end(self) -> None:
        """Stop listening."""
        self._importer.remove_listener(self)

    def interest_began(self, subject: bytes, queue: bytes | None) -> None:
        """Report the first subscription to a subject and queue group."""
        if (subject, queue) == (self._subject, self._kind[1]):
            self._interest.report(*self._kind)

    def interest_ended(self, subject: bytes, queue: bytes | None) -> None:
        """Report the end of the last subscription to a subject and queue group."""
        self.interest_began(subject, queue)

    def group_resized(self, subject: bytes, queue: bytes, members: int) -> None:
        """Ignore the number of members, as long as there is one."""

    def remote_changed(self, subject: bytes, queue: bytes | None) -> None:
        """Report a change of the interest behind a link."""
        self.interest_began(subject, queue)


class Watched:
    """A subject, plain or with a queue group, and what to call when interest begins or ends."""

    __slots__ = ("changed", "kind")

    def __init__(self, kind: tuple[bytes, bytes | None], changed: Callable[[bool], object]) -> None:
        self.kind = kind
        self.changed = changed


def is_subscribed(account: Account, subject: bytes, group: bytes) -> bool:
    """Return whether `subject` itself has a subscription, in `group` if that is set."""
    remotes = account.sublist.remotes
    if remotes is not None and remotes.count_members(subject, group or None):
        return True
    result = account.sublist.match(subject)
    for one in result.plain:
        if _is_for(one, subject, group):
            return True
    return bool(group) and _is_in_group(result, subject, group)


def _is_in_group(result: SubListResult, subject: bytes, group: bytes) -> bool:
    """Return whether a member of a queue group in `result` subscribes to exactly `subject`."""
    return any(
        member.subject == subject
        for queue in result.queues
        if queue.name == group
        for member in queue.members
    )


def _is_for(one: Subscription, subject: bytes, group: bytes = b"") -> bool:
    """Return whether a plain subscription is of exactly `subject`, or leads to one in a group."""
    if isinstance(one, StreamLink):
        return is_subscribed(one.importer, one.importers_subject(subject), group)
    return not group and one.subject == subject


def only_link(result: SubListResult) -> Client | None:
    """Return the link that leads to all receivers in `result`, none of a queue group."""
    remotes = result.remotes
    if remotes is None or remotes.queues or len(remotes.plain) != 1:
        return None
    if result.plain or result.queues:
        return None
    links: tuple[Any, ...] = remotes.plain
    link: Client = links[0]
    return link
