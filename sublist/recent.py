"""The results of recently published subjects, found by the subject's bytes in place.

A publisher's subject lies in a read buffer. A dictionary look-up needs a bytes object and Python's
hash of it; a look-up here needs neither. One table serves all publishers of a SubList, since one
thread routes their messages.
"""

from midge.sublist import octets
from midge.sublist.result import SubListResult

# Powers of two, and few sets, since with alternating subjects the slots of a large table miss the
# CPU's cache. With 600 subjects, 1,024 sets instead of 4,096, and the words below, halved the share
# of the look-up in the work for a message (from 22 to 11 %).
_SETS_MIN = 256
_SETS_MAX = 4096
_GROWTH = 4
_WAYS = 2


class Recent:
    """The result for `subject` while the SubList's generation was `generation`; immutable.

    A subject of 8 to 32 bytes is stored here as words, too, overlapping where it is shorter, so
    that comparing touches this object only.
    """

    __slots__ = ("first", "generation", "last", "length", "result", "second", "subject", "third")

    def __init__(self, subject: bytes, result: SubListResult, generation: int) -> None:
        length = len(subject)
        self.subject = subject
        self.length = length
        self.result = result
        self.generation = generation
        if octets.WORDS_MIN <= length <= octets.WORDS_MAX:
            self.first = octets.word(subject, 0)
            self.last = octets.word(subject, length - 8)
            # With less than 16 bytes, these words would begin before the subject.
            self.second = octets.word(subject, 8) if length >= 16 else 0
            self.third = octets.word(subject, length - 16) if length >= 16 else 0


class RecentMatches:
    """A table of many small sets; each holds the latest two of the subjects that hash to it.

    It grows when a set is full, and drops its contents, which are found again on their next use.
    """

    __slots__ = ("_filled", "_sets", "_slots")

    def __init__(self) -> None:
        self._sets = _SETS_MIN
        self._slots: list[Recent | None] = []
        self._filled: list[int] = []  # the indexes of the sets in use

    def find(self, data: bytearray, start: int, end: int, generation: int) -> SubListResult | None:
        """Return the result for ``data[start:end]``, or None without one of `generation`."""
        slots = self._slots
        if not slots:
            return None
        length = end - start
        place = (octets.digest(data, start, end) & (self._sets - 1)) * _WAYS
        for i in range(_WAYS):
            recent = slots[place + i]
            if recent is None or recent.generation != generation:
                return None  # the second entry of the set is older still
            if recent.length != length:
                continue
            if length < octets.WORDS_MIN or length > octets.WORDS_MAX:
                if octets.equals(recent.subject, data, start, end):
                    return recent.result
            elif (
                recent.first == octets.word(data, start)
                and recent.last == octets.word(data, end - 8)
                and (
                    length <= 16
                    or (
                        recent.second == octets.word(data, start + 8)
                        and recent.third == octets.word(data, end - 16)
                    )
                )
            ):
                return recent.result
        return None

    def keep(self, subject: bytes, result: SubListResult, generation: int) -> None:
        """Remember that `subject` matched `result` at `generation`."""
        if not self._slots:
            self._slots = [None] * (self._sets * _WAYS)
        place = self._place(subject)
        oldest = self._slots[place + 1]
        if oldest is not None and oldest.generation == generation and self._sets < _SETS_MAX:
            self._sets *= _GROWTH
            self._slots = [None] * (self._sets * _WAYS)
            self._filled = []
            place = self._place(subject)
        slots = self._slots
        if slots[place] is None:
            self._filled.append(place)
        slots[place + 1] = slots[place]
        slots[place] = Recent(subject, result, generation)

    def _place(self, subject: bytes) -> int:
        """Return the index at which the set of `subject` begins."""
        return (octets.digest(subject, 0, len(subject)) & (self._sets - 1)) * _WAYS

    def clear(self) -> None:
        """Forget everything: it is outdated, and it keeps closed clients alive."""
        filled, slots = self._filled, self._slots
        if filled:
            self._filled = []
            for place in filled:
                slots[place] = None
                slots[place + 1] = None
