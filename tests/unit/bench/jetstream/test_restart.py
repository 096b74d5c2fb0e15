"""The checks after a start: no message may be missing, changed, or in another place."""

from __future__ import annotations

import base64
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.jetstream.restart import (
    Restart,
    check_messages,
    check_state,
    checkpoints,
    launched,
)
from bench.metrics import ScenarioError
from bench.servers import Command, StartError

CASE = Restart(name="case", title="", unit="message", messages=24, subjects=8, streams=4)


class Store:
    """Answers like a server that has all published messages."""

    def __init__(self, case: Restart) -> None:
        self.case = case
        self.streams: dict[str, list[dict[str, Any]]] = {}
        self.asked: Counter[str] = Counter()
        for number in range(case.messages):
            held = self.streams.setdefault(case.stream(number), [])
            held.append(
                {
                    "seq": case.sequence(number),
                    "subject": case.subject(number).decode(),
                    "data": base64.b64encode(case.payload(number)).decode(),
                }
            )

    def state(self, name: str) -> dict[str, int]:
        held = self.streams[name]
        return {
            "messages": len(held),
            "first_seq": held[0]["seq"],
            "last_seq": held[-1]["seq"],
            "num_subjects": len({message["subject"] for message in held}),
        }

    def ask(self, name: str, request: Any = None) -> Any:
        kind, _, stream = name.rpartition(".")
        self.asked[kind] += 1
        if kind == "STREAM.INFO":
            return {"state": self.state(stream)}
        held = self.streams[stream]
        if "seq" in request:
            return {"message": held[request["seq"] - 1]}
        subject = request["last_by_subj"]
        return {"message": next(one for one in reversed(held) if one["subject"] == subject)}


def test_what_was_published_is_found_as_it_is() -> None:
    store = Store(CASE)
    for name in store.streams:
        check_state(CASE, store.state(name))
    check_messages(CASE, store)  # type: ignore[arg-type]
    assert store.asked == {"STREAM.INFO": 4, "STREAM.MSG.GET": 2 * (2 + 24)}
    assert len({CASE.payload(number) for number in range(24)}) == 24
    assert {len(CASE.payload(number)) for number in range(24)} == {128}


@pytest.mark.parametrize("name", ["messages", "first_seq", "last_seq", "num_subjects"])
def test_a_state_that_is_short_of_something_is_refused(name: str) -> None:
    state = Store(CASE).state("S0001")
    state[name] -= 1
    with pytest.raises(ScenarioError, match=name):
        check_state(CASE, state)


@pytest.mark.parametrize(("key", "value"), [("data", "AAAA"), ("subject", "js.0"), ("seq", 9)])
def test_a_message_that_is_another_is_refused(key: str, value: object) -> None:
    store = Store(CASE)
    store.streams["S0003"][-1][key] = value
    store.state = lambda _: Store(CASE).state("S0000")  # type: ignore[method-assign]
    with pytest.raises(ScenarioError, match="message 23 is"):
        check_messages(CASE, store)  # type: ignore[arg-type]


def test_a_stream_that_lost_a_message_is_refused() -> None:
    store = Store(CASE)
    store.streams["S0002"].pop(3)
    with pytest.raises(ScenarioError, match="'messages': 5"):
        check_messages(CASE, store)  # type: ignore[arg-type]


def test_a_checkpoint_is_what_holds_no_messages_and_is_new(tmp_path: Path) -> None:
    folder = tmp_path / "streams"
    folder.mkdir()
    for name in ("1.blk", "2.log", "meta.inf", "index.db", "empty"):
        (folder / name).write_bytes(b"" if name == "empty" else b"x")
    os.utime(folder / "meta.inf", (1_000, 1_000))
    for name in ("1.blk", "2.log", "index.db", "empty"):
        os.utime(folder / name, (3_000, 3_000))
    assert checkpoints(tmp_path, 2_000) == [folder / "index.db"]


def test_a_server_that_ends_is_told() -> None:
    command = Command("ends", (sys.executable, "-c", "import sys; sys.exit(3)"))
    with (
        launched(command, Path("/nowhere")) as server,
        pytest.raises(StartError, match="ended with status 3"),
    ):
        server.first_answer("INFO")
