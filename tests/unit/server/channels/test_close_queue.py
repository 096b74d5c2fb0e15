"""A crowd that leaves at once is ended turn by turn: all of it, in order, and once."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.fair_turns import (
    BUSY_S,
    LEAST_SHARE_BYTES,
    TURN_BYTES,
    CloseQueue,
    FairTurns,
)
from midge.server.channels.host import Host
from midge.server.listeners.websocket.protocol import InflatedBytes, WebSocketProtocol
from midge.server.listeners.websocket.upgrade_request import Upgrade
from midge.testing import ManualClock
from tests.support.transports import Transport
from tests.unit.server.channels.test_channel import Echo, make_host, opened

CROWD = 3000

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class RoundByRound(ManualClock):
    """Fires due timers in rounds, like a loop: timers set meanwhile fire in the next round."""

    def __init__(self) -> None:
        super().__init__()
        self.ready: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def call_later(self, delay_s: float, callback: Callable[..., object], *arguments: Any) -> Any:
        if delay_s > 0:
            return super().call_later(delay_s, callback, *arguments)
        self.ready.append((callback, arguments))
        return None

    def round(self) -> None:
        ready, self.ready = self.ready, []
        for callback, arguments in ready:
            callback(*arguments)


def leave_in_order(owner: Echo) -> None:
    owner.channel.eof_received()


def leave_by_reset(owner: Echo) -> None:
    owner.channel.connection_lost(ConnectionResetError())


@pytest.mark.parametrize(
    ("leave", "reason"),
    [(leave_in_order, ClosedReason.CLIENT_CLOSED), (leave_by_reset, ClosedReason.READ_ERROR)],
    ids=["eof", "reset"],
)
def test_a_crowd_is_ended_in_turns(leave: Callable[[Echo], None], reason: ClosedReason) -> None:
    clock = RoundByRound()
    host = make_host(clock=clock)
    owners = [opened(host)[0] for _ in range(CROWD)]
    for owner in owners:
        leave(owner)
    rounds = []
    while not rounds or rounds[-1] < CROWD:
        rounds.append(sum(owner.reason is not None for owner in owners))
        assert all(owner.reason is reason for owner in owners[: rounds[-1]])
        clock.round()
    assert len(rounds) > 3
    assert all(after > before for before, after in itertools.pairwise(rounds))
    assert all(owner.told.count("closed") == 1 for owner in owners)


def test_what_waits_for_its_end_is_delivered_nothing() -> None:
    host, (owner, transport) = used_up()
    owner.channel.connection_lost(ConnectionResetError())
    owner.send(b"late\n")
    assert transport.take() == b""
    assert owner.told == ["opened"]
    host.clock.round()
    assert owner.told == ["opened", "closed", "lost"]


def used_up() -> tuple[Host, tuple[Echo, Transport]]:
    """Return a host whose turn is used up, and a client of it."""
    host = make_host(clock=RoundByRound())
    while host.close_queue.admit():
        pass
    return host, opened(host)


def test_its_end_does_not_cut_short_what_it_still_works_on() -> None:
    host, (owner, _) = used_up()
    assert owner.channel.eof_received()
    owner.busy = True
    host.clock.round()
    assert owner.reason is None
    owner.busy = False
    owner.channel.resume()
    assert owner.reason is ClosedReason.CLIENT_CLOSED


def test_however_busy_others_are_some_are_ended_in_each_turn() -> None:
    clock, turns, _, ended = waiting_ends(200)
    for _ in range(TURN_BYTES // LEAST_SHARE_BYTES):
        turns.wait(turns.share)
    clock.round()
    assert ended == list(range(64))


def waiting_ends(count: int) -> tuple[RoundByRound, FairTurns, CloseQueue, list[int]]:
    """Return what ends are waited for with, and a list that `count` of them add their number to."""
    clock = RoundByRound()
    turns = FairTurns(clock)
    close_queue = CloseQueue(turns, clock)
    ended: list[int] = []
    for number in range(count):
        close_queue.wait(partial(ended.append, number))
    return clock, turns, close_queue, ended


def test_ends_that_take_long_make_others_wait_for_5_ms_only() -> None:
    clock, _, close_queue, ended = waiting_ends(1)
    close_queue.wait(lambda: clock.advance(BUSY_S))
    close_queue.wait(partial(ended.append, 1))
    clock.round()
    assert ended == [0]
    clock.round()
    assert ended == [0, 1]


def test_who_waits_for_its_end_keeps_nothing_of_an_unfinished_command() -> None:
    _, (owner, _) = used_up()
    owner.channel.feed(b"x" * 60_000)
    assert owner.channel.inbound.held_bytes() == 60_000
    owner.channel.connection_lost(ConnectionResetError())
    assert owner.reason is None
    assert owner.channel.inbound.held_bytes() == 0


async def test_a_websocket_that_waits_for_its_end_leaves_nothing() -> None:
    host, _ = used_up()
    owners: list[Echo] = []

    def make(_request: object) -> Echo:
        owners.append(Echo(host))
        return owners[-1]

    protocol = WebSocketProtocol(
        lambda request, encrypted: Upgrade(request, host.options.websocket, encrypted=encrypted),
        make,
        ("127.0.0.1", 9),
        InflatedBytes(),
    )
    transport = Mock()
    transport.is_closing.return_value = False
    transport.get_extra_info.return_value = None
    transport.get_write_buffer_size.return_value = 0
    protocol.connection_made(transport)
    protocol.data_received(UPGRADE)
    protocol.connection_lost(ConnectionResetError())
    assert owners[0].reason is None
    host.clock.round()
    assert owners[0].told == ["opened", "closed", "lost"]
    kept = weakref.ref(owners.pop())
    assert kept() is None
