"""The results of the subjects that came last, found by the subject's bytes where they lie.

A publisher's subject lies in a read buffer. To look it up in a dictionary takes a bytes object and
Python's hash of it; to look it up here takes neither. One table serves all publishers of a SubList,
since one thread routes their messages.
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
    """A table of many small sets; each holds the latest two of the subjects that belong there."""

    __slots__ = ("_filled", "_slots")

    def __init__(self) -> None:
        self._slots: list[Recent | None] = []
        self._filled: list[int] = []  # the places of the sets that hold anything

    def find(self, data: bytearray, start: int, end: int, generation: int) -> SubListResult | None:
        """Give what the subject in ``data[start:end]`` matched, if `generation` is still that."""
        slots = self._slots
        if not slots:
            return None
        place = octets.digest(data, start, end) % _SETS * _WAYS
        for i in range(_WAYS):
            recent = slots[place + i]
            if recent is None or recent.generation != generation:
                return None  # and what may lie behind it is older still
            if octets.equals(recent.subject, data, start, end):
                return recent.result
        return None

    def keep(self, subject: bytes, result: SubListResult, generation: int) -> None:
        """Remember that `subject` matched `result` at `generation`."""
        if not self._slots:
            self._slots = [None] * (_SETS * _WAYS)
        slots = self._slots
        place = octets.digest(subject, 0, len(subject)) % _SETS * _WAYS
        if slots[place] is None:
            self._filled.append(place)
        slots[place + 1] = slots[place]
        slots[place] = Recent(subject, result, generation)

    def clear(self) -> None:
        """Forget everything: none of it is valid any more, and it holds on to who has left."""
        filled, slots = self._filled, self._slots
        if filled:
            self._filled = []
            for place in filled:
                slots[place] = None
                slots[place + 1] = None
