"""Waiting for input for microseconds, without sleep and without the interpreter's lock.

This module is the interpreted twin of ``input_wait.pxd``, which the compiled modules inline.
"""

import os
import select
import time


def wait_for_input(descriptor: int, longest_ns: int) -> bool:
    """Wait until `descriptor` can be read, for so long at most; tell whether it can.

    The descriptor of an epoll can be read when one of those that it watches can.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    end_ns = time.monotonic_ns() + longest_ns
    while not poll.poll(0):
        if time.monotonic_ns() >= end_ns:
            return False
        os.sched_yield()
    return True
