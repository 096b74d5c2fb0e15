"""Send and receive on a plain socket without waiting, or wait for input for microseconds.

They go past the transport or the loop that the descriptor belongs to.

This module is the interpreted twin of ``plain_socket.pxd``, which the compiled modules inline.
"""

import errno
import os
import select
import time

READY_MAX = 256

NOTHING_CAME = -100_001
OTHERS_FIRST = -100_002

_NOTHING_YET = (-errno.EAGAIN, -errno.EWOULDBLOCK)


def send(descriptor: int, data: bytearray, length: int) -> int:
    """Send ``data[:length]`` without waiting; return how much was taken, -1 for none.

    The transport gets the rest, and its own write reports an error.
    """
    try:
        return os.write(descriptor, bytes(data[:length]))
    except OSError:
        return -1


def receive(descriptor: int, data: bytearray, start: int, length: int) -> int:
    """Receive up to `length` bytes into `data` from `start` on, without waiting.

    Returns how many, 0 at the end of the stream, or the number of an error, negative.
    """
    try:
        return os.readv(descriptor, [memoryview(data)[start : start + length]])
    except OSError as error:
        return -(error.errno or errno.EIO)


def receive_more(descriptor: int, data: bytearray, start: int, length: int) -> int:
    """Do what `receive` does, and let other threads run meanwhile: there is much to be copied."""
    return receive(descriptor, data, start, length)


def receive_next(
    descriptor: int, data: bytearray, start: int, length: int, others: int, longest_ns: int
) -> int:
    """Do what `receive` does as soon as something is there; it does not sleep, nor keep others off.

    Returns NOTHING_CAME after so long, or OTHERS_FIRST when `others` can be read before.
    """
    poll = select.poll()
    poll.register(others, select.POLLIN)
    end_ns = time.monotonic_ns() + longest_ns
    while True:
        count = receive(descriptor, data, start, length)
        if count not in _NOTHING_YET:
            return count
        if poll.poll(0):
            return OTHERS_FIRST
        if time.monotonic_ns() >= end_ns:
            return NOTHING_CAME
        os.sched_yield()


def ready(epoll: "select.epoll", descriptor: int, found: list[int]) -> int:  # noqa: ARG001 - of C
    """Put the descriptors that `epoll` has events of into `found`, READY_MAX at most.

    `descriptor` is that of `epoll`. Of those that have come to their end, or have an error, the
    complement is put there. Returns how many.
    """
    ending = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
    events = epoll.poll(0, READY_MAX)
    found[: len(events)] = [~number if mask & ending else number for number, mask in events]
    return len(events)


def now_ns() -> int:
    """Return the monotonic time."""
    return time.monotonic_ns()


def wait_for_input(descriptor: int, longest_ns: int) -> bool:
    """Wait until `descriptor` can be read, for so long at most; return whether it can.

    It does not sleep, and lets other threads run and other processes go first. The descriptor of an
    epoll can be read when one of those that it watches can.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    end_ns = time.monotonic_ns() + longest_ns
    while not poll.poll(0):
        if time.monotonic_ns() >= end_ns:
            return False
        os.sched_yield()
    return True
