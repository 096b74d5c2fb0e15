"""Worker processes that end, or answer nothing; the processes are stand-ins."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import pytest

from midge.protocol.errors import MidgeError
from midge.server.workers import worker_pool as crews
from midge.server.workers.control import GoneError
from midge.server.workers.worker_pool import WorkerPool
from midge.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterable


class FakeControl:
    def __init__(self, process: FakeProcess) -> None:
        self._process = process

    def send(self, kind: str, **body: Any) -> None:
        if kind == "stop":
            self._process.end(0)
        else:
            self._process.said.append(kind)

    async def ask(self, kind: str, **body: Any) -> Any:
        self._process.said.append(kind)
        if kind == "start":
            await self._process.may_start.wait()
        if kind == "start" and self._process.refuses:
            raise MidgeError(self._process.refuses)
        if kind == "start" and self._process.dies:
            self._process.end(3)
            await asyncio.Event().wait()
        if kind == "page":
            if self._process.gone:
                raise GoneError("gone")
            return self._process.index
        return None


class FakeProcess:
    """Does at once what it is asked to."""

    made: list[FakeProcess]
    refuses = ""
    dies = False
    is_slow = False
    has_words = False

    def __init__(self, index: int, answer: Any, hear: Any, exited: Any) -> None:
        self.index = index
        self.pid = 1000 + len(FakeProcess.made)
        self.unanswered = 0
        self.handed = 0
        self.notes: list[dict[str, Any]] = []
        self.said: list[str] = []
        self.may_start = asyncio.Event()
        if not self.is_slow:
            self.may_start.set()
        self.gone = False
        self.is_stuck = False
        self.control = FakeControl(self)
        self._exited = exited
        FakeProcess.made.append(self)

    async def connect(self) -> None:
        return

    def hand_over(self, note: dict[str, Any], handed: socket.socket) -> bool:
        self.notes.append(note)
        return True

    async def is_alive(self) -> None:
        self.unanswered += self.is_stuck

    def kill(self) -> None:
        self.end(-9)

    def end(self, code: int) -> None:
        self._exited(self, code)


class Owner:
    def __init__(self) -> None:
        self.changes = 0

    def first_notice(self, index: int) -> dict[str, Any]:
        return {"index": index}

    def sockets_of(self, index: int) -> Iterable[tuple[str, socket.socket]]:
        return ()

    async def answer(self, worker: int, kind: str, body: dict[str, Any]) -> Any:
        return kind

    def states_changed(self) -> None:
        self.changes += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    FakeProcess.made = []
    monkeypatch.setattr(FakeProcess, "refuses", "")
    monkeypatch.setattr(FakeProcess, "dies", False)
    monkeypatch.setattr(crews, "WorkerProcess", FakeProcess)
    return ManualClock()


def crew_of(count: int, clock: ManualClock, silence_max_s: float = 10.0) -> WorkerPool:
    return WorkerPool(Owner(), count, clock, silence_max_s)


async def test_all_are_linked_with_all_before_they_are_ready(clock: ManualClock) -> None:
    pool = crew_of(3, clock)
    await pool.start()
    assert [worker.is_ready for worker in pool.balancer.workers] == [True] * 3
    peers = {one.index: sorted(note["peer"] for note in one.notes) for one in FakeProcess.made}
    assert peers == {0: [1, 2], 1: [0, 2], 2: [0, 1]}
    await pool.stop(1.0)
    assert [worker.is_ready for worker in pool.balancer.workers] == [False] * 3


async def test_one_that_starts_is_told_what_the_others_say_meanwhile(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeProcess, "is_slow", True)
    pool = crew_of(2, clock)
    starting = asyncio.ensure_future(pool.start())
    await clock.elapse(0)
    first, second = FakeProcess.made
    pool.send_all("neighbours", but=0)
    pool.send_starting("account")
    assert (first.said, second.said) == (["start", "account"], ["start", "neighbours", "account"])
    for process in (first, second):
        process.may_start.set()
    await starting
    assert first.said[2:] == second.said[3:] == ["ping"], "it has been taken before clients come"
    pool.send_starting("account")
    assert "account" not in second.said[3:]
    await pool.stop(1.0)


async def test_one_that_cannot_start_ends_all(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeProcess, "refuses", "the store is locked")
    with pytest.raises(MidgeError, match="the store is locked"):
        await crew_of(2, clock).start()


async def test_one_that_ends_while_it_starts_ends_all(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeProcess, "dies", True)
    with pytest.raises(MidgeError, match="ended while it started: exit code 3"):
        await crew_of(2, clock).start()


async def test_it_is_started_again_with_a_delay_from_the_third_time_on(clock: ManualClock) -> None:
    pool = crew_of(2, clock)
    await pool.start()
    delays = []
    for _ in range(6):
        FakeProcess.made[-1].end(-9)
        waited = 0.0
        await clock.elapse(0)
        while pool.process(1) is None or pool.process(0) is None:
            await clock.elapse(0.5)
            waited += 0.5
        delays.append(waited)
    assert delays == [0.0, 0.0, 1.0, 2.0, 4.0, 8.0]
    assert pool.restarts == 6
    assert [state["failing"] for state in pool.states()].count(True) == 1
    await clock.elapse(crews.DEATHS_WITHIN_S)
    FakeProcess.made[-1].end(-9)
    await clock.elapse(0)
    assert pool.process(0) is not None
    assert pool.process(1) is not None
    await pool.stop(1.0)


async def test_one_that_answers_nothing_is_ended(clock: ManualClock) -> None:
    pool = crew_of(2, clock, silence_max_s=10.0)
    await pool.start()
    stuck = FakeProcess.made[1]
    stuck.is_stuck = True
    await clock.elapse(11.0)
    assert pool.process(1) is stuck
    await clock.elapse(2.0)
    assert pool.process(1) is not stuck
    assert pool.process(0) is FakeProcess.made[0]
    await pool.stop(1.0)


async def test_an_answer_of_all_leaves_out_those_that_end(clock: ManualClock) -> None:
    pool = crew_of(3, clock)
    await pool.start()
    FakeProcess.made[1].gone = True
    assert await pool.ask_all("page") == [0, 2]
    assert await pool.ask_all("page", but=0) == [2]
    await pool.stop(1.0)
