"""Much interest behind a route: what it costs, and how it is divided into turns."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.fair_turns import TURN_BYTES
from midge.server.peers import link as links
from midge.server.peers.announcer import _LOOK_BYTES, InterestAnnouncer
from midge.server.routing.subscription import RoutedSubscription
from tests.support.cluster_servers import options, routes, told, url
from tests.support.routes import Route, World
from tests.support.served import serving

MANY = 2_000
PER_US = TURN_BYTES // 20_000
"""Charge for a microsecond."""


def compiled(test: Any) -> Any:
    """Leave a test out where links are interpreted, because it counts calls of compiled code."""
    return None if links.__file__.endswith(".py") else test


def lines(verb: bytes) -> bytes:
    return b"".join(b"%b A a.%d\r\n" % (verb, number) for number in range(MANY))


def count_calls(work: Callable[[], object]) -> int:
    """Count the calls of interpreted functions during `work`."""
    calls = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def joined(world: World) -> Route:
    """Join a route that may bring much interest, with a budget for all of it."""
    route = world.joined()
    route.link.announced.max_size = MANY
    route.link.parser.budget = 1 << 40
    return route


def count_waits(told: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows each time the freeing of `told` waits for a turn."""
    waits: list[int] = []
    free = told._free

    def count(left: list[Any]) -> None:
        waits.append(len(left))
        free(left)

    monkeypatch.setattr(told, "_free", count)
    return waits


@compiled
@pytest.mark.parametrize("verb", [b"RS+", b"RS-"])
def test_interest_of_the_only_route_takes_few_calls(verb: bytes) -> None:
    world = World()
    link = joined(world).link
    if verb == b"RS-":
        link.channel.feed(lines(b"RS+"))
    calls = count_calls(lambda: link.channel.feed(lines(verb)))
    assert link.announced.count == (MANY if verb == b"RS+" else 0)
    assert calls <= 8 * MANY


@compiled
@pytest.mark.parametrize(("verb", "least_us"), [(b"RS+", 12), (b"RS-", 9)])
def test_interest_is_charged_by_the_time_that_it_takes(verb: bytes, least_us: int) -> None:
    world = World()
    link = joined(world).link
    if verb == b"RS-":
        link.channel.feed(lines(b"RS+"))
    link.parser.budget = 1 << 40
    data = lines(verb)
    link.parser.feed(bytearray(data), 0, len(data))
    spent = (1 << 40) - link.parser.budget
    assert spent >= MANY * least_us * PER_US


@compiled
def test_interest_here_is_told_with_few_calls() -> None:
    world = World()
    for number in range(MANY):
        world.subscribe(b"a.%d" % number)
    route = world.accept()
    calls = count_calls(lambda: route.connect().introduce())
    told = route.link.commands.branches[b"A"].announcer
    while len(told) < MANY:
        calls += count_calls(lambda: world.clock.advance(0.001))
    assert calls <= 16 * MANY


def test_interest_here_is_told_for_5_ms_of_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = []
    go_on = InterestAnnouncer._go_on

    def count(announcer: InterestAnnouncer) -> None:
        before = len(announcer)
        go_on(announcer)
        pieces.append(len(announcer) - before)

    monkeypatch.setattr(InterestAnnouncer, "_go_on", count)
    world = World()
    for number in range(3 * MANY):
        world.subscribe(b"a.%d" % number)
    link = world.joined().link
    announcer = link.commands.branches[b"A"].announcer
    while len(announcer) < 3 * MANY:
        world.clock.advance(0.001)
    assert len(pieces) >= 4
    assert max(pieces) * _LOOK_BYTES <= TURN_BYTES // 4


@compiled
async def test_interest_takes_few_calls_at_both_ends_of_a_route() -> None:
    async with serving(options("A")) as (first,):
        account = first.broker.account("$G")
        for number in range(MANY):
            account.add(RoutedSubscription(b"a.%d" % number))
        async with serving(options("B", routes=(url(first),))) as (second,):
            known: set[bytes] = set()
            calls = 0

            def note(_: FrameType, event: str, __: object) -> None:
                nonlocal calls
                calls += event == "call"

            sys.setprofile(note)
            try:
                while len(known) < MANY:
                    await asyncio.sleep(0.05)
                    known = told(second, "A") if "A" in routes(second) else set()
            finally:
                sys.setprofile(None)
            assert calls <= 17 * MANY


def test_what_a_route_was_told_is_freed_turn_by_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    for number in range(MANY):
        world.subscribe(b"a.%d" % number)
    link = world.joined().link
    told = link.commands.branches[b"A"].announcer
    while len(told) < MANY:
        world.clock.advance(0.001)
    waits = count_waits(told, monkeypatch)
    link.close(ClosedReason.STALE_CONNECTION)
    assert (len(waits), len(told)) == (0, 0)
    while len(waits) < 16:
        world.clock.advance(0.001)
    world.clock.advance(0.001)
    assert len(waits) == 16


def test_interest_of_a_route_that_has_ended_is_dropped_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    link = joined(world).link
    link.announced.max_size = 3 * MANY
    for name in (b"a", b"b", b"c"):
        link.channel.feed(lines(b"RS+").replace(b" a.", b" %b." % name))
    remotes = world.account.sublist.remotes
    assert remotes is not None
    assert len(remotes) == 3 * MANY
    left = []
    call_later = world.clock.call_later

    def note(delay_s: float, callback: Callable[..., object], *arguments: object) -> Any:
        left.append(len(remotes))
        return call_later(delay_s, callback, *arguments)

    monkeypatch.setattr(world.clock, "call_later", note)
    link.close(ClosedReason.STALE_CONNECTION)
    assert len(remotes) == 3 * MANY - 500
    world.clock.advance(0.001)
    assert len(remotes) == 0
    later = [count for count in left if count <= 3 * MANY - 500]
    assert max(before - after for before, after in itertools.pairwise(later)) <= 256
