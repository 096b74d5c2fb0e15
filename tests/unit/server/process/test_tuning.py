"""What a process that is nothing but a server does for its speed."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest
import uvloop

import midge
from midge.server.config.jetstream import JetStream
from midge.server.config.options import Options, ServerProcesses
from midge.server.process import heap
from midge.server.process.tuning import descriptor_of, due_of, tune
from midge.server.server import Server

LOOPS = [uvloop.new_event_loop, asyncio.SelectorEventLoop]


@pytest.mark.parametrize("new_loop", LOOPS)
@pytest.mark.parametrize("longest_us", [0, 50])
def test_a_server_with_a_loop_of_its_own_may_poll(new_loop, longest_us: int) -> None:
    options = Options(server=ServerProcesses(busy_poll_us=longest_us))

    async def tuned() -> bool:
        server = Server(options)
        tune(server, options)
        return server.broker.busy_poll is not None

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(tuned()) == (longest_us > 0)


@pytest.mark.parametrize("is_enabled", [False, True])
def test_what_a_recovery_leaves_in_the_heap_is_given_back(
    is_enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Options(jetstream=JetStream(enabled=is_enabled))
    trimmed = threading.Event()
    monkeypatch.setattr(heap, "RECOVERED_S", 0.01)
    monkeypatch.setattr(heap, "trim_heap", trimmed.set)

    async def was_trimmed() -> bool:
        tune(Server(options), options)
        assert not trimmed.is_set()
        await asyncio.sleep(0.05)
        return trimmed.wait(20 if is_enabled else 0)

    assert asyncio.run(was_trimmed()) == is_enabled


@pytest.mark.parametrize("new_loop", LOOPS)
def test_the_descriptor_of_a_loop_can_be_read_when_it_has_input(new_loop) -> None:
    async def seen() -> list[bool]:
        from midge.server.routing.plain_socket import wait_for_input

        loop = asyncio.get_running_loop()
        near, far = socket.socketpair()
        with near, far:
            near.setblocking(False)
            read = loop.create_future()
            loop.add_reader(near, lambda: read.done() or read.set_result(near.recv(1)))
            await asyncio.sleep(0)
            before = wait_for_input(descriptor_of(loop), 1000)
            far.send(b"x")
            after = wait_for_input(descriptor_of(loop), 1_000_000_000)
            await read
            loop.remove_reader(near)
            return [before, after]

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(seen()) == [False, True]


def test_a_loop_without_a_descriptor_is_left_as_it_is() -> None:
    assert descriptor_of(object()) == -1  # type: ignore[arg-type]


def test_a_server_within_a_program_does_not_poll() -> None:
    with pytest.raises(midge.ConfigError, match="busy_poll_us"):
        midge.Server(server_busy_poll_us=10)


def test_uvloop_tells_what_is_due() -> None:
    async def told() -> list[int]:
        loop = asyncio.get_running_loop()
        due = due_of(loop)
        near, far = socket.socketpair()
        seen: list[int] = []
        done = loop.create_future()

        def look() -> None:
            near.recv(1)
            seen.append(due())
            timer = loop.call_later(60, bool)
            seen.append(due())
            timer.cancel()
            loop.call_soon(done.set_result, None)
            seen.append(due())

        with near, far:
            loop.add_reader(near, look)
            far.send(b"x")
            await done
            loop.remove_reader(near)
        seen.append(due())
        return seen

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        before, with_timer, with_call, in_turn = runner.run(told())
    assert before != 0
    assert 50_000 < with_timer <= 60_000
    assert (with_call, in_turn) == (0, 0)


def test_a_loop_that_does_not_tell_may_have_something_due() -> None:
    async def told() -> int:
        return due_of(asyncio.get_running_loop())()

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        assert runner.run(told()) == 0
