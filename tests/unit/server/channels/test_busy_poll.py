"""When a loop waits for the next request without sleep."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import pytest

from midge.server.channels.busy_poll import BusyPoll

REST = 256
TRIAL = 64
BUSY = 8_192


class Loop:
    """A loop with a pipe for input: calls what it is given, and says what CPU time reads take."""

    def __init__(self, longest_us: int = 20) -> None:
        self.input, self._output = os.pipe()
        self.cpu_s = 0.0
        self.waits = 0
        self.found = 0
        self.is_in_turn = False
        self._due_calls: list[Callable[[], None]] = []
        self.due_ms = -1
        self.asked = 0  # calls of `due`
        self.read_s = 0.0  # what a read within a call takes
        self.busy_poll = BusyPoll(
            self._soon, self.input, longest_us, lambda: self.cpu_s, self._find, self._due
        )
        self.busy_poll.stay_ns = (
            60_000_000_000  # a test may lose its processor for longer than 1 ms
        )

    def _soon(self, call: Callable[[], None]) -> None:
        self.waits += call.__name__ == "wait"
        if self.is_in_turn:
            self._due_calls.append(call)
        else:
            call()

    def turn(self, reads: int) -> None:
        """Make this number of reads in one turn of the loop, each of 20 us."""
        self.is_in_turn = True
        self.read(reads, sleeping_us=20, busy_us=20)
        self.is_in_turn = False
        while self._due_calls:
            self._due_calls.pop()()

    def _find(self) -> None:
        self.found += 1

    def _due(self) -> int:
        self.asked += 1
        time.sleep(self.read_s)
        return self.due_ms

    def call(self, reads: int) -> int:
        """Call from the loop, with one read after the other; return the number of reads within."""
        busy_poll = self.busy_poll
        done = 0
        self.is_in_turn = True
        busy_poll.enter()
        busy_poll.after_read(40)
        while busy_poll.stays():
            if done == reads:
                busy_poll.miss()
                break
            busy_poll.after_read(40)
            done += 1
        busy_poll.leave()
        self.is_in_turn = False
        while self._due_calls:
            self._due_calls.pop()()
        return done

    def begin_to_poll(self) -> None:
        """Make the trials favour polling."""
        self.arrive()
        self.read(REST + 2 * TRIAL, sleeping_us=20, busy_us=20)

    def arrive(self) -> None:
        os.write(self._output, b"x")

    def close(self) -> None:
        os.close(self.input)
        os.close(self._output)

    def read(self, times: int, *, sleeping_us: float, busy_us: float, count: int = 40) -> int:
        """Make reads that take the given CPU time; return the number of reads until it waited."""
        before = self.waits
        for _ in range(times):
            waited = self.waits
            self.busy_poll.after_read(count)
            self.cpu_s += (busy_us if self.waits > waited else sleeping_us) / 1e6
        return self.waits - before


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


def test_it_waits_when_a_trial_has_shown_that_it_is_cheap(loop: Loop) -> None:
    loop.arrive()
    assert loop.read(REST + TRIAL, sleeping_us=20, busy_us=22) == 0
    assert loop.found == 0
    assert loop.read(TRIAL, sleeping_us=20, busy_us=22) == TRIAL
    assert loop.found == TRIAL, "what has come is read without the loop"
    assert loop.read(BUSY, sleeping_us=20, busy_us=22) == BUSY
    assert loop.read(TRIAL, sleeping_us=20, busy_us=22) == 0  # how cheap is it by now?
    assert loop.read(TRIAL + BUSY, sleeping_us=20, busy_us=22) == TRIAL + BUSY


def test_it_sleeps_when_to_wait_takes_more_cpu_time_and_tries_ever_less_often(loop: Loop) -> None:
    loop.arrive()
    rest = REST
    for _ in range(8):
        assert loop.read(rest + TRIAL, sleeping_us=20, busy_us=30) == 0
        assert loop.read(TRIAL, sleeping_us=20, busy_us=30) == TRIAL
        rest = min(2 * rest, 16_384)
    assert rest == 16_384


def test_what_a_trial_has_favoured_is_tried_as_often_as_at_first(loop: Loop) -> None:
    loop.arrive()
    loop.read(REST + 2 * TRIAL, sleeping_us=20, busy_us=30)
    loop.read(2 * REST + 2 * TRIAL + BUSY, sleeping_us=20, busy_us=20)
    assert loop.read(TRIAL, sleeping_us=20, busy_us=30) == 0
    assert loop.read(TRIAL, sleeping_us=20, busy_us=30) == TRIAL
    assert loop.read(2 * REST + TRIAL, sleeping_us=20, busy_us=20) == 0
    assert loop.read(TRIAL, sleeping_us=20, busy_us=20) == TRIAL


def test_it_gives_up_when_nothing_comes(loop: Loop) -> None:
    loop.read(REST + TRIAL, sleeping_us=20, busy_us=1)
    assert loop.read(TRIAL, sleeping_us=20, busy_us=1) == TRIAL // 2
    assert loop.found == 0
    assert loop.read(2 * REST, sleeping_us=20, busy_us=1) == 0


def test_it_gives_up_when_nothing_comes_any_more(loop: Loop) -> None:
    loop.arrive()
    loop.read(REST + 2 * TRIAL, sleeping_us=20, busy_us=20)
    assert loop.read(TRIAL, sleeping_us=20, busy_us=20) == TRIAL
    os.read(loop.input, 1)
    assert loop.read(TRIAL, sleeping_us=20, busy_us=20) == TRIAL // 2


def test_now_and_then_in_vain_is_no_reason_to_give_up(loop: Loop) -> None:
    loop.arrive()
    loop.read(REST + 2 * TRIAL, sleeping_us=20, busy_us=20)
    for _ in range(BUSY // TRIAL):
        os.read(loop.input, 1)
        assert loop.read(TRIAL // 4, sleeping_us=20, busy_us=20) == TRIAL // 4
        loop.arrive()
        assert loop.read(TRIAL * 3 // 4, sleeping_us=20, busy_us=20) == TRIAL * 3 // 4


def test_a_client_that_sends_much_at_a_time_is_not_waited_for(loop: Loop) -> None:
    loop.arrive()
    assert loop.read(100_000, sleeping_us=20, busy_us=20, count=5_000) == 0
    loop.read(REST + 2 * TRIAL, sleeping_us=20, busy_us=20)
    assert loop.read(1, sleeping_us=20, busy_us=20) == 1
    assert loop.read(1, sleeping_us=20, busy_us=20, count=5_000) == 0
    assert loop.read(REST + TRIAL, sleeping_us=20, busy_us=20) == 0


def test_a_crowd_that_comes_several_in_a_turn_is_not_waited_for(loop: Loop) -> None:
    loop.arrive()
    for _ in range(50_000):
        loop.turn(2)
    assert loop.waits == 0


def test_two_reads_in_a_turn_now_and_then_are_no_crowd(loop: Loop) -> None:
    loop.arrive()
    for _ in range((REST + 2 * TRIAL + BUSY) // 8):
        loop.turn(2)
        for _ in range(6):
            loop.turn(1)
    assert loop.waits > BUSY // 2


def test_it_waits_once_for_all_reads_of_a_turn() -> None:
    calls: list[Callable[[], None]] = []
    descriptor, other = os.pipe()
    try:
        busy_poll = BusyPoll(calls.append, descriptor, 1, lambda: 0.0, bool, int)
        for _ in range(REST + TRIAL):
            busy_poll.after_read(40)
            while calls:
                calls.pop()()
        for _ in range(10):
            busy_poll.after_read(40)
        assert len(calls) == 1
        calls.pop()()
        busy_poll.after_read(40)
        assert len(calls) == 1
    finally:
        os.close(descriptor)
        os.close(other)


def test_a_call_of_the_loop_goes_on_with_what_comes_next(loop: Loop) -> None:
    assert loop.call(5) == 0, "nothing has shown that it is cheap"
    loop.begin_to_poll()
    before = loop.waits
    assert loop.call(5) == 5
    assert loop.waits == before, "the loop's turn has no part in it"


def test_a_call_ends_when_the_loop_has_something_to_call(loop: Loop) -> None:
    loop.begin_to_poll()
    loop.due_ms = 0
    before, found = loop.waits, loop.found
    assert loop.call(5) == 0
    assert (loop.waits, loop.found) == (before + 1, found + 1), "it waits in the loop's turn"
    loop.due_ms = 10
    assert loop.call(5) == 5


def test_a_call_ends_after_a_millisecond_and_leaves_the_next_read_to_the_loop(loop: Loop) -> None:
    loop.begin_to_poll()
    loop.busy_poll.stay_ns = 1_000_000
    loop.read_s = 20e-6
    found = loop.found
    began = time.monotonic()
    assert 0 < loop.call(1_000_000) < 1_000_000
    assert time.monotonic() - began >= 0.001
    assert loop.found == found, "the loop finds what has come, and calls again"
    loop.read(1, sleeping_us=20, busy_us=20)
    assert loop.found == found + 1, "only the next one"


def test_now_and_then_a_read_is_left_to_the_loop_where_it_has_always_something_to_call(
    loop: Loop,
) -> None:
    loop.begin_to_poll()
    loop.due_ms = 0
    found = loop.found
    for _ in range(160):
        assert loop.call(1) == 0
    assert loop.found == found + 150


def test_a_call_does_not_go_on_while_a_trial_sleeps_or_much_comes(loop: Loop) -> None:
    loop.arrive()
    loop.read(REST, sleeping_us=20, busy_us=20)
    assert loop.call(5) == 0
    assert loop.waits == 0
    loop.read(TRIAL + TRIAL, sleeping_us=20, busy_us=20)
    assert loop.call(5) == 5
    loop.busy_poll.enter()
    loop.busy_poll.after_read(40)
    loop.busy_poll.after_read(5_000)
    assert not loop.busy_poll.stays()
    loop.busy_poll.leave()


def test_waits_in_vain_within_calls_count_too(loop: Loop) -> None:
    loop.begin_to_poll()
    loop.read(TRIAL, sleeping_us=20, busy_us=20)
    for _ in range(TRIAL // 2):
        loop.busy_poll.enter()
        loop.busy_poll.after_read(40)
        assert loop.busy_poll.stays()
        loop.busy_poll.miss()
        loop.busy_poll.leave()
    assert loop.call(5) == 0


def test_a_read_outside_of_a_call_waits_in_the_turn_of_the_loop(loop: Loop) -> None:
    loop.begin_to_poll()
    loop.is_in_turn = True
    loop.busy_poll.after_read(40)
    loop.is_in_turn = False
    loop.busy_poll.enter()
    loop.busy_poll.after_read(40)
    assert not loop.busy_poll.stays(), "it waits as soon as the call is over"
    loop.busy_poll.leave()


def test_what_is_due_is_first_asked_before_a_trial_and_not_in_one(loop: Loop) -> None:
    loop.arrive()
    loop.read(REST + TRIAL - 1, sleeping_us=20, busy_us=20)
    assert loop.asked == 0
    loop.read(1, sleeping_us=20, busy_us=20)
    assert loop.asked == 1
