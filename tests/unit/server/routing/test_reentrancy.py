"""Changes during routing: clients disconnect, connect, publish or are closed.

A subscription within the process does it from inside the delivery of a message, in the middle of a
run of messages that are alike. However the run is split into reads, every client is sent the same.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable

import pytest

from midge.protocol.frame import Frame, compose
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clients.connection import Connection
from midge.server.config.options import Options
from midge.server.routing.client import Client
from midge.server.routing.subscription import RoutedSubscription
from tests.fuzz.traffic import Script, Step
from tests.fuzz.world import Outcome, World

PUBLISHER, FIRST, SECOND = range(3)
RUN = b"".join(b"PUB a r 3\r\n%03d\r\n" % i for i in range(40))
STEPS: list[Step] = [
    ("feed", FIRST, b"SUB a 1\r\nSUB * 2\r\nSUB a q 3\r\n"),
    ("feed", SECOND, b"SUB a 1\r\nSUB > 2\r\nSUB a q 3\r\n"),
    ("feed", PUBLISHER, b"SUB a 1\r\nPING\r\n" + RUN + b"PING\r\n" + RUN),
    ("feed", FIRST, b"PING\r\n"),
]
PLAIN_STEPS: list[Step] = [
    ("feed", FIRST, b"SUB a 1\r\n"),
    ("feed", SECOND, b"SUB > 2\r\n"),
    ("feed", PUBLISHER, b"PING\r\n" + RUN + b"PING\r\n" + RUN),
    ("feed", FIRST, b"PING\r\n"),
]
"""No two subscriptions of one client and no queue group, so that it is routed in runs."""


class Meddler(RoutedSubscription):
    """Does `deed` from inside the delivery of every seventh message."""

    def __init__(self, world: World, deed: Callable[[World, Frame], None]) -> None:
        super().__init__(b"a")
        self._world = world
        self._deed = deed
        self._busy = False

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        if frame.payload_bytes().endswith(b"7") and not self._busy:
            self._busy = True
            self._deed(self._world, frame)
            self._busy = False
        return True


class RunMeddler(Meddler):
    """Takes runs, and does its deed from inside of them; `longest` is the longest that it took."""

    longest = 0

    def takes_runs(self) -> bool:
        return True

    def receive_run(self, publisher: Client | None, frame: Frame, count: int) -> int:
        taken = super().receive_run(publisher, frame, count)
        self.longest = max(self.longest, taken)
        return taken


def connection(world: World, client: int) -> Connection | None:
    """Return a client's connection, unless it has ended."""
    return next(
        (one for one in world.broker.clients.values() if one.peer_port == 1000 + client), None
    )


def close_receiver(world: World, frame: Frame) -> None:
    if one := connection(world, FIRST):
        one.close(ClosedReason.SERVER_SHUTDOWN)


def close_publisher(world: World, frame: Frame) -> None:
    if one := connection(world, PUBLISHER):
        one.close(ClosedReason.SERVER_SHUTDOWN, "over")


def abort_receiver(world: World, frame: Frame) -> None:
    if one := connection(world, SECOND):
        world.broker.router.flush()  # output that is not written when it is aborted is lost
        one.close(ClosedReason.SLOW_CONSUMER_PENDING)


def unsubscribe(world: World, frame: Frame) -> None:
    for client in (FIRST, SECOND):
        if one := connection(world, client):
            one.commands.on_unsubscribe(b"2" if b"2" in one.subscriptions else b"1", 0)


def unsubscribe_soon(world: World, frame: Frame) -> None:
    if one := connection(world, FIRST):
        one.commands.on_unsubscribe(b"1", 12)


def subscribe(world: World, frame: Frame) -> None:
    if one := connection(world, FIRST):
        one.commands.on_subscribe(b"a", None, b"n%d" % len(one.subscriptions))


def publish(world: World, frame: Frame) -> None:
    account = world.broker.global_account
    nested = compose(b"a", b"nested in " + frame.payload_bytes(), b"reply")
    world.broker.router.route(account, account.sublist.match(b"a"), None, nested)


def flush(world: World, frame: Frame) -> None:
    world.broker.router.flush()


def resume(world: World, frame: Frame) -> None:
    if one := connection(world, PUBLISHER):
        one.channel.resume()


DEEDS = [
    close_receiver,
    close_publisher,
    abort_receiver,
    unsubscribe,
    unsubscribe_soon,
    subscribe,
    publish,
    flush,
    resume,
]


def whole(data: bytes) -> Iterable[bytes]:
    return [data]


def byte_by_byte(data: bytes) -> Iterable[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def play(
    deed: Callable[[World, Frame], None],
    split: Callable[[bytes], Iterable[bytes]],
    *,
    read_bytes: int,
    is_tls: bool,
    kind: type[Meddler] = Meddler,
    steps: list[Step] = STEPS,
    longest: int = 0,
    introduction: bytes = b'CONNECT {"headers":true}\r\n',
) -> Outcome:
    world = World(Options(), read_bytes=read_bytes, is_tls=is_tls, is_observed=False)
    meddler = kind(world, deed)
    assert world.broker.global_account.add(meddler) is None
    outcome = world.play(Script([introduction] * 3, steps), split)
    assert getattr(meddler, "longest", 0) >= longest
    assert not world.broker.clients
    assert list(world.broker.global_account.sublist) == [meddler]
    return outcome


@pytest.mark.parametrize("is_tls", [False, True], ids=["tcp", "tls"])
@pytest.mark.parametrize("deed", DEEDS)
def test_what_happens_while_routing_happens_the_same_however_it_came(
    deed: Callable[[World, Frame], None], is_tls: bool
) -> None:
    expected = play(deed, byte_by_byte, read_bytes=512, is_tls=is_tls)
    assert play(deed, whole, read_bytes=1 << 18, is_tls=is_tls) == expected
    assert play(deed, whole, read_bytes=512, is_tls=is_tls) == expected
    assert sum(sent.count(b"MSG") for sent in expected[0]) > 20


@pytest.mark.parametrize("is_tls", [False, True], ids=["tcp", "tls"])
@pytest.mark.parametrize(
    "deed", [close_publisher, unsubscribe, unsubscribe_soon, subscribe, flush, resume]
)
def test_what_happens_within_a_run_happens_as_with_messages_that_come_one_by_one(
    deed: Callable[[World, Frame], None], is_tls: bool
) -> None:
    def played(split: Callable[[bytes], Iterable[bytes]], longest: int) -> Outcome:
        return play(
            deed,
            split,
            read_bytes=1 << 18,
            is_tls=is_tls,
            kind=RunMeddler,
            steps=PLAIN_STEPS,
            longest=longest,
            introduction=b'CONNECT {"headers":true,"verbose":false,"pedantic":false}\r\n',
        )

    expected = played(byte_by_byte, 0)
    outcome = played(whole, 3)
    assert outcome[0] == expected[0]
    assert outcome[1][2:] == expected[1][2:], "a publisher that is closed is counted at once"
    assert sum(sent.count(b"MSG") for sent in expected[0]) >= 16


class Broken(RoutedSubscription):
    """Fails with every message."""

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        raise RuntimeError("the store is broken")


def test_a_fault_of_an_internal_subscriber_is_no_concern_of_the_publisher() -> None:
    world = World(Options(), is_observed=False)
    world.broker.global_account.add(Broken(b"a"))
    requests = b"SUB r 1\r\nPUB a r 1\r\n1\r\nPUB b r 0\r\n\r\n"
    step: Step = ("feed", PUBLISHER, requests + b"PING\r\n")
    introduction = b'CONNECT {"headers":true,"no_responders":true}\r\n'
    world.take(step, [introduction], whole)
    sent = bytes(world.sockets[0].sent)
    assert sent.count(b"NATS/1.0 503") == 1, "of b alone: on a somebody was there"
    assert sent.endswith(b"PONG\r\n")
    assert world.broker.router.faults.count == 1
    world.play(Script([introduction], []), whole)


def connections() -> int:
    return sum(isinstance(one, Connection) for one in gc.get_objects())


def test_nobody_who_left_is_kept() -> None:
    """The caches of publishers and of the SubList do not keep clients alive for long."""
    gc.collect()
    before = connections()
    world = World(Options(), is_observed=False)
    steps: list[Step] = []
    for i in range(60):
        subject = b"x.%d" % (i % 20)
        messages = b"PUB %b 1\r\nx\r\nPUB y 1\r\nx\r\n" % subject * 3
        pattern = [subject, b"x.*", b"*.%d" % (i % 20)][i % 3]
        steps += [
            ("feed", FIRST, b"SUB %b 1\r\n" % pattern),
            ("feed", PUBLISHER, messages + b"PUB %b 1\r\nx\r\n" % subject),
            ("lost", FIRST),
        ]
    introductions = [b"CONNECT {}\r\n"] * 3
    for step in steps:
        world.take(step, introductions, whole)
    gc.collect()
    assert connections() - before <= 2, "the publisher, and one in what it found last"
    world.clock.advance(600)
    gc.collect()
    assert connections() - before <= 1
    world.play(Script(introductions, []), whole)
