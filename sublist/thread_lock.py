"""A thread lock's three operations.

This module is the interpreted twin of ``thread_lock.pxd``: there the same functions are calls of
CPython's own C lock, which the compiled modules inline.
"""

from threading import Lock


def make() -> Lock:
    """Make a lock that nobody has."""
    return Lock()


def acquire(lock: Lock) -> None:
    """Take `lock`, as soon as nobody has it."""
    lock.acquire()


def release(lock: Lock) -> None:
    """Let go of `lock`."""
    lock.release()


def free(lock: Lock) -> None:
    """Give back what `make` took; nobody may use `lock` any more."""
