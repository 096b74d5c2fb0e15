"""What the parent and a worker say to each other."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from midge.protocol.errors import MidgeError
from midge.server.workers.control import Body, ControlChannel, GoneError


class Ends:
    """Both ends of one way; `there` answers."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Body]] = []
        self.ended: list[str] = []
        self.here = ControlChannel(self._answer, self._hear, lambda: self.ended.append("here"))
        self.there = ControlChannel(self._answer, self._hear, lambda: self.ended.append("there"))

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        one, other = socket.socketpair()
        await loop.create_unix_connection(lambda: self.here, sock=one)
        await loop.create_unix_connection(lambda: self.there, sock=other)

    async def close(self) -> None:
        self.here.close()
        self.there.close()
        while len(self.ended) < 2:
            await asyncio.sleep(0)

    async def _answer(self, kind: str, body: Body) -> Any:
        if kind == "refuse":
            raise MidgeError("it cannot be")
        if kind == "break":
            raise KeyError("x")
        if kind == "bind":
            raise OSError(98, "Address already in use", "127.0.0.1:4222")
        if kind == "never":
            await asyncio.Event().wait()
        return body["number"] * 2

    def _hear(self, kind: str, body: Body) -> None:
        self.told.append((kind, body))


@pytest.fixture
async def ends() -> Any:
    ends = Ends()
    await ends.open()
    yield ends
    await ends.close()


async def test_questions_are_answered_whatever_their_order(ends: Ends) -> None:
    answers = await asyncio.gather(*(ends.here.ask("double", number=i) for i in range(50)))
    assert answers == [2 * i for i in range(50)]
    assert await ends.there.ask("double", number=[1] * 200_000) == [1] * 400_000


async def test_what_is_told_arrives_in_order(ends: Ends) -> None:
    for i in range(3):
        ends.here.send("load", open=i)
    await ends.here.ask("double", number=1)
    assert ends.told == [("load", {"open": i}) for i in range(3)]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("refuse", "it cannot be"),
        ("break", "KeyError: 'x'"),
        ("bind", "127.0.0.1:4222: address already in use"),
    ],
)
async def test_what_goes_wrong_is_raised_here(ends: Ends, kind: str, text: str) -> None:
    with pytest.raises(MidgeError) as raised:
        await ends.here.ask(kind)
    assert str(raised.value) == text


async def test_questions_fail_when_the_other_end_has_gone(ends: Ends) -> None:
    waiting = asyncio.ensure_future(ends.here.ask("never"))
    await ends.here.ask("double", number=1)
    ends.there.close()
    with pytest.raises(GoneError):
        await waiting
    with pytest.raises(GoneError):
        await ends.here.ask("double", number=1)
