"""A thread lock's three operations.

This module is the interpreted twin of ``thread_lock.pxd``, whose functions call CPython's own C
lock and are inlined by the compiled modules.
"""

from threading import Lock


def make() -> Lock:
    """Make a free lock."""
    return Lock()


def acquire(lock: Lock) -> None:
    """Acquire `lock`; block until it is free."""
    lock.acquire()


def release(lock: Lock) -> None:
    """Release `lock`."""
    lock.release()


def free(lock: Lock) -> None:
    """Free the lock that `make` allocated; `lock` must not be used any more."""
