"""Requests that the server answers: in turn within an account, bounded, whatever a handler does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from midge.protocol.frame import Frame
from midge.server.internal import service
from midge.server.internal.internal_publisher import InternalPublisher
from midge.server.internal.service import ANSWERED_IN_TURN, Request, Services
from midge.server.routing.account import Account
from midge.server.routing.router import Router
from midge.server.routing.subscription import RoutedSubscription
from midge.testing import ManualClock


class Asker(RoutedSubscription):
    """Asks services in one account, and keeps what they answer."""

    def __init__(self, internal: InternalPublisher, name: str) -> None:
        super().__init__(b"answers")
        self.account = Account(name)
        self.account.add(self)
        self.answers: list[bytes] = []
        self._internal = internal

    def receive(self, publisher, frame: Frame) -> bool:
        self.answers.append(frame.payload_bytes())
        return True

    def ask(self, subject: bytes, payload: bytes = b"", reply: bytes | None = b"answers") -> int:
        return self._internal.publish(self.account, subject, payload, reply)


class World:
    """Services and two accounts that ask them."""

    def __init__(self) -> None:
        self.scheduled: list[str] = []
        self.router = Router(soon=self._soon)
        self.internal = InternalPublisher(self.router)
        self.overfull = 0
        self.services = Services(self.internal, waiting_max=4, overfull=self._note)
        self.one = Asker(self.internal, "one")
        self.other = Asker(self.internal, "other")
        self.gate = asyncio.Event()

    def _soon(self, function: Callable[..., object], *arguments: object) -> None:
        self.scheduled.append(getattr(function, "__name__", ""))
        asyncio.get_running_loop().call_soon(function, *arguments)

    def _note(self) -> None:
        self.overfull += 1

    def offer(self, handler: Callable[..., object], subject: bytes = b"api") -> None:
        for asker in (self.one, self.other):
            self.services.offer(asker.account, subject, handler)  # type: ignore[arg-type]

    async def slow(self, request: Request) -> bytes:
        await self.gate.wait()
        return b"slow " + request.payload


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """Measure answers by a clock that stands still, however busy the machine is."""
    clock = ManualClock()
    monkeypatch.setattr(service, "time", clock)
    return clock


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    world.services.close()
    await settled()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def echo(request: Request) -> bytes:
    return request.payload


async def test_plain_and_async_handlers(world: World) -> None:
    world.offer(echo)
    world.offer(world.slow, b"slow.*")
    world.gate.set()
    assert world.one.ask(b"api", b"1") == 1
    assert world.one.ask(b"slow.x", b"2") == 1
    await settled()
    assert world.one.answers == [b"1", b"slow 2"]


async def test_answers_are_written_in_the_call_that_makes_them(world: World) -> None:
    world.offer(echo)
    world.one.ask(b"api", b"1")
    assert sorted(world.scheduled) == ["_answer_waiting", "_flush_due"]
    await settled()
    assert world.one.answers == [b"1"]
    assert len(world.scheduled) == 2
    assert world.router.flush_soon() is None
    assert len(world.scheduled) == 3, "the next flush is scheduled as ever"


async def test_the_first_of_a_batch_of_reads_is_answered_at_once(world: World) -> None:
    services = Services(world.internal, waiting_max=4, overfull=world._note, is_prompt=True)
    offered = services.offer(world.one.account, b"api", echo)
    services.offer(world.one.account, b"slow", world.slow)
    world.one.ask(b"api", b"0")
    assert world.one.answers == [], "nothing is read"
    await settled()
    for batch in (b"a", b"b"):
        world.one.answers.clear()
        world.router.begin_batch()
        for number in (b"1", b"2", b"3"):
            world.one.ask(b"api", batch + number)
        assert world.one.answers == [batch + b"1"]
        world.router.end_batch(1)
        await settled()
        assert world.one.answers == [batch + number for number in (b"1", b"2", b"3")]
    world.one.answers.clear()
    world.router.begin_batch()
    world.one.ask(b"slow", b"1")
    world.router.end_batch(1)
    world.router.begin_batch()
    world.one.ask(b"api", b"2")
    assert world.one.answers == []
    world.router.end_batch(1)
    world.gate.set()
    await settled()
    assert world.one.answers == [b"slow 1", b"2"]
    services.withdraw(offered)
    services.close()


async def test_a_request_without_a_reply_is_not_taken(world: World) -> None:
    world.offer(echo)
    assert world.one.ask(b"api", b"1", None) == 0


async def test_a_handler_gets_all_there_is(world: World) -> None:
    requests: list[Request] = []
    world.offer(requests.append, b"api.>")
    account = world.one.account
    world.internal.publish(account, b"api.x", b"body", b"answers", b"NATS/1.0\r\n\r\n")
    await settled()
    assert requests == [Request(account, None, b"api.x", b"answers", b"NATS/1.0\r\n\r\n", b"body")]
    assert world.one.answers == []


async def test_answers_come_in_order_within_an_account_and_accounts_do_not_wait(
    world: World,
) -> None:
    world.offer(echo)
    world.offer(world.slow, b"slow")
    world.one.ask(b"slow", b"1")
    world.one.ask(b"api", b"2")
    world.other.ask(b"api", b"3")
    await settled()
    assert (world.one.answers, world.other.answers) == ([], [b"3"])
    world.gate.set()
    await settled()
    assert world.one.answers == [b"slow 1", b"2"]


async def test_what_waits_is_bounded_by_account(world: World) -> None:
    world.offer(world.slow)
    for i in range(6):
        world.one.ask(b"api", b"%d" % i)
    world.other.ask(b"api", b"x")
    assert world.overfull == 2
    world.gate.set()
    await settled()
    await settled()
    assert world.one.answers == [b"slow %d" % i for i in range(4)]
    assert world.other.answers == [b"slow x"]


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
async def test_a_fault_costs_its_answer_alone(world: World, is_async: bool) -> None:
    def fails(request: Request) -> bytes:
        raise RuntimeError("no")

    async def fails_later(request: Request) -> bytes:
        raise RuntimeError("no")

    world.offer(fails_later if is_async else fails)
    world.offer(echo, b"echo")
    world.one.ask(b"api", b"1")
    world.one.ask(b"echo", b"2")
    await settled()
    assert world.one.answers == [b"2"]
    assert world.router.faults.count == 1


async def test_others_have_a_turn_between_many_requests() -> None:
    world = World()
    seen: list[object] = []
    world.services = Services(world.internal, waiting_max=1000, overfull=lambda: None)
    world.offer(lambda request: seen.append(request.payload))
    for _ in range(ANSWERED_IN_TURN + 1):
        world.one.ask(b"api")
    asyncio.get_running_loop().call_soon(seen.append, "another")
    await settled()
    assert seen.index("another") == ANSWERED_IN_TURN
    assert len(seen) == ANSWERED_IN_TURN + 2


async def test_others_have_a_turn_between_slow_answers(clock: ManualClock) -> None:
    world = World()
    seen: list[object] = []

    def answer(request: Request) -> None:
        clock.advance(0.003)
        seen.append(request.payload)

    world.services = Services(world.internal, waiting_max=1000, overfull=lambda: None)
    world.offer(answer)
    for _ in range(4):
        world.one.ask(b"api")
    asyncio.get_running_loop().call_soon(seen.append, "another")
    await settled()
    assert seen == [b"", b"", "another", b"", b""]


async def test_withdrawn_and_closed(world: World) -> None:
    offered = world.services.offer(world.one.account, b"api", echo)
    world.services.offer(world.one.account, b"slow", world.slow)
    world.one.ask(b"api", b"1")
    world.services.withdraw(offered)
    assert world.one.ask(b"api", b"2") == 0
    await settled()
    assert world.one.answers == [b"1"]
    world.one.ask(b"slow", b"3")
    world.one.ask(b"slow", b"4")
    await settled()
    world.services.close()
    world.gate.set()
    await settled()
    assert world.one.answers == [b"1"]
