"""Subjects whose messages may be stored many at once."""

from __future__ import annotations

from midge.jetstream.store.entering import KnownSubjects
from midge.jetstream.store.published import PublishedLines
from midge.jetstream.store.subject_index import SubjectIndex

DATA = bytearray(b"PUB a 1\r\nx\r\nPUB b 1\r\nx\r\nPING\r\n")


def resolved(known: KnownSubjects, epoch: int) -> int:
    """Return how many of the two messages are of known subjects."""
    lines = PublishedLines()
    assert lines.find(DATA, 0, len(DATA), 4096, -1) == 2
    return known.resolve(lines, epoch)


def test_a_subject_is_known_while_messages_of_it_are_stored() -> None:
    subjects = SubjectIndex()
    known = KnownSubjects(subjects)
    epoch = known.begin_epoch()
    numbers = [subjects.append(name, 0, 1, seq) for seq, name in enumerate((b"a", b"b"), 1)]
    for name in (b"a", b"b", b"c"):
        known.mark(name, 0, 1, epoch)
    assert resolved(known, epoch) == 2
    assert resolved(known, known.begin_epoch()) == 0, "another epoch"
    subjects.vacate(numbers[1])
    assert resolved(known, epoch) == 1
    known.mark(b"b", 0, 1, epoch)
    assert resolved(known, epoch) == 1, "nothing of it is stored"
    subjects.append(b"b", 0, 1, 3)
    assert resolved(known, epoch) == 1, "it has not been looked at since"
    known.mark(b"b", 0, 1, epoch)
    assert resolved(known, epoch) == 2
