"""The lock of a SubList: acquired and released by one C call each in the compiled build.

`threading.Lock` does the same, but its `with` block costs as much as the code that it would guard.
"""

from midge.sublist import thread_lock


class Mutex:
    """A non-reentrant lock.

    A thread that waits releases the GIL. Call `leave` in a `finally`.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = thread_lock.make()

    def __dealloc__(self) -> None:  # used by Cython, in the compiled build only
        thread_lock.free(self._lock)

    def enter(self) -> None:
        """Acquire the lock; block until it is free."""
        thread_lock.acquire(self._lock)

    def leave(self) -> None:
        """Release the lock."""
        thread_lock.release(self._lock)
