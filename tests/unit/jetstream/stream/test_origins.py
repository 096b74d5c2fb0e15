"""Mirrors and sourcing streams take what their origins show."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from midge.jetstream.store.file.log import PRESSED_BYTES
from tests.support.jetstream_account import AccountRig, FileAccountRig


def rig_with_origin(*subjects: str) -> AccountRig:
    rig = AccountRig()
    rig.create("O", subjects=["o.>"])
    for subject in subjects:
        rig.publish(subject, subject.encode())
    return rig


def messages_of(rig: AccountRig, name: str) -> list[tuple[int, bytes]]:
    store = rig.account.streams[name].store
    found = [store.load(seq) for seq in range(1, store.last_seq + 1)]
    return [(one.seq, one.subject) for one in found if one is not None]


def mirror(rig: AccountRig, name: str, **keys: Any) -> None:
    rig.create(name, subjects=[], mirror={"name": "O", **keys})
    rig.clock.advance(0.1)


def test_a_mirror_keeps_sequence_time_and_subject() -> None:
    rig = rig_with_origin("o.1", "o.2", "o.3")
    rig.api("STREAM.MSG.DELETE.O", {"seq": 2})
    mirror(rig, "M")
    assert messages_of(rig, "M") == [(1, b"o.1"), (3, b"o.3")]
    rig.publish("o.4", b"x")
    rig.clock.advance(0.1)
    assert messages_of(rig, "M")[-1] == (4, b"o.4")
    origin, copy = rig.account.streams["O"].store.load(3), rig.account.streams["M"].store.load(3)
    assert origin is not None
    assert copy is not None
    assert copy.time_ns == origin.time_ns


def test_a_mirror_takes_what_its_filter_lets_through() -> None:
    rig = rig_with_origin("o.1", "o.2", "o.1")
    mirror(rig, "M", filter_subject="o.1")
    assert messages_of(rig, "M") == [(1, b"o.1"), (3, b"o.1")]
    mirror(rig, "N", opt_start_seq=2)
    assert messages_of(rig, "N") == [(2, b"o.2"), (3, b"o.1")]


@pytest.mark.parametrize(
    ("limits", "kept"),
    [({"max_msgs": 2}, 2), ({"max_bytes": 70}, 3), ({"max_msgs": 2, "max_bytes": 40}, 1)],
)
def test_a_mirror_that_discards_new_messages_keeps_its_own_limits(
    limits: dict[str, int], kept: int
) -> None:
    """It keeps the first ones, shows the others as its lag, and goes on when there is room."""
    rig = rig_with_origin(*["o.1"] * 5)
    rig.create("M", subjects=[], mirror={"name": "O"}, discard="new", **limits)
    rig.clock.advance(3)
    assert [seq for seq, _ in messages_of(rig, "M")] == [*range(1, kept + 1)]
    assert rig.api("STREAM.INFO.M")["mirror"]["lag"] == 5 - kept
    rig.api("STREAM.MSG.DELETE.M", {"seq": 1})
    rig.clock.advance(3)
    assert [seq for seq, _ in messages_of(rig, "M")] == [*range(2, kept + 2)]


def test_a_mirror_of_what_does_not_exist_says_so_until_it_does() -> None:
    rig = AccountRig()
    mirror(rig, "M")
    assert rig.api("STREAM.INFO.M")["mirror"]["error"]["err_code"] == 10059
    rig.create("O", subjects=["o.>"])
    rig.publish("o.1", b"x")
    rig.clock.advance(0.1)
    assert "error" not in rig.api("STREAM.INFO.M")["mirror"]
    assert messages_of(rig, "M") == [(1, b"o.1")]


def test_a_mirror_that_is_promoted_takes_messages_of_its_own() -> None:
    rig = rig_with_origin("o.1")
    mirror(rig, "M")
    rig.api("STREAM.UPDATE.M", {"name": "M", "storage": "memory"})
    rig.publish("o.2", b"x")
    rig.clock.advance(0.1)
    assert rig.publish("M", b"x")["seq"] == 2
    assert messages_of(rig, "M") == [(1, b"o.1"), (2, b"M")]


def test_a_source_notes_where_a_message_comes_from() -> None:
    rig = rig_with_origin("o.1", "o.2")
    sources = [{"name": "O", "subject_transforms": [{"src": "o.2", "dest": "q.2"}]}]
    stream = rig.create("S", subjects=[], sources=sources)
    rig.clock.advance(0.1)
    message = stream.store.load(1)
    assert message is not None
    assert message.subject == b"q.2"
    assert message.headers.startswith(b"NATS/1.0\r\nNats-Stream-Source: O 2 o.2 q.2 o.2 ")


def test_a_source_goes_on_where_it_was_after_its_messages_are_purged() -> None:
    rig = rig_with_origin("o.1", "o.2")
    sources = [{"name": "O"}]
    stream = rig.create("S", subjects=[], sources=sources)
    rig.clock.advance(0.1)
    rig.api("STREAM.PURGE.S")
    stream.origins.start()
    rig.publish("o.3", b"x")
    rig.clock.advance(0.1)
    assert messages_of(rig, "S") == [(3, b"o.3")]


def test_the_totals_of_counters_add_up_across_streams() -> None:
    rig = AccountRig()
    rig.create("O", subjects=["o.>"], allow_msg_counter=True)
    rig.create("P", subjects=["p.>"], allow_msg_counter=True)
    keys: dict[str, Any] = {"subjects": ["s.>"], "allow_msg_counter": True}
    keys["sources"] = [
        {"name": "O", "subject_transforms": [{"src": "o.>", "dest": "s.>"}]},
        {"name": "P", "subject_transforms": [{"src": "p.>", "dest": "s.>"}]},
    ]
    stream = rig.create("S", **keys)
    for subject, increment in (("o.n", "3"), ("p.n", "4"), ("o.n", "-1"), ("s.n", "10")):
        rig.publish(subject, b"", {"Nats-Incr": increment})
        rig.clock.advance(0.1)
    last = stream.store.load(stream.store.last_seq)
    assert last is not None
    assert last.payload == b'{"val":"16"}'
    assert b'Nats-Counter-Sources: {"O":{"o.n":"2"},"P":{"p.n":"4"}}' in last.headers


def test_an_origin_counts_as_a_consumer_of_the_account() -> None:
    rig = rig_with_origin("o.1")
    rig.create("S", subjects=[], sources=[{"name": "O"}, {"name": "O", "filter_subject": "x"}])
    mirror(rig, "M")
    assert rig.account.info()["consumers"] == 3


class FileRig(FileAccountRig):
    """A stream in a file with messages of 100 kB, and what a mirror of it takes in each turn."""

    def fill(self, count: int) -> None:
        self.api("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"], "storage": "file"})
        for _ in range(count):
            self.exchange("o.1", bytes(100_000), reply="")
            self.settle()

    def mirror(self) -> list[int]:
        self.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O"}, "storage": "file"})
        store = self.account.streams["M"].store
        taken: list[int] = []
        self.clock.advance(1.0, lambda: taken.append(store.last_seq))
        return taken


def test_what_a_mirror_takes_in_a_turn_is_bounded_by_its_size() -> None:
    rig = FileRig()
    rig.fill(40)
    taken = rig.mirror()
    assert max(after - before for before, after in itertools.pairwise([0, *taken])) <= 11


def test_a_mirror_waits_for_the_disk() -> None:
    rig = FileRig()
    rig.fill(200)
    taken = rig.mirror()
    assert taken[-1] * 100_000 < PRESSED_BYTES + 2 * 1_100_000
    for _ in range(5):
        rig.settle()
        rig.clock.advance(1.0)
    rig.settle()
    assert rig.account.streams["M"].store.visible_seq == 200
