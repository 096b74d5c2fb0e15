"""A stream of thousands of subjects subscribes to them in steps, and is answered after the last."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from midge.server.config.options import JetStream, Listen, Options
from midge.server.jetstream import account as account_jetstream
from midge.server.jetstream.account import AccountEngine
from midge.server.server import Server
from tests.support.raw import Raw

SUBJECTS = [f"s.{i}.*" for i in range(3_500)]


class Rig:
    """A server, a client of it, and how many subscriptions each step of its account changed."""

    def __init__(self, server: Server, raw: Raw, jetstream: AccountEngine) -> None:
        self.server = server
        self.raw = raw
        self.jetstream = jetstream
        self.answers: dict[str, dict[str, Any]] = {}
        self.steps: list[int] = []
        more = jetstream.streams.subscribe_more
        before = len(self.taken())

        def counted(stream: Any) -> bool:
            nonlocal before
            is_more = more(stream)
            self.steps.append(abs(len(self.taken()) - before))
            before = len(self.taken())
            return is_more

        jetstream.streams.subscribe_more = counted  # type: ignore[method-assign]

    def taken(self) -> set[str]:
        """Return the subjects that streams take."""
        held = self.jetstream._of_streams.values()
        return {subject for subjects in held for subject in subjects}

    def send(self, verb: str, subjects: list[str] | None = None) -> None:
        """Send a request about the stream S; its answer comes to ``r.VERB``."""
        config = {"name": "S", "subjects": subjects, "storage": "memory"}
        body = b"" if subjects is None else json.dumps(config).encode()
        self.raw.send(b"PUB $JS.API.STREAM.%b.S r.%b %d" % (*[verb.encode()] * 2, len(body)), body)

    async def answer(self, verb: str) -> dict[str, Any]:
        """Return the answer to such a request; those to others are kept."""
        while verb not in self.answers:
            line = (await self.raw.until(b"MSG r.")).splitlines()[-1]
            answer = (await self.raw.until(b"{")).splitlines()[-1]
            self.answers[line.split()[1].decode().removeprefix("r.")] = json.loads(answer)
        return self.answers.pop(verb)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    jetstream = JetStream(enabled=True, in_memory=True)
    options = Options(listen=Listen(port=-1), jetstream=jetstream)
    server = Server(options)
    await server.start()
    raw = await Raw.open(server.urls()["nats"][0])
    await raw.connect()
    await raw.ask(b"SUB r.> 1")
    assert server.jetstream is not None
    yield Rig(server, raw, server.jetstream.accounts["$G"])
    await raw.close()
    await server.stop()


async def test_a_stream_takes_all_its_subjects_once_its_creation_is_answered(rig: Rig) -> None:
    rig.send("CREATE", SUBJECTS)
    answer = await rig.answer("CREATE")
    assert answer["did_create"], answer
    assert rig.taken() == set(SUBJECTS)
    assert max(rig.steps) == account_jetstream._SUBSCRIBED_AT_ONCE
    assert len(rig.steps) == 4
    rig.send("UPDATE", SUBJECTS[2_000:] + [f"t.{i}" for i in range(1_200)])
    assert "error" not in await rig.answer("UPDATE")
    assert rig.taken() == {*SUBJECTS[2_000:], *(f"t.{i}" for i in range(1_200))}
    assert max(rig.steps) == account_jetstream._SUBSCRIBED_AT_ONCE
    for subject in (b"s.3499.x", b"t.1199"):
        rig.raw.send(b"PUB %b r.PUB 0\r\n" % subject)
        assert "seq" in await rig.answer("PUB")
    rig.send("DELETE")
    assert (await rig.answer("DELETE"))["success"]
    assert rig.taken() == set()


async def test_a_message_behind_a_request_for_few_subjects_is_stored(rig: Rig) -> None:
    rig.send("CREATE", SUBJECTS[:1_000])
    rig.raw.send(b"PUB s.999.x r.PUB 0\r\n")
    assert (await rig.answer("CREATE"))["did_create"]
    assert (await rig.answer("PUB"))["seq"] == 1


async def test_requests_that_do_not_wait_for_each_other_leave_what_the_last_asked_for(
    rig: Rig,
) -> None:
    rig.send("CREATE", SUBJECTS)
    rig.send("UPDATE", SUBJECTS[::-2])
    for verb in ("CREATE", "UPDATE"):
        assert "error" not in await rig.answer(verb)
    assert rig.taken() == set(SUBJECTS[::-2])
    rig.send("UPDATE", SUBJECTS)
    rig.send("DELETE")
    answers = {verb: await rig.answer(verb) for verb in ("DELETE", "UPDATE")}
    assert answers["DELETE"]["success"]
    assert answers["UPDATE"].get("error", {}).get("err_code") in (None, 10059)
    assert rig.taken() == set()
    rig.send("CREATE", SUBJECTS)
    assert (await rig.answer("CREATE"))["did_create"]
