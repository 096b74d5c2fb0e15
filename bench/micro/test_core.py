"""One operation of the core at a time.

Limits come from the SubList of nats-server, measured on the same class of machine: insert 740 ns,
remove 540 ns, cached match 52 ns, match among 10,000 subscriptions without cache 5.9 µs.
"""

import gc
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from bench import frames
from bench.micro import workloads
from midge.protocol.frame import Frame, compose
from midge.protocol.handler import Handler
from midge.protocol.parser import Parser
from midge.server.recorder.message_rows import MessageRows
from midge.server.recorder.tap import BARE, WHOLE, MessageTap
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool, Outbound
from midge.server.routing.router import Router
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist.sublist import SubList
from midge.sublist.subscription import Subscription

Measure = Callable[[Callable[..., Any], Callable[[], tuple[Any, ...]], int], None]


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    """Disable the cyclic garbage collector, because the server freezes and rarely runs it."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def filled(patterns: list[bytes], **options: Any) -> SubList:
    sublist = SubList(**options)
    for subscription in workloads.subscriptions(patterns):
        sublist.insert(subscription)
    return sublist


@pytest.mark.limit(60)
def test_match_cached(loops: ModuleType, measure: Measure) -> None:
    subjects = workloads.subjects()
    sublist = filled(workloads.with_wildcards(subjects, 0.2))
    hot = subjects[:1000] * 50
    measure(loops.match, lambda: (sublist, hot), len(hot))


@pytest.mark.limit(60)
def test_match_literal_with_no_wildcard_present(loops: ModuleType, measure: Measure) -> None:
    subjects = workloads.subjects()
    sublist = filled(subjects)
    loops.match(sublist, subjects)
    measure(loops.match, lambda: (sublist, subjects), len(subjects))


@pytest.mark.limit(4_000)
def test_match_literal_uncached_from_the_dictionary(loops: ModuleType, measure: Measure) -> None:
    subjects = workloads.subjects()
    measure(
        loops.match,
        lambda: (filled(subjects, cache_max=0, cache_sweep_to=0), subjects),
        len(subjects),
    )


@pytest.mark.limit(4_000)
def test_match_literal_uncached_from_the_trie(loops: ModuleType, measure: Measure) -> None:
    subjects = workloads.subjects()
    sublist = filled(subjects, cache_max=0, cache_sweep_to=0, exact_match=False)
    measure(loops.match, lambda: (sublist, subjects), len(subjects))


@pytest.mark.limit(4_000)
def test_match_uncached_one_wildcard_in_five(loops: ModuleType, measure: Measure) -> None:
    subjects = workloads.subjects()
    patterns = workloads.with_wildcards(subjects, 0.2)
    sublist = filled(patterns, cache_max=0, cache_sweep_to=0)
    measure(loops.match, lambda: (sublist, subjects), len(subjects))


def test_match_uncached_wildcards_only(loops: ModuleType, measure: Measure) -> None:
    subjects = workloads.subjects()
    patterns = workloads.with_wildcards(subjects, 1.0)
    sublist = filled(patterns, cache_max=0, cache_sweep_to=0)
    few = subjects[:2000]
    measure(loops.match, lambda: (sublist, few), len(few))


@pytest.mark.limit(800)
@pytest.mark.parametrize("wildcards", [0.0, 0.2])
def test_insert(loops: ModuleType, measure: Measure, wildcards: float) -> None:
    patterns = workloads.with_wildcards(workloads.subjects(), wildcards)
    measure(loops.insert, lambda: (SubList(), workloads.subscriptions(patterns)), len(patterns))


@pytest.mark.limit(800)
@pytest.mark.parametrize("wildcards", [0.0, 0.2])
def test_remove(loops: ModuleType, measure: Measure, wildcards: float) -> None:
    patterns = workloads.with_wildcards(workloads.subjects(), wildcards)

    def full() -> tuple[SubList, list[Subscription]]:
        sublist, subscriptions = SubList(), workloads.subscriptions(patterns)
        loops.insert(sublist, subscriptions)
        return sublist, subscriptions

    measure(loops.remove, full, len(patterns))


@pytest.mark.parametrize("wildcards", [0.0, 1.0])
def test_cache_under_churn(loops: ModuleType, measure: Measure, wildcards: float) -> None:
    subjects = workloads.subjects()
    sublist = filled(workloads.with_wildcards(subjects, 0.2))
    comers = workloads.subscriptions(workloads.with_wildcards(subjects[:100], wildcards))
    hot = subjects[:500] * 4
    measure(loops.churn, lambda: (sublist, comers, hot), len(hot))


@pytest.mark.parametrize("payload_bytes", [16, 1024])
@pytest.mark.parametrize("kind", ["one_subject", "many_subjects"])
def test_parse(loops: ModuleType, measure: Measure, kind: str, payload_bytes: int) -> None:
    subjects = workloads.subjects(1 if kind == "one_subject" else 1000)
    payload = b"x" * payload_bytes
    (chunk, *_) = frames.chunks([frames.pub(s, payload) for s in subjects], 256 * 1024)
    parser = Parser(Handler())
    buffer = bytearray(chunk.data)
    assert loops.parse(parser, buffer) == len(buffer)
    measure(loops.parse, lambda: (parser, buffer), chunk.messages)


class _Sink:
    """A transport whose socket takes everything."""

    def write(self, data: bytes | memoryview) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


@pytest.mark.parametrize("width", [1, 10, 100])
def test_fan_out(loops: ModuleType, measure: Measure, width: int) -> None:
    pool = ChunkPool()
    outbounds = [Outbound(pool) for _ in range(width)]
    for outbound in outbounds:
        outbound.attach(_Sink())
    frame = compose(b"orders.eu.berlin", b"x" * 16)
    count = 20_000 // width
    measure(loops.fan_out, lambda: (outbounds, frame, b"17", count), count * width)


class _Publisher(Client):
    """A publisher that routes the messages of its parser, as a connection does."""

    def __init__(self, account: Account, router: Router) -> None:
        super().__init__(1, account, ChunkPool())
        self.router = router

    def on_publish(self, frame: Frame) -> None:
        result = self.account.sublist.match(frame.subject_bytes())
        self.router.route(self.account, result, self, frame)

    def on_publish_run(self, frame: Frame, count: int) -> int:
        result = self.account.sublist.match(frame.subject_bytes())
        taken = self.router.route_run(self.account, result, self, frame, count)
        if not taken:
            self.on_publish(frame)
        return taken or 1


@pytest.mark.limit(100)
def test_deliver_to_an_internal_subscriber(loops: ModuleType, measure: Measure) -> None:
    account, router, count = Account("A"), Router(), 20_000
    account.sublist.insert(loops.Counting(b"orders.>"))
    frame = compose(b"orders.eu.berlin", b"x" * 16)
    result = account.sublist.match(b"orders.eu.berlin")
    measure(loops.route, lambda: (router, account, result, frame, count), count)


@pytest.mark.parametrize("recorded", ["unrecorded", "without_payloads", "with_payloads"])
def test_one_to_one(loops: ModuleType, measure: Measure, recorded: str) -> None:
    account, router = Account("A"), Router()
    receiver = Client(2, account, ChunkPool())
    receiver.outbound.attach(_Sink())
    account.sublist.insert(RoutedSubscription(b"a", None, b"1", receiver))
    if recorded != "unrecorded":
        choice = BARE if recorded == "without_payloads" else WHOLE

        def exchange(rows: MessageRows) -> MessageRows:
            rows.clear()
            return rows

        router.observer = MessageTap(
            router, MessageRows(65_536, 262_144), exchange, lambda _: choice, time.time
        )
    (chunk, *_) = frames.chunks([frames.pub(b"a", b"x" * 16)], 64 * 1024)
    buffer = bytearray(chunk.data)
    parser = Parser(_Publisher(account, router))

    def read() -> tuple[Any, ...]:
        router.flush()
        return parser, buffer

    measure(loops.parse, read, chunk.messages)
