"""Whole connections against brute force: nothing forbidden passes, whatever happens meanwhile.

Broker, parser, router and connections are the real ones, over transports that record all output.
The oracles match by splitting subjects and keep ledgers; they share nothing with the server.
"""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from midge.server.broker.broker import Broker, Observer
from midge.server.clients.connection import Connection
from midge.server.config.options import (
    Account,
    AllowResponses,
    Authorization,
    Export,
    Import,
    ImportSource,
    Keepalive,
    Options,
    Permissions,
    SubjectPermissions,
    User,
)
from midge.server.interceptors import Deliver, Publish, Refuse
from midge.testing import ManualClock
from tests.property.test_account_isolation import allowed_only, is_match
from tests.property.test_permissions_oracle import (
    denies,
    patterns,
    queues,
    rules_of,
    stands_for,
    subjects,
)
from tests.support.transports import Transport

MESSAGE = re.compile(rb"MSG (\S+) (\S+) (?:(\S+) )?(\d+)\r\n([^\r]*)\r\n")


class Peer:
    """A client of a broker."""

    def __init__(self, broker: Broker, user: str = "") -> None:
        self.connection: Connection = broker.make_connection(("127.0.0.1", 1))
        self._socket = Transport()
        self.connection.channel.connection_made(self._socket)
        options = b'"verbose":false,"pedantic":false,"headers":true'
        self.send(b'CONNECT {%b,"user":"%b","pass":"p"}' % (options, user.encode()))
        assert self.connection.introduced
        self.take()

    def send(self, *lines: bytes) -> None:
        self.connection.channel.feed(b"".join(line + b"\r\n" for line in lines))

    def take(self) -> bytes:
        """Return the output since the last call."""
        return self._socket.take()

    def messages(self) -> list[tuple[str, str, bytes]]:
        """Return subject, sid and payload of the messages that have come since the last time."""
        found = MESSAGE.findall(self.take())
        return [(subject.decode(), sid.decode(), payload) for subject, sid, _, _, payload in found]


def options_with(publishing: Permissions, receiving: Permissions) -> Options:
    users = (
        User(user="publisher", password="p", permissions=publishing),
        User(user="receiver", password="p", permissions=receiving),
    )
    return Options(authorization=Authorization(users=users))


def denying(subject: str) -> Permissions:
    denial = SubjectPermissions(deny=(subject,))
    return Permissions(publish=denial, subscribe=denial)


def reload(broker: Broker, options: Options) -> None:
    put_in_force = broker.prepare_reload(options)
    broker.options = options
    put_in_force()
    broker.router.flush()


class ReloadAfter(Observer):
    """Reloads in the middle of a read, after a number of its messages have been routed."""

    def __init__(self, broker: Broker, options: Options, count: int) -> None:
        self._broker = broker
        self._options = options
        self._left = count

    def message_routed(self, *_: Any) -> None:
        self._left -= 1
        if self._left == 0:
            reload(self._broker, self._options)


def may_publish(rules: Permissions, subject: str) -> bool:
    allow, deny = rules.publish.allow, rules.publish.deny
    is_allowed = not allow or any(stands_for(one, subject) for one in allow)
    return is_allowed and not any(stands_for(one, subject) for one in deny)


def expected_deliveries(peer: Peer, rules: Permissions, subject: str) -> tuple[Counter[str], int]:
    """Return the sids of plain subscriptions that get `subject`, and how many groups do."""
    plain: Counter[str] = Counter()
    groups: set[str] = set()
    for subscription in peer.connection.subscriptions.values():
        queue = None if subscription.queue is None else subscription.queue.decode()
        if not stands_for(subscription.subject.decode(), subject):
            continue
        if denies(rules.subscribe.deny, subject, queue):
            continue
        if queue is None:
            plain[subscription.sid.decode()] += 1
        else:
            groups.add(queue)
    return plain, len(groups)


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    return draw(
        st.lists(
            st.one_of(
                st.tuples(st.just("subscribe"), patterns(), st.none() | queues),
                st.tuples(st.just("publish"), subjects, st.integers(1, 3)),
                st.tuples(st.just("reload"), rules_of, rules_of),
            ),
            min_size=2,
            max_size=12,
        )
    )


@settings(max_examples=50)
@given(rules_of, rules_of, steps())
def test_deliveries_are_exactly_those_that_the_rules_of_the_moment_allow(
    publishing: Permissions, receiving: Permissions, script: list[tuple[Any, ...]]
) -> None:
    broker = Broker(options_with(publishing, receiving), ManualClock(), Random(0))
    publisher, receiver = Peer(broker, "publisher"), Peer(broker, "receiver")
    for number, (what, first, second) in enumerate(script):
        if what == "subscribe":
            queue = b"" if second is None else b" " + second.encode()
            receiver.send(b"SUB %b%b %d" % (first.encode(), queue, number))
        elif what == "reload":
            publishing, receiving = first, second
            reload(broker, options_with(publishing, receiving))
        else:
            plain, groups = expected_deliveries(receiver, receiving, first)
            receiver.take()
            publisher.send(*[b"PUB %b 1\r\nx" % first.encode()] * second)
            got = Counter(sid for _, sid, _ in receiver.messages())
            if not may_publish(publishing, first):
                assert not got
                assert publisher.take().count(b"-ERR") == second
                continue
            assert b"-ERR" not in publisher.take()
            subscriptions = receiver.connection.subscriptions
            of_groups = {
                sid: count for sid, count in got.items() if subscriptions.get(sid.encode()).queue
            }
            for sid in of_groups:
                queue_name = subscriptions.get(sid.encode()).queue
                assert queue_name is not None
                assert not denies(receiving.subscribe.deny, first, queue_name.decode())
            assert sum(of_groups.values()) == groups * second
            assert got - Counter(of_groups) == Counter(dict.fromkeys(plain, second))


@settings(max_examples=50)
@given(rules_of, rules_of, rules_of, rules_of, subjects, st.integers(1, 5), st.integers(1, 5))
@example(Permissions(), denying("b"), Permissions(), denying("a"), "a", 2, 2)
@example(denying("b"), Permissions(), denying("a"), Permissions(), "a", 2, 2)
def test_a_reload_between_two_lines_of_one_read_counts_for_the_second(
    publishing: Permissions,
    receiving: Permissions,
    publishing_after: Permissions,
    receiving_after: Permissions,
    subject: str,
    before: int,
    after: int,
) -> None:
    """The very same line comes again and again, so that every remembered verdict is tried."""
    broker = Broker(options_with(publishing, receiving), ManualClock(), Random(0))
    publisher, receiver = Peer(broker, "publisher"), Peer(broker, "receiver")
    receiver.send(b"SUB > 1", b"SUB %b 2" % subject.encode())
    receiver.take()
    changed = options_with(publishing_after, receiving_after)
    if not may_publish(publishing, subject):
        reload(broker, changed)
        before = 0
    broker.watch_messages(ReloadAfter(broker, changed, before))
    expected: Counter[str] = Counter()
    plain, _ = expected_deliveries(receiver, receiving, subject)
    for sid in plain if before else ():
        expected[sid] += before
    publisher.send(*[b"PUB %b 1\r\nx" % subject.encode()] * (before + after))
    if may_publish(publishing_after, subject):
        plain, _ = expected_deliveries(receiver, receiving_after, subject)
        for sid in plain:
            expected[sid] += after
    assert Counter(sid for _, sid, _ in receiver.messages()) == expected


@settings(max_examples=50)
@given(
    st.integers(1, 3),
    st.floats(1, 100),
    st.lists(
        st.tuples(
            st.sampled_from(("request", "answer", "wait")), st.integers(0, 2), st.floats(0, 60)
        ),
        max_size=25,
    ),
)
def test_only_granted_answers_reach_anybody(
    most: int, expires_s: float, script: list[tuple[str, int, float]]
) -> None:
    rules = Permissions(
        publish=SubjectPermissions(allow=("own",)),
        allow_responses=AllowResponses(max=most, expires_s=expires_s),
    )
    clock = ManualClock()
    options = structs.replace(
        options_with(Permissions(), rules), keepalive=Keepalive(ping_interval_s=1e6)
    )
    broker = Broker(options, clock, Random(0))
    asker, worker = Peer(broker, "publisher"), Peer(broker, "receiver")
    asker.send(b"SUB inbox.* 1")
    worker.send(b"SUB work 1")
    ledger: dict[int, tuple[float, int]] = {}
    for what, which, delay_s in script:
        inbox = b"inbox.%d" % which
        if what == "wait":
            clock.advance(delay_s)
        elif what == "request":
            asker.send(b"PUB work %b 0\r\n" % inbox)
            assert len(worker.messages()) == 1
            ledger[which] = (clock.monotonic(), 0)
        else:
            worker.send(b"PUB %b 1\r\nx" % inbox)
            granted_s, used = ledger.get(which, (0.0, most))
            is_good = used < most and clock.monotonic() - granted_s <= expires_s
            ledger[which] = (granted_s, used + 1 if is_good else most)
            assert len(asker.messages()) == is_good
            assert (b"-ERR" in worker.take()) != is_good


@settings(max_examples=50)
@given(
    st.sets(subjects, max_size=4),
    st.sets(subjects, max_size=4),
    st.dictionaries(subjects, subjects, max_size=3),
    st.lists(subjects, max_size=12),
    st.booleans(),
)
def test_nothing_refused_is_delivered(
    unpublished: set[str],
    undelivered: set[str],
    moved: dict[str, str],
    published: list[str],
    is_queue: bool,
) -> None:
    def publish(event: Publish) -> Publish | Refuse:
        if event.subject in unpublished:
            return Refuse()
        if event.subject in moved:
            return Publish(event.client, moved[event.subject], None, None, event.payload)
        return event

    def deliver(event: Deliver) -> Deliver | Refuse:
        return Refuse() if event.subject in undelivered else event

    broker = Broker(Options(), ManualClock(), Random(0))
    broker.intercept({"publish": publish, "deliver": deliver})
    publisher, receiver = Peer(broker), Peer(broker)
    receiver.send(b"SUB > q 1" if is_queue else b"SUB > 1")
    publisher.send(*(b"PUB %b 1\r\nx" % subject.encode() for subject in published))
    passed = [moved.get(one, one) for one in published if one not in unpublished]
    expected = [one for one in passed if one not in undelivered]
    assert [subject for subject, _, _ in receiver.messages()] == expected
    assert publisher.take().count(b"-ERR") == len(published) - len(passed)


NAMES = ("A", "B", "C")
PARTS = ("x", "y.>", "z.*")


@st.composite
def exchanging_accounts(draw: st.DrawFn) -> list[Account]:
    """Accounts that offer streams and services, and take some of those before them."""
    made: list[Account] = []
    for name in NAMES:
        offered = draw(
            st.sets(
                st.tuples(st.sampled_from(("stream", "service")), st.sampled_from(PARTS)),
                max_size=3,
            )
        )
        exports = tuple(
            Export(accounts=tuple(draw(st.sets(st.sampled_from(NAMES)))), **{kind: part})
            for kind, part in sorted(offered)
        )
        offers = [
            (kind, account.name, part)
            for account in made
            for kind in ("stream", "service")
            for part in PARTS
            if any(getattr(one, kind) == part for one in account.exports)
        ]
        taken = draw(st.sets(st.sampled_from(offers), max_size=3)) if offers else set()
        imports = tuple(
            Import(**{kind: ImportSource(account=source, subject=part)})
            for kind, source, part in sorted(taken)
        )
        users = (User(user=name.lower(), password="p"),)
        made.append(Account(name=name, users=users, exports=exports, imports=imports))
    return allowed_only(made)


def accounts_that_see(made: list[Account], account: str, subject: str, via: str = "") -> set[str]:
    """List the accounts in which a message published in `account` may be seen.

    One that came there over an import of a stream goes no further, and one that came over imports
    of services goes on over such alone, as on nats-server.
    """
    seen = {account}
    for table in made:
        for each in table.imports:
            kind = "stream" if each.stream else "service"
            source = each.stream or each.service
            assert source is not None
            ends = (source.account, table.name)
            comes_from, goes_to = ends if kind == "stream" else reversed(ends)
            goes_on = via == "" or via == kind == "service"
            if goes_on and comes_from == account and is_match(source.subject, subject):
                seen |= accounts_that_see(made, goes_to, subject, kind)
    return seen


@settings(max_examples=50)
@given(
    exchanging_accounts(),
    st.sampled_from(NAMES),
    st.sampled_from(("x", "y.a", "y.a.b", "z.a", "w")),
    st.booleans(),
)
def test_no_byte_crosses_without_an_import(
    made: list[Account], account: str, subject: str, has_reply: bool
) -> None:
    broker = Broker(Options(accounts=tuple(made)), ManualClock(), Random(0))
    watchers = {name: Peer(broker, name.lower()) for name in NAMES}
    for watcher in watchers.values():
        watcher.send(b"SUB > 1")
        watcher.take()
    publisher = Peer(broker, account.lower())
    reply = b" reply.here" if has_reply else b""
    publisher.send(b"PUB %b%b 6\r\nsecret" % (subject.encode(), reply))
    saw = {name for name, watcher in watchers.items() if b"secret" in watcher.take()}
    assert saw == accounts_that_see(made, account, subject)
