"""Waiting for the next request without sleep, where that costs hardly more CPU time than to sleep.

A server that one client asks at a time sleeps between two requests. The client wakes it, which
takes both longer than most answers: 25 us each way on a virtual machine, where to wake a processor
is a call of the host, and some 20 us of CPU time for a request. Where the next request comes
sooner than that, a server that has stayed awake answers in half the time.
"""

from collections.abc import Callable

from midge.server.routing import plain_socket

# More than a few commands in one read are of clients that do not wait for answers: then the server
# has work, and to poll would take a processor from them.
_LONE_BYTES_MAX = 4096

# Lone reads: between two trials, at first and at most; those of a trial with sleep, and as many
# without; and those until the next trial if it was worth it. Every 50 us they are 13 ms, 0.8 s, 3
# and 3 ms, and 0.4 s. A trial that fails costs 3 ms of CPU time, in the end 0.4 %.
_REST_READS = 256
_REST_READS_MAX = 16_384
_TRIAL_READS = 64
_BUSY_READS = 8_192

_MISSES_MAX = _TRIAL_READS // 2
"""Waits in vain within a trial's reads that end it."""

_CROWD_TURNS_MAX = _TRIAL_READS * 3 // 4
"""Turns of the loop for a trial's reads up to which sockets are ready several at a time."""

_STAY_NS = 1_000_000
"""Time that one call of the loop may take with waits; the loop's timers wait so long, too."""

_READS_FROM_TURN = 15
"""Reads in the loop's turn, in a row, until one is left to the loop, which may let it stay."""

_CPU_SHARE_MAX = 1.25
"""CPU time of a read, in times of what it takes with sleep, up to which it is worth it."""

_RESTING = 0
_TRYING_SLEEP = 1
_TRYING_BUSY = 2
_BUSY = 3


class BusyPoll:
    """Has the loop wait without sleep after reads, as long as a trial now and then favours it.

    A trial compares the CPU time of some reads with that of as many before them, when the loop
    slept. There is none where reads come several in a turn of the loop: they are of clients that
    do not wait for each other, and the longer the server sleeps, the more of them come together.

    `soon` is the loop's `call_soon`, `descriptor` can be read when the loop has input, `longest_us`
    is the longest wait, and `cpu_time` returns the seconds of CPU time that the thread of the loop
    has used. It waits when all that the read has caused is done and written. `read` is called when
    the wait has an end: what it can read at once the loop need not find.

    A turn of the loop takes 1 us. Reads within a call of the loop, from `enter` to `leave`, save
    even that: `stays` tells it to wait by itself for the next one, `stay_ns` in all, while the
    loop has nothing to call. `due` returns in how many milliseconds it has, 0 for at once, and -1
    for never; within the loop's turn it is always 0. Its first call may take long.
    """

    def __init__(
        self,
        soon: Callable[[Callable[[], None]], object],
        descriptor: int,
        longest_us: int,
        cpu_time: Callable[[], float],
        read: Callable[[], object],
        due: Callable[[], int],
    ) -> None:
        self.descriptor = descriptor
        self.longest_ns = longest_us * 1000
        self.stay_ns = _STAY_NS
        self._soon = soon
        self._cpu_time = cpu_time
        self._read = read
        self._due = due
        self._phase = _RESTING
        self._left = _REST_READS  # reads of this phase
        self._rest_reads = _REST_READS
        self._is_due = False  # the wait, in the loop's turn
        self._is_inside = False  # a call of the loop
        self._has_read = False  # within it, since it last waited
        self._stay_ends_ns = 0  # 0: it has not waited
        self._reads_from_turn = 0
        self._is_left_to_loop = False  # what comes next
        self._misses = 0  # since the begin of the phase, or of TRIAL_READS within it
        self._turns = 0  # with reads, since a trial began
        self._began_s = 0.0
        self._sleeping_s = 0.0

    def after_read(self, count: int) -> None:
        """Note a read of `count` bytes; wait for the next one as soon as it is dealt with."""
        if count > _LONE_BYTES_MAX:
            if self._phase != _RESTING:
                self._enter(_RESTING, self._rest_reads)
            return
        if self._is_inside and self._phase >= _TRYING_BUSY:
            self._has_read = True
        elif self._phase != _RESTING and not self._is_due:
            self._is_due = True
            if self._phase == _TRYING_SLEEP:
                self._soon(self.count_turn)
            else:
                self._soon(self.wait)
        self._left -= 1
        if self._left <= 0:
            self._go_on()
        elif self._phase == _BUSY and self._left % _TRIAL_READS == 0:
            self._misses = 0

    def count_turn(self) -> None:
        """Called at the end of a turn in which something was read."""
        self._is_due = False
        self._turns += 1

    def wait(self) -> None:
        """Wait for input; give up when that is often in vain."""
        self._is_due = False
        if self._phase < _TRYING_BUSY:
            return
        is_left_to_loop = self._is_left_to_loop
        self._is_left_to_loop = False
        if not plain_socket.wait_for_input(self.descriptor, self.longest_ns):
            self.miss()
        elif not is_left_to_loop:
            self._read()

    def miss(self) -> None:
        """Note a wait in vain; give up when there are many."""
        self._misses += 1
        if self._misses >= _MISSES_MAX:
            self._rest_longer()

    # Within a call of the loop.

    def enter(self) -> None:
        """Note that the loop calls, to have read what is ready; `leave` follows."""
        self._is_inside = True
        self._has_read = False
        self._stay_ends_ns = 0

    def leave(self) -> None:
        """Note that the call is over."""
        self._is_inside = False

    def stays(self) -> bool:
        """Tell whether to wait now, all being done and written; else the loop does if need be."""
        if not self._has_read or self._phase < _TRYING_BUSY or self._is_due:
            return False
        self._has_read = False
        now_ns = plain_socket.now_ns()
        if self._stay_ends_ns == 0:
            self._stay_ends_ns = now_ns + self.stay_ns
        if now_ns >= self._stay_ends_ns:
            self._is_left_to_loop = True
        elif self._due() != 0:
            self._reads_from_turn = 0
            return True
        else:
            self._reads_from_turn += 1
            if self._reads_from_turn > _READS_FROM_TURN:
                self._reads_from_turn = 0
                self._is_left_to_loop = True
        self._is_due = True
        self._soon(self.wait)
        return False

    # Phases.

    def _go_on(self) -> None:
        """Enter the next phase."""
        now_s = self._cpu_time()
        used_s = now_s - self._began_s
        self._began_s = now_s
        if self._phase == _TRYING_SLEEP:
            self._sleeping_s = used_s
            if self._turns <= _CROWD_TURNS_MAX:
                self._rest_longer()
            else:
                self._due()  # it may load what it needs, and that is no part of the trial
                self._began_s = self._cpu_time()
                self._enter(_TRYING_BUSY, _TRIAL_READS)
        elif self._phase != _TRYING_BUSY:
            self._enter(_TRYING_SLEEP, _TRIAL_READS)
        elif used_s <= self._sleeping_s * _CPU_SHARE_MAX:
            self._rest_reads = _REST_READS
            self._enter(_BUSY, _BUSY_READS)
        else:
            self._rest_longer()

    def _rest_longer(self) -> None:
        self._rest_reads = min(2 * self._rest_reads, _REST_READS_MAX)
        self._enter(_RESTING, self._rest_reads)

    def _enter(self, phase: int, reads: int) -> None:
        self._phase = phase
        self._left = reads
        self._misses = 0
        self._turns = 0
