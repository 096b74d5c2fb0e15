"""The expected deliveries: a model of every subscription and message, kept beside the server.

The ledger observes subscriptions and routed messages like any observer. For each message it finds
the expected receivers by splitting subjects, compares them with the router's result, and in the end
compares every byte sent to each client with the expected bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from midge.protocol.frame import Frame
from midge.server.broker.broker import Broker
from midge.server.clients.connection import Connection
from midge.server.clients.observer import Observer
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.slow_path import BEHIND
from midge.server.routing.subscription import RoutedSubscription

if TYPE_CHECKING:
    from tests.fuzz.sockets import Socket

BATCH_BYTES = 1 << 20
"""What one read of a script may make a receiver be sent beyond its limit before it is noticed."""


CHECKED_SUBJECTS = (b"a", b"a.b", b"a.b.c", b"c.d")
"""The subjects that are matched after every step of a script."""


class Message(NamedTuple):
    """A message as a client sees it."""

    sid: bytes
    subject: bytes
    reply: bytes
    headers: bytes | None
    payload: bytes


NO_RESPONDERS = b"NATS/1.0 503\r\nNats-Subject: "


def oracle_matches(literal: bytes, pattern: bytes) -> bool:
    """Match token by token, written directly from the rules."""
    tokens = literal.split(b".")
    wanted = pattern.split(b".")
    if b"" in tokens:
        return False
    if wanted[-1] == b">":
        if len(tokens) < len(wanted):
            return False
        wanted, tokens = wanted[:-1], tokens[: len(wanted) - 1]
    return len(wanted) == len(tokens) and all(
        want in (b"*", token) for want, token in zip(wanted, tokens, strict=True)
    )


class Wire:
    """What one client was sent, read back."""

    def __init__(self, sent: bytes) -> None:
        self.messages: list[Message] = []
        self.errors: list[bytes] = []
        self.oks = 0
        at = 0
        while at < len(sent):
            line_end = sent.find(b"\r\n", at)
            if line_end < 0:
                break
            line = sent[at:line_end]
            at = line_end + 2
            words = line.split(b" ")
            if words[0] in (b"MSG", b"HMSG"):
                after = self._message(words, sent, at)
                if after > len(sent):
                    at = line_end - len(line)
                    break
                at = after
            elif words[0] == b"-ERR":
                self.errors.append(line)
            elif line == b"+OK":
                self.oks += 1
            else:
                assert line in (b"PING", b"PONG") or words[0] == b"INFO", line
        self.is_whole = at == len(sent)

    def _message(self, words: list[bytes], sent: bytes, at: int) -> int:
        """Take the message whose payload is at `at`; return the index behind it."""
        with_headers = words[0] == b"HMSG"
        sizes = words[-2:] if with_headers else words[-1:]
        middle = words[1 : len(words) - len(sizes)]
        assert 2 <= len(middle) <= 3, words
        size = int(sizes[-1])
        after = at + size + 2
        if after <= len(sent):
            assert sent[after - 2 : after] == b"\r\n", words
            split = at + int(sizes[0]) if with_headers else at
            headers = sent[at:split] if with_headers else None
            reply = middle[2] if len(middle) == 3 else b""
            self.messages.append(
                Message(middle[1], middle[0], reply, headers, sent[split : after - 2])
            )
        return after


class Attended:
    """One connection, and what it should have been sent."""

    def __init__(self, connection: Connection, socket: Socket) -> None:
        self.socket = socket
        self.due: list[list[Message]] = []
        self.routed = 0
        self.was_cut = False
        self.counts = (0, 0, 0, 0)
        self.connection: Connection | None = connection

    def is_behind(self) -> bool:
        """Return whether its socket does not take what it is sent."""
        return self.connection is not None and bool(self.connection.deliver_checks & BEHIND)


class Ledger(Observer):
    """Looks on at `broker`, and asserts."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._attended: dict[int, Attended] = {}
        self._held: dict[RoutedSubscription, int] = {}
        self._leaving: list[RoutedSubscription] = []
        broker.watch_messages(self)

    def attend(self, connection: Connection, socket: Socket) -> None:
        """Keep account of `connection` from its start."""
        self._attended[connection.cid] = Attended(connection, socket)

    # Calls from the server.

    def subscribed(self, connection: Connection, subscription: RoutedSubscription) -> None:
        assert subscription not in self._held
        assert subscription.delivered == 0
        self._held[subscription] = 0

    def unsubscribed(
        self, connection: Connection, subscription: RoutedSubscription, cause: str
    ) -> None:
        if cause == "auto_unsubscribed":
            assert subscription.delivered == subscription.max_messages > 0
        if subscription.delivered != self._held[subscription]:
            self._leaving.append(subscription)  # in the middle of a message, which it has had
        else:
            del self._held[subscription]

    def client_closed(self, connection: Connection) -> None:
        one = self._attended[connection.cid]
        reason = connection.reason
        one.was_cut = reason is not None and reason.is_slow_consumer
        one.counts = _counts(connection)
        one.connection = None

    def message_routed(
        self, account: Account, publisher: Client | None, frame: Frame, plain: int, queued: int
    ) -> None:
        assert publisher is not None
        self._attended[publisher.cid].routed += 1
        subject = frame.subject_bytes()
        under_pressure = self._leaving or any(one.is_behind() for one in self._attended.values())
        took: dict[int, list[Message]] = {}
        plain_now = 0
        groups: dict[bytes, int] = {}
        for subscription, before in self._held.items():
            client: Any = subscription.client
            got = subscription.delivered - before
            self._held[subscription] = subscription.delivered
            able = (
                client.account is account
                and oracle_matches(subject, subscription.subject)
                and _is_able(client, subscription, publisher, subject)
            )
            assert got in ((0, 1) if able else (0,)), (subscription, subject)
            if subscription.queue is None:
                plain_now += got
                assert got or not able or under_pressure, (subscription, subject)
            elif able:
                groups[subscription.queue] = groups.get(subscription.queue, 0) + got
            if got:
                took.setdefault(client.cid, []).append(_delivery(frame, subscription))
        assert plain == plain_now
        assert queued == sum(groups.values())
        for name, takers in groups.items():
            assert takers == 1 or (takers == 0 and under_pressure), (name, subject)
        for cid, messages in took.items():
            self._attended[cid].due.append(messages)
        for subscription in self._leaving:
            del self._held[subscription]
        self._leaving.clear()

    # What must hold at any time.

    def check(self) -> None:
        """See that the SubLists hold what the clients have, and that nothing grows."""
        broker = self._broker
        limits = broker.options.limits
        by_account: dict[str, set[RoutedSubscription]] = {name: set() for name in broker.accounts}
        for connection in broker.clients.values():
            by_account[connection.account.name].update(connection.subscriptions.values())
            held = connection.channel.inbound.held_bytes()
            line = limits.max_control_line_bytes + len(b"CONNECT \r\n")
            assert held <= line + limits.max_payload_bytes + len(b"\r\n") + (1 << 16), held
            assert connection.outbound.pending_bytes() <= limits.max_pending_bytes + BATCH_BYTES
        assert {one.cid for one in broker.clients.values()} == {
            cid for cid, one in self._attended.items() if one.connection is not None
        }
        assert set().union(*by_account.values()) == set(self._held)
        for name, account in broker.accounts.items():
            expected = by_account[name]
            assert len(account.sublist) == len(expected)
            assert set(account.sublist) == expected
            for subject in CHECKED_SUBJECTS:
                result = account.sublist.match(subject)
                found = result.subscriptions()
                assert len(found) == len(set(found))
                assert set(found) == {s for s in expected if oracle_matches(subject, s.subject)}

    def check_end(self, sockets: list[Socket]) -> None:
        """Check that every client received its messages, and that none is left over."""
        broker = self._broker
        assert not broker.clients
        assert not self._held
        for account in broker.accounts.values():
            assert not account.clients
            assert len(account.sublist) == account.sublist.depth() == 0
        totals = [0, 0, 0, 0]
        for one in self._attended.values():
            self._check_wire(one)
            totals = [total + count for total, count in zip(totals, one.counts, strict=True)]
        counted = broker.totals
        assert totals == [
            counted.in_messages,
            counted.in_bytes,
            counted.out_messages,
            counted.out_bytes,
        ]
        assert counted.connections == len(self._attended) <= len(sockets)

    def _check_wire(self, one: Attended) -> None:
        """Compare the messages sent to a client with the expected ones, message by message."""
        wire = Wire(one.socket.received())
        counted = [m for m in wire.messages if not (m.headers or b"").startswith(NO_RESPONDERS)]
        due = [message for messages in one.due for message in messages]
        if wire.is_whole and not one.was_cut and len(counted) == len(due):
            assert one.counts[2] == len(counted)
            assert one.counts[3] == sum(len(m.headers or b"") + len(m.payload) for m in counted)
        else:
            assert one.socket.was_torn or one.was_cut, "messages are missing"
            assert one.counts[2] == len(due)
        at = 0
        for messages in one.due:
            # One message reaches the subscriptions of one client in no particular order.
            got = counted[at : at + len(messages)]
            at += len(messages)
            if len(got) < len(messages):
                assert set(got) <= set(messages)
                break
            assert sorted(got, key=repr) == sorted(messages, key=repr)
        assert at >= len(counted), "more than was due"
        refused = sum(b"Permissions Violation for Publish" in error for error in wire.errors)
        assert one.counts[0] >= one.routed
        is_all = wire.is_whole and not one.was_cut and not one.socket.was_torn
        if is_all and not self._broker.options.mappings:
            assert one.counts[0] == one.routed + refused


def _counts(connection: Connection) -> tuple[int, int, int, int]:
    return (
        connection.in_messages,
        connection.in_bytes,
        connection.out_messages,
        connection.out_bytes,
    )


def _is_able(
    client: Any, subscription: RoutedSubscription, publisher: Client, subject: bytes
) -> bool:
    """Return whether `client` may take a message to `subject` for one of its subscriptions."""
    if not client.options.echo and client is publisher:
        return False
    permissions = client.commands.permissions
    return permissions is None or bool(permissions.may_deliver(subject, subscription.queue))


def _delivery(frame: Frame, subscription: RoutedSubscription) -> Message:
    """Return `frame` as the client of `subscription` is to see it."""
    client: Any = subscription.client
    headers = frame.header_bytes()
    if headers is not None and (not client.parser.headers or not headers):
        headers = None
    return Message(
        subscription.sid,
        frame.subject_bytes(),
        frame.reply_bytes() or b"",
        headers,
        frame.payload_bytes(),
    )
