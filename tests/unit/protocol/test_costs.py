"""Every command is paid for, before it is done: its bytes and a constant of its own."""

from __future__ import annotations

import pytest

from midge.protocol.frame import Frame
from midge.protocol.handler import Handler
from midge.protocol.parser import COSTS, VERBS, Parser
from midge.protocol.stream_parser import COMPILED_COSTS, INTERPRETED_COSTS, RUN, RUN_LINE

EXAMPLES: dict[bytes, list[bytes]] = {
    b"PUB": [
        b"PUB a 2\r\nhi\r\n",
        b"PUB a b 2\r\nhi\r\n",
        b"PUB\ta  2\r\nhi\r\n",
        b"pub a 0\n\r\n",
    ],
    b"HPUB": [b"HPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"],
    b"SUB": [b"SUB a 1\r\n", b"SUB a q 1\r\n"],
    b"UNSUB": [b"UNSUB 1\r\n", b"UNSUB 1 5\r\n"],
    b"CONNECT": [b"CONNECT {}\r\n"],
    b"INFO": [b"INFO {}\r\n"],
    b"-ERR": [b"-ERR 'x'\r\n"],
    b"PING": [b"PING\r\n", b"PING    \r\n"],
    b"PONG": [b"PONG\r\n"],
    b"+OK": [b"+OK\r\n"],
}
REWRITTEN = EXAMPLES[b"PUB"][2:]
PLENTY = 1 << 40


def charged(parser: Parser, data: bytes) -> int:
    """The charge for `data`, which must be used up."""
    parser.budget = PLENTY
    assert parser.feed(bytearray(data), 0, len(data)) == len(data)
    return PLENTY - parser.budget


def free_commands(costs: dict[bytes, int]) -> set[bytes]:
    """Name the verbs of which an example is not charged its bytes and more."""
    parser = Parser(Handler(), costs=costs)
    parser.headers = True
    return {
        verb
        for verb in VERBS
        for example in EXAMPLES[verb]
        if charged(parser, example) <= len(example)
    }


def test_no_command_that_the_parser_knows_is_free() -> None:
    assert free_commands(COSTS) == set()


@pytest.mark.parametrize("verb", VERBS, ids=bytes.decode)
def test_a_free_command_is_found(verb: bytes) -> None:
    assert free_commands(COSTS | {verb: 0}) == {verb}


@pytest.mark.parametrize("costs", [COMPILED_COSTS, INTERPRETED_COSTS])
def test_every_verb_has_a_cost_in_either_build(costs: dict[bytes, int]) -> None:
    assert set(costs) == {*VERBS, RUN, RUN_LINE}
    assert min(cost for what, cost in costs.items() if what != RUN_LINE) > 0


def test_interpreted_commands_cost_more(is_pure_build: bool) -> None:
    assert (INTERPRETED_COSTS if is_pure_build else COMPILED_COSTS) == COSTS
    assert all(INTERPRETED_COSTS[verb] > COMPILED_COSTS[verb] for verb in COSTS)


@pytest.mark.parametrize("verb", VERBS, ids=bytes.decode)
def test_a_command_costs_its_bytes_and_its_constant(verb: bytes) -> None:
    parser = Parser(Handler())
    parser.headers = True
    for example in EXAMPLES[verb]:
        word = example.split()[0].upper()
        # The first byte after the word shows the parser which bytes belong to the line.
        bytes_paid = charged(parser, example) - COSTS[verb]
        is_rewritten = example in REWRITTEN
        least = len(example) - len(word) + (2 * COSTS[verb] if is_rewritten else 0)
        assert least <= bytes_paid <= least + len(word)


def test_blanks_that_belong_to_no_command_yet_are_paid_for() -> None:
    for start in (b"PING", b"SUB", b"PUB"):
        parser = Parser(Handler())
        assert charged(parser, start + b" " * 1000) >= 1000
        assert charged(parser, b" " * 1000) >= 1000


class Taker(Handler):
    """Takes up to `most` of a run at a time; notes the budget at each call."""

    def __init__(self, most: int = 1 << 30, costs: dict[bytes, int] = COSTS) -> None:
        self.most = most
        self.parser = Parser(self, costs=costs)
        self.budgets: list[int] = []
        self.messages = 0
        self.spent = 0

    def on_publish(self, frame: Frame) -> None:
        self.budgets.append(self.parser.budget)
        self.messages += 1

    def on_publish_run(self, frame: Frame, count: int) -> int:
        self.budgets.append(self.parser.budget)
        taken = min(count, self.most)
        self.messages += taken
        return taken

    def on_ping(self) -> None:
        self.budgets.append(self.parser.budget)

    def on_budget_spent(self) -> None:
        self.spent += 1


def test_it_is_paid_before_the_command_is_done() -> None:
    taker = Taker()
    charged(taker.parser, b"PING\r\nPUB a 2\r\nhi\r\n")
    assert taker.budgets == [
        PLENTY - COSTS[b"PING"] - len(b"\r\n"),
        PLENTY - COSTS[b"PING"] - len(b"\r\n") - COSTS[b"PUB"] - len(b"PUB a 2\r\nhi\r\n"),
    ]


@pytest.mark.parametrize("most", [1, 7, 1000])
@pytest.mark.parametrize("line_cost", [COSTS[RUN_LINE], 100])
def test_a_run_pays_its_bytes_and_one_constant(most: int, line_cost: int) -> None:
    taker = Taker(most, COSTS | {RUN_LINE: line_cost})
    line = b"PUB a 2\r\nhi\r\n"
    cost = charged(taker.parser, line * 1000)
    assert taker.messages == 1000
    constants = cost - len(line) * 1000 - COSTS[b"PUB"] - line_cost * min(most, 999)
    assert constants == COSTS[RUN] * (1 if most == 1000 else 999 - (most - 1))


def test_who_has_spent_everything_is_asked_before_the_command_is_done() -> None:
    taker = Taker()
    taker.parser.budget = COSTS[b"PING"] + 10
    taker.parser.feed(bytearray(b"PING\r\n" * 3), 0, 18)
    assert taker.spent == 2
    assert len(taker.budgets) == 3


class Halting(Taker):
    def on_budget_spent(self) -> None:
        self.parser.halted = True


def test_who_has_spent_everything_may_halt_after_the_command_at_hand() -> None:
    halting = Halting()
    halting.parser.budget = 0
    assert halting.parser.feed(bytearray(b"PING\r\n" * 3), 0, 18) == 6
    assert len(halting.budgets) == 1
