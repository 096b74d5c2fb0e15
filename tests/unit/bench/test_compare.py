"""In which order servers start and are measured."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from bench import compare, servers, wire
from bench.metrics import Measurement


@dataclass(frozen=True)
class Noted:
    name: str = "noted"
    title: str = "noted"
    fresh_server: bool = False

    def run(self, server: servers.Server, seconds: float, /) -> Measurement:
        return {"rate": float(server.pid)}


def test_every_other_round_has_new_servers_which_start_in_the_other_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[str] = []

    @contextmanager
    def running(command: servers.Command, *_: object, **__: object) -> Iterator[servers.Server]:
        started.append(command.name)
        yield servers.Server(command.name, len(started), wire.Address("127.0.0.1", 1))

    monkeypatch.setattr(servers, "running", running)
    a, b = (servers.Command(name, (name,)) for name in "ab")
    measured = compare.compare(compare.Setup(a, b, rounds=5), Noted())
    assert "".join(started) == "abbaab"
    assert [round_["rate"] for round_ in measured.a] == [1, 1, 4, 4, 5]
    assert [round_["rate"] for round_ in measured.b] == [2, 2, 3, 3, 6]
