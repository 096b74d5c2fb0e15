"""Wait for the next request without sleep, if that costs hardly more CPU time than sleeping.

A server with one active client sleeps between two requests. Waking it up takes longer than most
answers: 25 us each way on a virtual machine, where waking a processor is a call of the host, and
some 20 us of CPU time per request. If the next request comes sooner than that, a server that has
stayed awake answers in half the time.
"""

from collections.abc import Callable

from midge.server.routing import plain_socket

# More than a few commands in one read come from clients that do not wait for answers. The server
# then has work, and polling would take a processor from the clients.
_LONE_BYTES_MAX = 4096

# Counts of small reads: between two trials (at first, and at most), in each half of a trial (with
# sleep, then without), and until the next trial after a successful one. At a read every 50 us they
# take 13 ms, 0.8 s, 3 ms and 0.4 s. A failed trial costs 3 ms of CPU time, 0.4 % in the long run.
_REST_READS = 256
_REST_READS_MAX = 16_384
_TRIAL_READS = 64
_BUSY_READS = 8_192

_MISSES_MAX = _TRIAL_READS // 2
"""Number of waits without input within the reads of a trial that ends polling."""

_CROWD_TURNS_MAX = _TRIAL_READS * 3 // 4
"""If a trial's reads take no more turns of the loop, several sockets are ready at once."""

_STAY_NS = 1_000_000
"""Longest time that one call of the loop may take with waits; it also delays the loop's timers."""

_READS_FROM_TURN = 15
"""Consecutive reads in the loop's turn before the loop reads one, and may find nothing else due."""

_CPU_SHARE_MAX = 1.25
"""Polling pays if a read takes up to this many times the CPU time of a read with sleep."""

_RESTING = 0
_TRYING_SLEEP = 1
_TRYING_BUSY = 2
_BUSY = 3


class BusyPoll:
    """Makes the loop wait without sleep after reads, as long as repeated trials favour it.

    A trial compares the CPU time of `_TRIAL_READS` reads without sleep to the same number of reads
    with sleep before them. There is no trial if a turn of the loop has several reads: these clients
    do not wait for each other, and the longer the server sleeps, the more of their reads come
    together.

    `soon` is the loop's `call_soon`, `descriptor` can be read when the loop has input, `longest_us`
    is the longest wait, and `cpu_time` returns the seconds of CPU time that the thread of the loop
    has used. A wait starts when everything that the read has caused is done and written. When input
    has come, `read` reads it, so that the loop need not find it.

    A turn of the loop takes 1 us. Reads within one call of the loop, from `enter` to `leave`, save
    that time: while `stays` returns true, the caller waits for the next read itself, for at most
    `stay_ns` in all and only while the loop has nothing to call. `due` returns the milliseconds
    until the loop has something to call: 0 for at once, -1 for never, and always 0 within the
    loop's turn. Its first call may take long.
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
        self._left = _REST_READS  # reads left in this phase
        self._rest_reads = _REST_READS
        self._is_due = False  # whether a wait is scheduled in the loop's turn
        self._is_inside = False  # whether a call of the loop is running
        self._has_read = False  # whether that call has read since it last waited
        self._stay_ends_ns = 0  # 0: that call has not waited yet
        self._reads_from_turn = 0
        self._is_left_to_loop = False  # whether the loop is to read the next input
        self._misses = 0  # waits without input in this phase, or in these TRIAL_READS of it
        self._turns = 0  # turns of the loop with reads, since the trial began
        self._began_s = 0.0
        self._sleeping_s = 0.0

    def after_read(self, count: int) -> None:
        """Record a read of `count` bytes; wait for the next read once this one is processed."""
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
        """Called at the end of a turn of the loop with a read."""
        self._is_due = False
        self._turns += 1

    def wait(self) -> None:
        """Wait for input; stop polling after many waits without any."""
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
        """Count a wait without input; stop polling when there are many."""
        self._misses += 1
        if self._misses >= _MISSES_MAX:
            self._rest_longer()

    # Within a call of the loop.

    def enter(self) -> None:
        """Record that the loop calls to read the ready sockets; `leave` follows."""
        self._is_inside = True
        self._has_read = False
        self._stay_ends_ns = 0

    def leave(self) -> None:
        """Record that the call is over."""
        self._is_inside = False

    def stays(self) -> bool:
        """Return whether the caller is to wait now, with everything done and written.

        If not, a wait in the loop's turn is scheduled when one is needed.
        """
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
                self._due()  # its first call may load a library, which is no part of the trial
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
