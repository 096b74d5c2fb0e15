"""The lock of a SubList: taken and let go by one C call each in the compiled build.

`threading.Lock` does the same, but its `with` block costs as much as what the lock guards here.
"""

from midge.sublist import thread_lock


class Mutex:
    """A lock for one thread at a time; it cannot be taken twice by the same one.

    Whoever has to wait lets the others run. Leave it in a `finally`.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = thread_lock.make()

    def __dealloc__(self) -> None:  # Cython's, called in the compiled build alone
        thread_lock.free(self._lock)

    def enter(self) -> None:
        """Take the lock, when whoever has it has let go."""
        thread_lock.acquire(self._lock)

    def leave(self) -> None:
        """Let go of the lock."""
        thread_lock.release(self._lock)
