"""An index of messages answers like a dictionary, packed and thinned out or not."""

from __future__ import annotations

from random import Random

from midge.jetstream.store.message_index import MessageIndex
from tests.support.each import each

Row = list[int]
"""Offset, size, subject, the sequence before it of the subject and the one after it, 0 for none."""


class Rows:
    """The rows of an index, and those that it should have."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.index = MessageIndex()
        self.expected: dict[int, Row] = {}
        self.last: dict[int, int] = {}
        self.seq = 0
        self.size_bits = self.random.choice([1, 7, 31, 32])
        self.offset_bits = self.random.choice([0, 10, 32])
        self.subjects = self.random.choice([1, 3, 200, 1 << 20])

    def enter(self) -> None:
        """Enter a stretch of messages, regular or not."""
        random = self.random
        if random.random() < 0.1:
            self.seq += random.choice([1, 900, 1024, 5000, 1 << 33])
        offset, step = random.getrandbits(31), random.choice([0, 40, 1000])
        for number in range(random.choice([1, 20, 700])):
            self.seq += 1 if random.random() < 0.98 else random.randrange(1, 50)
            subject = random.randrange(self.subjects)
            before = self.last.get(subject, 0)
            place = offset + step * number + random.getrandbits(self.offset_bits) & 0xFFFFFFFF
            size = max(random.getrandbits(self.size_bits), 1)
            self.index.enter(self.seq, 0, place, size, subject, before)
            if before:
                self.expected[before][4] = self.seq
            self.expected[self.seq] = [place, size, subject, before, 0]
            self.last[subject] = self.seq

    def discard(self) -> None:
        """Discard the oldest, the newest or any messages."""
        random = self.random
        seqs = sorted(self.expected)
        count = random.choice([1, 30, 1000])
        anywhere = random.sample(seqs, min(count, len(seqs)))
        for seq in random.choice([seqs[:count], seqs[-count:], anywhere]):
            _, _, subject, before, after = self.expected.pop(seq)
            self.index.discard(seq, self.index.locate(seq))
            if before:
                self.expected[before][4] = after
                self.index.set_after(before, after - before if after else 0)
            if after:
                self.expected[after][3] = before
                self.index.set_before(after, after - before if before else 0)
            else:
                self.last[subject] = before

    def move(self) -> None:
        """Note that some messages have moved."""
        for seq in self.random.sample(sorted(self.expected), min(20, len(self.expected))):
            place = self.random.getrandbits(self.random.choice([8, 32]))
            row = self.index.locate(seq)
            self.index.block.set_offset(row, place)
            self.expected[seq][0] = place

    def compare(self) -> None:
        """Compare all rows, and look for some that are not there."""
        for seq, (place, size, subject, before, after) in self.expected.items():
            row = self.index.locate(seq)
            block = self.index.block
            found = block.offset(row), block.size(row), block.subject(row)
            assert found == (place, size, subject)
            assert self.index.before(seq) == (seq - before if before else 0)
            assert self.index.after(seq) == (after - seq if after else 0)
        seqs = sorted(self.expected)
        assert self.index.count_from(1) == len(seqs)
        found, seq = [], self.index.next_live(1)
        while seq:
            found.append(seq)
            seq = self.index.next_live(seq + 1)
        assert found == seqs
        for seq in (0, self.seq + 1, *(seq + 1 for seq in seqs[:50])):
            assert (self.index.locate(seq) >= 0) == (seq in self.expected)


@each("seed", range(12))
def test_rows_are_those_of_a_dictionary(seed: int) -> None:
    rows = Rows(seed)
    for step in range(20):
        rows.enter()
        if rows.random.random() < 0.6:
            rows.discard()
        if rows.random.random() < 0.4:
            rows.move()
        if step % 5 == 4:
            rows.compare()
