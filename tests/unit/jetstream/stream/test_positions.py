"""The read positions of a stream's origins are recovered, a piece per turn."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midge.jetstream.stream import origins
from midge.jetstream.stream.origins import Origins
from midge.jetstream.stream.stream import Stream
from tests.support.jetstream_account import FileAccountRig

SOURCES = [{"name": "O"}, {"name": "P"}]


class SourcingRig(FileAccountRig):
    """A stream that takes messages from O and P, and some of its own."""

    def begin(self) -> Stream:
        for name, subject in (("O", "o.>"), ("P", "p.>")):
            keys = {"name": name, "subjects": [subject], "storage": "memory"}
            self.api(f"STREAM.CREATE.{name}", keys)
        self.configure("CREATE", SOURCES)
        return self.account.streams["S"]

    def configure(self, verb: str, sources: list[dict[str, Any]], **keys: Any) -> None:
        config = {"name": "S", "subjects": ["s.>"], "storage": "file", "sources": sources, **keys}
        self.exchange(f"$JS.API.STREAM.{verb}.S", config)
        self.settle()
        assert b'"error"' not in self.outbox.sent[-1][2]

    def send(self, subject: str, count: int = 1) -> None:
        for _ in range(count):
            self.exchange(subject, b"x", reply="")
        self.settle()
        self.clock.advance(0.1)
        self.settle()

    def search_again(self) -> list[int]:
        """Recover the origins like a restart; return the stored messages after each turn."""
        stream = self.account.streams["S"]
        stream.origins.stop()
        stream.origins = Origins(stream)
        stream.origins.start()
        return self.finish()

    def finish(self) -> list[int]:
        stored: list[int] = []
        store = self.account.streams["S"].store
        self.clock.advance(1.0, lambda: stored.append(store.last_seq))
        self.settle()
        return stored

    def seqs(self) -> dict[str, int]:
        """Return the positions in the stream's info."""
        info = self.api("STREAM.INFO.S")
        return {one["name"]: one.get("seq", 0) for one in info["sources"]}

    def saved(self) -> dict[str, Any]:
        store = self.account.streams["S"].store
        (state,) = [one[1] for one in store.consumers() if one[0] == b"\x00sources"]
        found: dict[str, Any] = json.loads(state)
        return found


@pytest.fixture(autouse=True)
def pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origins, "_PIECE_BYTES", 10 * 2100)
    monkeypatch.setattr(origins, "_SAVED_FROM", 50)


def test_the_last_message_of_each_origin_is_looked_for_in_turns() -> None:
    rig = SourcingRig()
    stream = rig.begin()
    rig.send("o.1", 3)
    rig.send("p.1")
    rig.send("s.1", 200)
    turns = rig.search_again()
    assert len(turns) >= 200 // 10
    rig.send("o.1")
    rig.send("p.1")
    assert stream.store.messages == 206, "nothing is taken twice"
    assert rig.seqs() == {"O": 4, "P": 2}


def test_a_search_ends_where_one_had_found_all() -> None:
    rig = SourcingRig()
    stream = rig.begin()
    rig.send("o.1", 2)
    rig.send("s.1", 200)
    assert len(rig.search_again()) > 20, "nothing of P is found"
    assert rig.saved()[""] == 201
    rig.send("o.1")
    rig.send("s.1", 5)
    assert len(rig.search_again()) < 5
    assert rig.seqs() == {"O": 3, "P": 0}
    rig.send("p.1")
    assert stream.store.messages == 209


def test_a_source_that_is_added_is_searched_for_in_turns() -> None:
    rig = SourcingRig()
    rig.begin()
    rig.send("p.1", 2)
    rig.configure("UPDATE", [{"name": "O"}])
    rig.send("s.1", 200)
    rig.configure("UPDATE", SOURCES)
    assert rig.account.streams["S"].store.last_seq == 202
    assert len(rig.finish()) > 10
    assert rig.seqs() == {"O": 0, "P": 2}


def test_messages_that_go_meanwhile_are_looked_at_before() -> None:
    rig = SourcingRig()
    stream = rig.begin()
    rig.send("o.1", 3)
    rig.send("s.1", 200)
    stream.origins.stop()
    stream.origins = Origins(stream)
    stream.origins.start()
    for seq in (3, 1):
        stream.store.remove(seq)
    stream.purge(b"o.1", 0, 0)
    rig.finish()
    rig.send("o.1")
    assert stream.store.messages == 201
    assert rig.seqs() == {"O": 4, "P": 0}


def test_a_purge_of_all_looks_at_the_rest_at_once() -> None:
    rig = SourcingRig()
    stream = rig.begin()
    rig.send("o.1", 3)
    rig.send("s.1", 200)
    stream.origins.stop()
    stream.origins = Origins(stream)
    stream.origins.start()
    stream.purge(None, 0, 0)
    rig.finish()
    rig.send("o.1")
    assert stream.store.messages == 1


def test_an_update_meanwhile_begins_anew() -> None:
    rig = SourcingRig()
    stream = rig.begin()
    rig.send("o.1", 3)
    rig.send("p.1", 2)
    rig.send("s.1", 200)
    stream.origins.stop()
    stream.origins = Origins(stream)
    stream.origins.start()
    rig.clock.advance(0.0)
    rig.configure("UPDATE", [*SOURCES, {"name": "Q"}])
    rig.finish()
    rig.send("o.1")
    rig.send("p.1")
    assert stream.store.messages == 207
    assert rig.seqs() == {"O": 4, "P": 3, "Q": 0}


def test_a_stream_that_is_deleted_meanwhile_is_searched_no_more() -> None:
    rig = SourcingRig()
    stream = rig.begin()
    rig.send("s.1", 200)
    stream.origins.stop()
    stream.origins = Origins(stream)
    stream.origins.start()
    rig.exchange("$JS.API.STREAM.DELETE.S")
    rig.clock.advance(1.0)
    assert stream.store.keepers == []


def test_positions_as_they_were_saved_formerly_are_understood() -> None:
    rig = SourcingRig()
    stream = rig.begin()
    rig.send("o.1", 3)
    stream.store.purge()
    stream.store.save_consumer(b"\x00sources", b'{"O > >":3}')
    rig.search_again()
    rig.send("o.1")
    assert stream.store.messages == 1


def test_a_message_that_is_just_being_taken_is_looked_at_again() -> None:
    """Its roll-up saves the positions before it counts as taken."""
    rig = SourcingRig()
    stream = rig.begin()
    rig.configure("UPDATE", SOURCES, allow_rollup_hdrs=True)
    rig.api(
        "STREAM.UPDATE.O",
        {"name": "O", "subjects": ["o.>"], "allow_rollup_hdrs": True} | {"storage": "memory"},
    )
    rig.send("o.1", 2)
    rig.exchange("o.1", b"x", {"Nats-Rollup": "all"}, reply="")
    rig.clock.advance(0.1)
    rig.settle()
    assert stream.store.messages == 1
    rig.search_again()
    rig.send("o.1")
    assert stream.store.messages == 2
