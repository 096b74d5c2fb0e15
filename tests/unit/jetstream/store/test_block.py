"""Rows of messages in few bits, compared with a list of the values that entered."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from midge.jetstream.store import layout
from midge.jetstream.store.block import Block
from midge.jetstream.store.message_index import MessageIndex

Row = dict[str, int]
Kind = Callable[[random.Random], Row]


def regular(choose: random.Random) -> Row:
    return {"size": 170, "subject": choose.randrange(1000), "length": 200}


def growing(choose: random.Random) -> Row:
    return {"size": choose.randrange(150, 400), "subject": -1, "length": choose.randrange(180, 430)}


def wild(choose: random.Random) -> Row:
    return {
        "size": choose.choice((1, 1 << 20, (1 << 32) - 1)),
        "subject": choose.choice((0, 7, 1 << 31)),
        "length": choose.randrange(1 << 22),
    }


def few(choose: random.Random) -> Row:
    return {"size": choose.choice((99, 100)), "subject": choose.randrange(2), "length": 128}


class Model:
    """A stream's index and what it should say of each sequence."""

    def __init__(self, choose: random.Random, kind: Kind) -> None:
        self.choose = choose
        self.kind = kind
        self.index = MessageIndex()
        self.rows: dict[int, Row] = {}
        self.last: dict[int, int] = {}
        self.seq = self.offset = 0

    def enter(self) -> None:
        self.seq += 1
        made = self.kind(self.choose)
        subject = self.seq if made["subject"] < 0 else made["subject"]
        before = self.last.get(subject, 0)
        self.index.enter(self.seq, self.seq, self.offset, made["size"], subject, before)
        distance = self.seq - before if before else 0
        self.rows[self.seq] = {
            "offset": self.offset, "size": made["size"], "subject": subject,
            "before": distance, "after": 0,
        }  # fmt: skip
        if before:
            self.rows[before]["after"] = distance
        self.last[subject] = self.seq
        self.offset = (self.offset + made["length"]) % (1 << 32)

    def discard(self, seq: int) -> None:
        """Remove a message as a store does: out of its chain first."""
        row = self.rows.pop(seq)
        if row["before"]:
            after = row["before"] + row["after"] if row["after"] else 0
            self.index.set_after(seq - row["before"], after)
            self.rows[seq - row["before"]]["after"] = after
        if row["after"]:
            before = row["before"] + row["after"] if row["before"] else 0
            self.index.set_before(seq + row["after"], before)
            self.rows[seq + row["after"]]["before"] = before
        elif row["before"]:
            self.last[row["subject"]] = seq - row["before"]
        else:
            del self.last[row["subject"]]
        self.index.discard(seq, self.index.locate(seq))

    def move(self, seq: int, offset: int) -> None:
        self.index.block.set_offset(self.index.locate(seq), offset)
        self.rows[seq]["offset"] = offset

    def found(self, seq: int) -> Row:
        row = self.index.locate(seq)
        block = self.index.block
        return {
            "offset": block.offset(row), "size": block.size(row), "subject": block.subject(row),
            "before": self.index.before(seq), "after": self.index.after(seq),
        }  # fmt: skip

    def check(self) -> None:
        for seq in range(1, self.seq + 2):
            assert (self.index.locate(seq) >= 0) == (seq in self.rows), seq
        for seq, row in self.rows.items():
            assert self.found(seq) == row, seq
        assert self.index.count_from(1) == len(self.rows)
        for one, other in itertools.pairwise(sorted(self.rows)):
            assert self.index.next_live(one + 1) == other
            assert self.index.previous_live(other - 1) == one
        for subject in list(self.last)[:20]:
            of_it = [seq for seq in sorted(self.rows) if self.rows[seq]["subject"] == subject]
            assert self.index.next_of(subject, 1, self.seq) == of_it[0]


@pytest.mark.parametrize("kind", [regular, growing, wild, few], ids=lambda kind: kind.__name__)
def test_packed_rows_say_what_was_entered(kind: Kind) -> None:
    for seed in range(2):
        model = Model(random.Random(seed), kind)
        for _ in range(3 * layout.SPAN + 500):
            model.enter()
        model.check()
        for _ in range(1200):
            seq = model.choose.choice(list(model.rows))
            action = model.choose.random()
            if action < 0.5:
                model.discard(seq)
            elif action < 0.6:
                model.index.locate(seq)
                model.move(seq, model.choose.randrange(1 << 32))
            else:
                model.enter()
        model.check()
        for seq in list(model.rows)[:-50]:  # so few are left that the blocks are thinned out
            model.discard(seq)
        model.check()


@pytest.mark.parametrize(
    ("kind", "most"),
    [(regular, 6), (growing, 5), (few, 2)],
    ids=["regular", "growing", "few"],
)
def test_regular_messages_take_few_bytes(kind: Kind, most: int) -> None:
    model = Model(random.Random(1), kind)
    for _ in range(8 * layout.SPAN):
        model.enter()
    model.check()
    assert model.index.size() < most * 7 * layout.SPAN + layout.ROW * layout.SPAN


def test_numbers_that_grow_have_rows_packed_seldom() -> None:
    block = Block(0, 0, 0)
    for place in range(layout.SPAN):
        block.append(place, place * 100, 90, place % 50, 50)
    block.pack()
    packed = 0
    for far in range(1, 1 << 16):
        rows = block.rows
        block.set(far % layout.SPAN, layout.ROW_AFTER, far * 1000)
        packed += block.rows is not rows
    assert packed <= 8
    assert layout.get(block.rows, 100, layout.ROW_SUBJECT) == 0
    assert block.offset(1023) == 102300


def test_rows_that_cannot_be_are_not_sound() -> None:
    block = Block(0, 0, 0)
    for place in range(layout.SPAN):
        block.append(place, place * 100, 90, place % 50, 50)
    block.pack()
    assert block.is_sound()
    for at in (*range(8, layout.HEAD - 4, 16), layout.HEAD_BITS):  # masks, ends and the bits
        other = Block(0, 0, 0)
        other.live = block.live
        other.rows = bytearray(block.rows)
        other.rows[at : at + 4] = b"\x05\0\0\0" if at < layout.HEAD_BITS else bytes(4)
        assert not other.is_sound(), at
    other.rows = block.rows[: layout.HEAD - 1]
    assert not other.is_sound()
    other.rows = block.rows[: layout.HEAD + 10]
    assert not other.is_sound()
