"""Random programs of clients in two workers, judged by what one server would do."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.support.processes import Server, midge_command
from tests.support.raw import Raw

STEPS, STEPS_LONG = 150, 2000
SUBJECTS = ("r.a", "r.b", "r.a.x")
PATTERNS = ("r.a", "r.b", "r.*", "r.>", "r.a.x", "r.*.x")
GROUPS = ("", "", "g", "h")

Key = tuple[int, bytes]
"""The number of a client, and the sid of a subscription."""


def matches(subject: str, pattern: str) -> bool:
    tokens, wanted = subject.split("."), pattern.split(".")
    if wanted[-1] == ">":
        return len(tokens) >= len(wanted) and matches(
            ".".join(tokens[: len(wanted) - 1]), ".".join(wanted[:-1])
        )
    return len(tokens) == len(wanted) and all(
        want in ("*", token) for token, want in zip(tokens, wanted, strict=True)
    )


class Program:
    """Four clients, and what each has subscribed to."""

    def __init__(self, clients: list[Raw], random: Random) -> None:
        self._clients = clients
        self._random = random
        self._held: dict[Key, tuple[str, str]] = {}
        self._last_sid = 0

    async def step(self, number: int) -> None:
        choice = self._random.random()
        if choice < 0.35:
            await self._subscribe()
        elif choice < 0.5 and self._held:
            await self._unsubscribe()
        else:
            await self._publish(number)

    async def _subscribe(self) -> None:
        self._last_sid += 1
        index, sid = self._random.randrange(4), b"%d" % self._last_sid
        pattern, group = self._random.choice(PATTERNS), self._random.choice(GROUPS)
        words = [pattern.encode(), *([group.encode()] if group else []), sid]
        await self._do(index, b"SUB " + b" ".join(words))
        self._held[index, sid] = pattern, group

    async def _unsubscribe(self) -> None:
        key = self._random.choice(list(self._held))
        del self._held[key]
        await self._do(key[0], b"UNSUB " + key[1])

    async def _do(self, index: int, command: bytes) -> None:
        """Send a command without an answer from a client; the server may ping meanwhile."""
        answer = await self._clients[index].ask(command)
        assert answer == b""

    async def _publish(self, number: int) -> None:
        subject = self._random.choice(SUBJECTS)
        payload = b"%06d" % number
        publisher = self._clients[self._random.randrange(4)]
        starts = [len(client.received) for client in self._clients]
        await publisher.ask(b"PUB %b 6\r\n%b" % (subject.encode(), payload))
        for _ in range(2):  # a crossing message is sent before its sender's second PING
            for client in self._clients:
                await client.ask(b"SUB unused 0", b"UNSUB 0")
        found = Counter[Key]()
        for index, client in enumerate(self._clients):
            for line in client.received[starts[index] :].split(b"\r\n"):
                if line.startswith(b"MSG "):
                    found[index, line.split(b" ")[2]] += 1
        self._judge(subject, found)

    def _judge(self, subject: str, found: Counter[Key]) -> None:
        fitting = {
            key: group for key, (pattern, group) in self._held.items() if matches(subject, pattern)
        }
        assert set(found) <= set(fitting)
        assert {key: found[key] for key, group in fitting.items() if not group} == {
            key: 1 for key, group in fitting.items() if not group
        }
        for name in set(fitting.values()) - {""}:
            members = [key for key, group in fitting.items() if group == name]
            assert sum(found[key] for key in members) == 1


async def played(server: Server, seed: int, steps: int) -> None:
    clients = [await Raw.open(server.url) for _ in range(4)]
    for client in clients:
        await client.connect()
    program = Program(clients, Random(seed))
    for number in range(steps):
        await program.step(number)
    for client in clients:
        await client.close()


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_plain_subscriptions_and_queue_groups_get_each_message_once(
    server: Server, seed: int
) -> None:
    await played(server, seed, STEPS)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("workers", [2, 4])
async def test_the_same_holds_for_long(workers: int) -> None:
    with Server(midge_command(), "", ("--workers", str(workers))) as server:
        await played(server, 10 + workers, STEPS_LONG)
