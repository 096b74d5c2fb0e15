"""A route whose wire is cut, paused and half-closed while interest changes at both ends."""

from __future__ import annotations

import asyncio
import gc
import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from midge.protocol.frame import Frame, compose
from midge.server.peers import dialler
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.subscription import RoutedSubscription
from midge.server.server import Server
from tests.support.cluster_servers import options, routes, told, url
from tests.support.leafnodes import until
from tests.support.served import serving
from tests.support.wires import Wire

MIB = 1 << 20
EQUAL_S = 1.0
SUBJECTS = tuple(b"s.%d" % i for i in range(40))


class Kept(RoutedSubscription):
    """A subscription inside a server that keeps its messages."""

    def __init__(self, subject: bytes) -> None:
        RoutedSubscription.__init__(self, subject)
        self.got: list[bytes] = []

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        self.got.append(frame.payload_bytes())
        return True


class End:
    """One of the two servers, and its subscriptions."""

    def __init__(self, server: Server, other: str) -> None:
        self.server = server
        self.other = other
        self.kept: dict[bytes, Kept] = {}

    @property
    def account(self) -> Account:
        return self.server.broker.account("$G")

    def change(self, random: Random) -> None:
        """Subscribe to some subjects, and to others no more."""
        for subject in random.sample(SUBJECTS, 5):
            known = self.kept.pop(subject, None)
            if known is None:
                known = self.kept[subject] = Kept(subject)
                self.account.add(known)
            else:
                self.account.remove(known)

    def publish(self, subject: bytes, data: bytes) -> None:
        frame = compose(subject, data)
        result = self.account.sublist.match(subject)
        self.server.broker.router.route(self.account, result, None, frame)

    def has_told(self, to: End) -> bool:
        """Whether the other server knows exactly the subscriptions of this one."""
        return to.other in routes(to.server) and told(to.server, to.other) == set(self.kept)


async def disturb(wire: Wire, random: Random) -> None:
    """Do something to the wire."""
    kind = random.choice(("cut", "pause", "half-close", "nothing"))
    if kind == "cut":
        wire.cut()
        await asyncio.sleep(random.random() * 0.03)
        wire.mend()
    elif kind == "pause":
        wire.pause()
        await asyncio.sleep(random.random() * 0.03)
        wire.resume()
    elif kind == "half-close":
        for writer in wire.writers[: random.choice((1, 2))]:
            wire.half_close(writer)
    await asyncio.sleep(random.random() * 0.01)


def rss_bytes() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("rounds", [12, pytest.param(100, marks=pytest.mark.full)])
async def test_interest_is_equal_on_both_sides_a_second_after(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialler, "RECONNECT_S", 0.02)
    monkeypatch.setattr(dialler, "RECONNECT_SPREAD_S", 0.005)
    random, before = Random(7), 0
    async with serving(options("A")) as (first,), Wire(int(url(first).rpartition(":")[2])) as wire:
        seed = (f"nats-route://127.0.0.1:{wire.port}",)
        async with serving(options("B", routes=seed)) as (second,):
            await until(lambda: "B" in routes(first) and "A" in routes(second))
            ends = End(first, "B"), End(second, "A")
            for number in range(rounds):
                for end in ends:
                    end.change(random)
                await disturb(wire, random)
                for end in ends:
                    end.change(random)
                    end.publish(
                        random.choice(SUBJECTS), b"disturbed %d " % number + end.other.encode()
                    )
                async with asyncio.timeout(EQUAL_S + 4):  # a busy machine has its time, too
                    while not (ends[0].has_told(ends[1]) and ends[1].has_told(ends[0])):
                        await asyncio.sleep(0.005)
                await judge(ends, number)
                if number == rounds // 2:
                    gc.collect()
                    before = rss_bytes()
            gc.collect()
            assert rss_bytes() - before < 4 * MIB


async def judge(ends: tuple[End, End], number: int) -> None:
    """Each subscription gets a message from either end once, and nothing twice."""
    data = b"judged %d" % number
    common = set(ends[0].kept) & set(ends[1].kept)
    for subject in sorted(common)[:3]:
        for end in ends:
            end.publish(subject, data)
        kept = [end.kept[subject] for end in ends]
        await until(lambda kept=kept: all(one.got.count(data) >= 2 for one in kept))
    for end in ends:
        for one in end.kept.values():
            counts = Counter(one.got)
            assert counts[data] in {0, 2}
            assert all(count == 1 for data, count in counts.items() if data.startswith(b"dis"))
            one.got.clear()
