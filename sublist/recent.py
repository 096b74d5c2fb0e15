"""The results of the subjects that came last, found by the subject's bytes where they lie.

A publisher's subject lies in a read buffer. To look it up in a dictionary takes a bytes object and
Python's hash of it; to look it up here takes neither. nats-server keeps such a table for each
client; one for each SubList does, for all its clients are served by one thread.
"""

from midge.sublist import octets
from midge.sublist.result import SubListResult

_SETS = 4096  # a power of two
_WAYS = 2


class Recent:
    """What `subject` matched while the SubList's generation was `generation`; never changes."""

    __slots__ = ("generation", "result", "subject")

    def __init__(self, subject: bytes, result: SubListResult, generation: int) -> None:
        self.subject = subject
        self.result = result
        self.generation = generation


class RecentMatches:
    """A table of many small sets; a subject has its place in one of them, as the latest two do."""

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: list[Recent | None] = []

    def find(self, data: bytearray, start: int, end: int, generation: int) -> SubListResult | None:
        """Give what the subject in ``data[start:end]`` matched, if `generation` is still that."""
        slots = self._slots
        if not slots:
            return None
        place = octets.digest(data, start, end) % _SETS * _WAYS
        for i in range(_WAYS):
            recent = slots[place + i]
            if recent is None or recent.generation != generation:
                return None
            if octets.equals(recent.subject, data, start, end):
                return recent.result
        return None

    def keep(self, subject: bytes, result: SubListResult, generation: int) -> None:
        """Remember that `subject` matched `result` at `generation`."""
        if not self._slots:
            self._slots = [None] * (_SETS * _WAYS)
        slots = self._slots
        place = octets.digest(subject, 0, len(subject)) % _SETS * _WAYS
        slots[place + 1] = slots[place]
        slots[place] = Recent(subject, result, generation)

    def forget(self) -> None:
        """Let go of all results, and so of what has subscribed: the outdated ones hold it too."""
        self._slots = []
