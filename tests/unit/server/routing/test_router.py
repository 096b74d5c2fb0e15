"""The receivers of a message: every plain subscription, and exactly one member of each queue
group."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from midge.protocol.frame import Frame, compose
from midge.protocol.handler import Handler
from midge.protocol.parser import Parser
from midge.server.clients.observer import Observer
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.router import DEFERRED, Router
from midge.server.routing.slow_path import CLOSED
from midge.server.routing.subscription import RoutedSubscription
from tests.support.transports import Transport

POOL = ChunkPool()


class Receiver(Client):
    """A client that notes when it was flushed, and may swallow what it gets."""

    def __init__(self, cid: int, account: Account) -> None:
        super().__init__(cid, account, POOL)
        self.wire = Transport()
        self.outbound.attach(self.wire)
        self.flushes = 0
        self.swallows = False

    def checked(self, subscription, publisher, frame) -> Frame | None:
        return DEFERRED if self.swallows else super().checked(subscription, publisher, frame)

    def finished(self, subscription) -> None:
        self.account.remove(subscription)

    def flushed(self) -> None:
        self.flushes += 1


def subscribe(
    account: Account, subject: bytes = b"a", queue: bytes | None = None, sid: bytes = b"1"
) -> RoutedSubscription:
    """Subscribe a new receiver."""
    client = Receiver(len(account.sublist) + 1, account)
    subscription = RoutedSubscription(subject, queue, sid, client)
    assert account.add(subscription) is None
    return subscription


def publish(router: Router, account: Account, times: int = 1, payload: bytes = b"x") -> int:
    """Route as many messages to "a"; give how many receivers took them in all."""
    frame = compose(b"a", payload)
    return sum(
        router.route(account, account.sublist.match(b"a"), None, frame) for _ in range(times)
    )


@pytest.fixture
def account() -> Account:
    return Account("A")


def test_plain_subscriptions_all_get_it(account: Account) -> None:
    router = Router(soon=lambda _: None)
    members = [subscribe(account, subject) for subject in (b"a", b"*", b">")]
    assert publish(router, account) == 3
    assert [member.client.wire.written for member in members] == [b""] * 3
    router.flush()
    assert [member.client.wire.written for member in members] == [b"MSG a 1 1\r\nx\r\n"] * 3


def test_turns_are_exact(account: Account) -> None:
    router = Router()
    members = [subscribe(account, queue=b"q") for _ in range(4)]
    assert publish(router, account, 4000) == 4000
    assert [member.delivered for member in members] == [1000] * 4


def test_each_group_has_turns_of_its_own(account: Account) -> None:
    router = Router()
    ones = [subscribe(account, queue=b"one") for _ in range(2)]
    others = [subscribe(account, queue=b"other") for _ in range(3)]
    assert publish(router, account, 60) == 120
    assert [member.delivered for member in ones] == [30] * 2
    assert [member.delivered for member in others] == [20] * 3


def test_random_choice_is_the_choosers(account: Account) -> None:
    members = [subscribe(account, queue=b"q") for _ in range(4)]
    order = list(account.sublist.match(b"a").queues[0].members)
    assert publish(Router(Random(7)), account, 400) == 400
    same = Random(7)
    expected = Counter(same.randrange(4) for _ in range(400))
    assert {i: member.delivered for i, member in enumerate(order)} == expected
    assert sum(member.delivered for member in members) == 400


@pytest.mark.parametrize("chooser", [None, Random(1)])
def test_closed_members_are_skipped(account: Account, chooser: Random | None) -> None:
    router = Router(chooser)
    members = [subscribe(account, queue=b"q") for _ in range(4)]
    for gone in (members[0], members[2]):
        gone.client.deliver_checks |= CLOSED
    assert publish(router, account, 100) == 100
    assert [members[0].delivered, members[2].delivered] == [0, 0]
    assert members[1].delivered + members[3].delivered == 100
    members[1].client.deliver_checks |= CLOSED
    members[3].client.deliver_checks |= CLOSED
    assert publish(router, account) == 0


def test_auto_unsubscribe(account: Account) -> None:
    router = Router()
    plain = subscribe(account)
    plain.max_messages = 3
    queued = [subscribe(account, queue=b"q") for _ in range(2)]
    queued[0].max_messages = 2
    assert publish(router, account, 10) == 13
    assert plain.delivered == 3
    assert [member.delivered for member in queued] == [2, 8]
    assert set(account.sublist) == {queued[1]}


def test_counts(account: Account) -> None:
    router = Router()
    client = subscribe(account).client
    publish(router, account, 3, b"four")
    assert (client.out_messages, client.out_bytes) == (3, 12)


def test_one_flush_for_each_receiver_of_a_batch(account: Account) -> None:
    router = Router(soon=lambda _: None)
    one, other = subscribe(account), subscribe(account)
    publish(router, account, 5)
    router.touch(one.client)
    router.flush()
    router.flush()
    assert (one.client.flushes, other.client.flushes) == (1, 1)
    assert router.batches == 2
    assert one.client.wire.written == b"MSG a 1 1\r\nx\r\n" * 5


class Broken(Transport):
    """A transport that fails, once."""

    def write(self, data: bytes | memoryview) -> None:
        self.write = super().write  # type: ignore[method-assign]
        raise OSError("broken")


def test_a_fault_of_one_transport_does_not_silence_the_others(account: Account) -> None:
    router = Router(soon=lambda _: None)
    members = [subscribe(account) for _ in range(3)]
    first = account.sublist.match(b"a").plain[0].client
    first.wire = Broken()
    first.outbound.attach(first.wire)
    publish(router, account)
    with pytest.raises(OSError, match="broken"):
        router.flush()
    publish(router, account)
    router.flush()
    written = [member.client.wire.written.count(b"MSG") for member in members]
    assert sorted(written) == [1, 2, 2]


def test_swallowed_counts_as_taken_and_writes_nothing(account: Account) -> None:
    router = Router()
    subscription = subscribe(account)
    subscription.client.deliver_checks = 128
    subscription.client.swallows = True
    assert publish(router, account) == 1
    router.flush()
    assert subscription.delivered == 0  # the screen that keeps it counts it, once it is delivered
    assert subscription.client.wire.written == b""


class Callback(RoutedSubscription):
    """A subscription without a client, which takes every second message."""

    def receive(self, publisher, frame) -> bool:
        self.asked = getattr(self, "asked", 0) + 1
        return self.asked % 2 == 0


def test_without_a_client(account: Account) -> None:
    callback = Callback(b"a")
    account.add(callback)
    assert publish(Router(), account, 4) == 2
    assert callback.delivered == 2


class Counting(Observer):
    """Records the observed messages."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int]] = []

    def message_routed(self, account, publisher, frame, plain, queued) -> None:
        self.told.append((plain, queued))


def test_observer(account: Account) -> None:
    router = Router()
    router.observer = observer = Counting()
    publish(router, account)
    subscribe(account)
    subscribe(account)
    subscribe(account, queue=b"q")
    publish(router, account)
    assert observer.told == [(0, 0), (2, 1)]


RUN = b"".join(b"PUB a 1\r\n%d\r\n" % i for i in range(5))
DELIVERED = b"".join(b"MSG a 1 1\r\n%d\r\n" % i for i in range(5))


class Keeps(Handler):
    """Routes a run to a router's `route_run`, and remembers what that said."""

    def __init__(self, router: Router, account: Account) -> None:
        super().__init__()
        self.router = router
        self.account = account
        self.answers: list[int] = []

    def on_publish(self, frame) -> None:
        self.router.route(self.account, self.account.sublist.match(b"a"), None, frame)

    def on_publish_run(self, frame, count) -> int:
        result = self.account.sublist.match(b"a")
        self.answers.append(self.router.route_run(self.account, result, None, frame, count))
        if not self.answers[-1]:
            self.on_publish(frame)
        return self.answers[-1] or 1


def feed_run(account: Account, router: Router | None = None) -> list[int]:
    """Publish RUN; give what `route_run` said to it."""
    handler = Keeps(router or Router(), account)
    data = bytearray(RUN)
    assert Parser(handler).feed(data, 0, len(data)) == len(data)
    handler.router.flush()
    return handler.answers


def test_a_run_reaches_everybody_in_order_and_is_counted(account: Account) -> None:
    members = [subscribe(account, subject) for subject in (b"a", b"*", b">")]
    assert feed_run(account) == [4]
    for member in members:
        assert member.client.wire.written == DELIVERED
        assert member.delivered == member.client.out_messages == 5
        assert member.client.out_bytes == 5


class CountingRuns(Counting):
    """Also observes runs, and asks for their payloads."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[tuple[bytes, int, int]] = []

    def sees_runs(self) -> bool:
        return True

    def run_routed(self, account, publisher, frame, count, plain) -> None:
        self.runs.append((frame.payload_bytes(), count, plain))


def test_a_run_is_shown_as_one_to_who_sees_runs(account: Account) -> None:
    router = Router()
    router.observer = observer = CountingRuns()
    member = subscribe(account)
    assert feed_run(account, router) == [4]
    assert member.client.wire.written == DELIVERED
    assert (observer.told, observer.runs) == ([(1, 0)], [(b"1", 4, 1)])


def test_a_run_is_shown_message_by_message_to_who_does_not(account: Account) -> None:
    router = Router()
    router.observer = observer = Counting()
    subscribe(account)
    assert feed_run(account, router) == [0]
    assert observer.told == [(1, 0)] * 5


def test_a_run_that_reaches_nobody_is_shown_too(account: Account) -> None:
    router = Router()
    router.observer = observer = CountingRuns()
    feed_run(account, router)
    assert (observer.told, observer.runs) == ([(0, 0)], [(b"1", 4, 0)])


def test_a_run_longer_than_a_chunk_is_whole(account: Account) -> None:
    member = subscribe(account)
    payloads = [b"%06d" % i + bytes(994) for i in range(1000)]
    data = bytearray(b"".join(b"PUB a 1000\r\n%b\r\n" % payload for payload in payloads))
    handler = Keeps(Router(), account)
    assert Parser(handler).feed(data, 0, len(data)) == len(data)
    handler.router.flush()
    expected = b"".join(b"MSG a 1 1000\r\n%b\r\n" % payload for payload in payloads)
    assert member.client.wire.written == expected


def test_a_run_in_which_each_message_counts_is_not_delivered_as_one(account: Account) -> None:
    member = subscribe(account)
    member.max_messages = 3
    assert feed_run(account) == [0]
    assert member.client.wire.written == DELIVERED[: 3 * len(DELIVERED) // 5]


def test_one_client_with_two_subscriptions_gets_them_in_turn(account: Account) -> None:
    member = subscribe(account)
    assert account.add(RoutedSubscription(b"*", None, b"2", member.client)) is None
    assert feed_run(account) == [0]
    sids = [line.split(b" ")[2] for line in member.client.wire.written.split(b"MSG")[1:]]
    assert sids == [b"1", b"2"] * 5 or sids == [b"2", b"1"] * 5


def test_a_run_for_a_queue_group_is_shared_out(account: Account) -> None:
    members = [subscribe(account, queue=b"q") for _ in range(3)]
    assert feed_run(account) == [4]
    assert sorted(payloads_of(member) for member in members) == [
        [b"0", b"3"],
        [b"1", b"4"],
        [b"2"],
    ]
    for member in members:
        count = len(payloads_of(member))
        assert member.delivered == member.client.out_messages == member.client.out_bytes == count
    assert feed_run(account) == [4]
    assert sorted(member.delivered for member in members) == [3, 3, 4], "the next had its turn"


def payloads_of(member: RoutedSubscription) -> list[bytes]:
    """Return the payloads that the client of `member` has been sent."""
    return member.client.wire.written.split(b"\r\n")[1::2]


def test_a_run_is_shared_out_among_the_members_whose_turn_it_is(account: Account) -> None:
    members = [subscribe(account, queue=b"q") for _ in range(7)]
    assert feed_run(account) == [4]
    left = [member for member in members if member.delivered == 0]
    assert len(left) == 2
    for member in left:
        member.max_messages = 9  # each message counts
    assert feed_run(account) == [0], "it is the turn of these two"
    assert sorted(member.delivered for member in members) == [1, 1, 1, 1, 2, 2, 2]


def test_who_joins_after_a_run_is_the_next_as_after_single_messages(account: Account) -> None:
    first = subscribe(account, b"*", queue=b"q")
    assert feed_run(account) == [4]
    second = subscribe(account, queue=b"q")
    publish(Router(), account)
    assert (first.delivered, second.delivered) == (5, 1)


def test_one_client_with_several_members_gets_a_run_in_order(account: Account) -> None:
    member = subscribe(account, queue=b"q")
    other = RoutedSubscription(b"*", b"q", b"2", member.client)
    assert account.add(other) is None
    assert feed_run(account) == [4]
    assert payloads_of(member) == [b"0", b"1", b"2", b"3", b"4"]
    assert (member.delivered, other.delivered) in {(3, 2), (2, 3)}


def test_a_run_with_other_receivers_or_chosen_members_goes_one_by_one(account: Account) -> None:
    subscribe(account, queue=b"q")
    assert feed_run(account, Router(Random(1))) == [0]
    subscribe(account)
    assert feed_run(account) == [0]


class Store(RoutedSubscription):
    """An internal subscriber that takes runs; `most` messages of one, and notes all payloads."""

    def __init__(self, most: int = 100, fails_at: bytes = b"", queue: bytes | None = None) -> None:
        super().__init__(b"a", queue)
        self.most = most
        self.fails_at = fails_at
        self.payloads: list[bytes] = []
        self.runs: list[int] = []

    def receive(self, publisher, frame) -> bool:
        if frame.payload_bytes() == self.fails_at:
            raise RuntimeError("the store is broken")
        self.payloads.append(frame.payload_bytes())
        return True

    def takes_runs(self) -> bool:
        return True

    def receive_run(self, publisher, frame, count) -> int:
        self.runs.append(count)
        return super().receive_run(publisher, frame, min(count, self.most))


PAYLOADS = [b"%d" % i for i in range(5)]


def test_an_internal_subscriber_takes_a_run(account: Account) -> None:
    internal, member = Store(), subscribe(account)
    account.add(internal)
    assert feed_run(account) == [4]
    assert (internal.payloads, internal.delivered, internal.runs) == (PAYLOADS, 5, [4])
    assert member.client.wire.written == DELIVERED
    assert member.delivered == 5


@pytest.mark.parametrize("most", [0, 1, 3])
def test_clients_get_as_many_of_a_run_as_the_internal_subscriber_takes(
    account: Account, most: int
) -> None:
    internal, member = Store(most), subscribe(account)
    account.add(internal)
    assert feed_run(account) == [most]
    assert (internal.payloads, internal.delivered) == (PAYLOADS, 5)
    assert member.client.wire.written == DELIVERED


def test_a_run_goes_one_by_one_to_an_internal_subscriber_that_does_not_take_any(
    account: Account,
) -> None:
    callback = Callback(b"a")
    account.add(callback)
    assert feed_run(account) == [0]
    assert callback.delivered == 2


def test_a_run_goes_one_by_one_where_two_internal_subscribers_are(account: Account) -> None:
    internals = [Store(), Store()]
    for internal in internals:
        account.add(internal)
    assert feed_run(account) == [0]
    assert [internal.payloads for internal in internals] == [PAYLOADS] * 2


class Ends(Store):
    """Has something happen that ends the run, with the message "2"."""

    def __init__(self, member: RoutedSubscription, deed: str) -> None:
        super().__init__()
        self.member = member
        self.deed = deed

    def receive(self, publisher, frame) -> bool:
        if frame.payload_bytes() == b"2":
            if self.deed == "limit":
                self.member.max_messages = 3
            else:
                self.member.client.deliver_checks |= CLOSED
        return super().receive(publisher, frame)


@pytest.mark.parametrize("deed", ["limit", "close"])
def test_what_happens_within_a_run_counts_for_its_clients(account: Account, deed: str) -> None:
    router = Router()
    router.observer = observer = CountingRuns()
    member = subscribe(account)
    internal = Ends(member, deed)
    account.add(internal)
    feed_run(account, router)
    assert internal.payloads == PAYLOADS
    assert member.delivered == {"limit": 3, "close": 1}[deed]
    assert observer.runs == []
    assert sum(plain for plain, _ in observer.told) == 5 + member.delivered


def test_a_fault_of_an_internal_subscriber_is_contained(account: Account) -> None:
    router = Router()
    router.observer = observer = Counting()
    members = [subscribe(account) for _ in range(2)]
    internal = Store(fails_at=b"x")
    account.add(internal)
    assert publish(router, account) == 3, "the one that failed was there"
    router.flush()
    assert [member.client.wire.written for member in members] == [b"MSG a 1 1\r\nx\r\n"] * 2
    assert (internal.delivered, router.faults.count) == (0, 1)
    assert observer.told == [(2, 0)]


def test_a_member_of_a_queue_group_that_fails_has_had_its_chance(account: Account) -> None:
    router = Router()
    account.add(Store(fails_at=b"x", queue=b"q"))
    other = subscribe(account, queue=b"q")
    assert publish(router, account, 10) == 10
    assert (other.delivered, router.faults.count) == (5, 5)


def test_what_was_taken_of_a_run_before_a_fault_counts(account: Account) -> None:
    router = Router()
    router.observer = observer = CountingRuns()
    member = subscribe(account)
    internal = Store(fails_at=b"3")
    account.add(internal)
    feed_run(account, router)
    assert internal.payloads == [b"0", b"1", b"2", b"4"]
    assert (internal.delivered, router.faults.count) == (4, 1)
    assert member.client.wire.written == DELIVERED
    assert observer.runs == [(b"1", 2, 2)]
    assert observer.told == [(2, 0), (1, 0), (2, 0)]


class Failing(Observer):
    """An observer that raises what it is given."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def sees_runs(self) -> bool:
        return True

    def message_routed(self, account, publisher, frame, plain, queued) -> None:
        raise self.error

    def run_routed(self, account, publisher, frame, count, plain) -> None:
        raise self.error


def test_a_fault_of_an_observer_is_contained(account: Account) -> None:
    router = Router()
    router.observer = Failing(RuntimeError("no"))
    member = subscribe(account)
    assert feed_run(account, router) == [4]
    assert member.client.wire.written == DELIVERED
    assert router.faults.count == 2


def test_what_ends_the_process_is_not_contained(account: Account) -> None:
    router = Router()
    router.observer = Failing(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        publish(router, account)
    assert router.faults.count == 0
