"""What STREAM.INFO lists of a large stream: gathered in pieces, the same as at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from midge.jetstream.store import lookups
from midge.jetstream.stream import details
from midge.jetstream.stream.stream import Stream
from tests.support.jetstream_account import AccountRig

SUBJECTS = 2_000
PAGE = 300
ODD = (b"a.1.\xff", b'a.1."', b"a.1.<", "a.1.é".encode())


class Rig(AccountRig):
    """An account with one stream of many subjects, of which many sequences are gone."""

    def fill(self) -> dict[str, int]:
        """Publish; return how often each subject is stored."""
        self.stream: Stream = self.create()
        random = Random(5)
        names = [b"a.%d.%d" % (n % 3, n) for n in random.sample(range(SUBJECTS * 4), SUBJECTS)]
        for name in [*names, *ODD, *random.choices(names, k=SUBJECTS // 2)]:
            self.stream.publish(name, b"", b"", b"x")
        for seq in random.sample(range(2, SUBJECTS), SUBJECTS // 2):
            self.stream.contents.remove(seq)
        counts: dict[str, int] = {}
        for one in lookups.subjects(self.stream.store, b">"):
            counts[one.subject.decode("utf-8", "replace")] = one.count
        return counts

    def info(self, meanwhile: Callable[[], object] = lambda: None, **body: Any) -> dict[str, Any]:
        """Ask for the info; return it, with the number of turns that it took."""
        turns = 0
        sent = self.exchange("$JS.API.STREAM.INFO.A", json.dumps(body).encode())

        def after() -> None:
            nonlocal turns
            turns += 1
            meanwhile()

        while not sent:
            self.clock.advance(0.001, after)
            sent = [one for one in self.outbox.sent if one[0] == "_INBOX.1"]
        answer: dict[str, Any] = json.loads(sent[0][2])
        return {**answer, "turns": turns}


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(details, "PIECE_SUBJECTS", 150)
    monkeypatch.setattr(details, "PIECE_SEQUENCES", 150)
    monkeypatch.setattr(details, "SUBJECTS_MAX", PAGE)
    return Rig()


@pytest.mark.parametrize("offset", [0, 1, 150, 299, 1700, 5000])
@pytest.mark.parametrize("pattern", [">", "a.1.*", "a.*.77", "a.*.z"])
def test_a_page_of_subjects_is_the_one_of_all_in_order(rig: Rig, pattern: str, offset: int) -> None:
    counts = rig.fill()
    answer = rig.info(subjects_filter=pattern, offset=offset)
    start, _, end = pattern.partition("*")
    wanted = [
        name for name in counts if pattern == ">" or (name.startswith(start) and name.endswith(end))
    ]
    if pattern == "a.*.77":
        wanted = [name for name in wanted if name.split(".")[2] == "77"]
    expected = sorted(wanted, key=str.encode)[offset : offset + PAGE]
    assert answer["state"].get("subjects", {}) == {name: counts[name] for name in expected}
    if wanted:
        assert (answer["total"], answer["offset"], answer["limit"]) == (len(wanted), offset, PAGE)
    else:
        assert (answer["total"], answer["offset"], answer["limit"]) == (0, 0, 0)
    assert answer["turns"] > len(counts) // 150


def test_a_literal_subject_is_looked_up(rig: Rig) -> None:
    counts = rig.fill()
    name = next(iter(counts))
    answer = rig.info(subjects_filter=name)
    assert answer["state"]["subjects"] == {name: counts[name]}
    assert (answer["total"], answer["turns"]) == (1, 0)
    assert rig.info(subjects_filter=name, offset=1)["total"] == 1
    assert "subjects" not in rig.info(subjects_filter="a.none")["state"]


def test_what_comes_and_goes_meanwhile_does_no_harm(rig: Rig) -> None:
    counts = rig.fill()
    random = Random(7)
    stream = rig.stream

    def change() -> None:
        for _ in range(20):
            stream.publish(b"a.7.%d" % random.randrange(10**6), b"", b"", b"x")
            stream.contents.remove(stream.store.first_seq)

    answer = rig.info(change, subjects_filter="a.1.*")
    wanted = {name: count for name, count in counts.items() if name.startswith("a.1.")}
    shown = answer["state"]["subjects"]
    assert list(shown) == sorted(shown, key=str.encode)
    assert set(shown) <= set(wanted)
    assert len(wanted) >= answer["total"] > 0
    assert all(count <= wanted[name] for name, count in shown.items())


def test_the_sequences_that_are_gone_are_listed_in_pieces(rig: Rig) -> None:
    rig.fill()
    expected = list(lookups.deleted(rig.stream.store))
    answer = rig.info(deleted_details=True)
    assert answer["state"]["deleted"] == expected
    assert answer["state"]["num_deleted"] == len(expected) == SUBJECTS // 2
    assert answer["turns"] >= len(expected) // 150


def test_it_ends_when_the_stream_is_deleted(rig: Rig) -> None:
    rig.fill()
    answer = rig.info(lambda: rig.account.delete(rig.stream), subjects_filter=">")
    assert answer["error"]["err_code"] == 10059


def test_small_streams_are_listed_at_once(rig: Rig) -> None:
    stream = rig.create()
    for number in range(50):
        stream.publish(b"a.%d" % (number % 7), b"", b"", b"x")
    for seq in (3, 4, 9):
        stream.contents.remove(seq)
    answer = rig.info(subjects_filter="a.*", deleted_details=True)
    assert answer["turns"] == 0
    assert answer["state"]["deleted"] == [3, 4, 9]
    assert answer["state"]["subjects"] == {
        f"a.{n}": sum(1 for i in range(50) if i % 7 == n and i + 1 not in {3, 4, 9})
        for n in range(7)
    }
