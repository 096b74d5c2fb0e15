"""The results of the subjects that came last, found by the subject's bytes where they lie.

A publisher's subject lies in a read buffer. To look it up in a dictionary takes a bytes object and
Python's hash of it; to look it up here takes neither. One table serves all publishers of a SubList,
since one thread routes their messages.
"""

from midge.sublist import octets
from midge.sublist.result import SubListResult

# Powers of two, the table as small as may be: where subjects alternate, its slots are in no cache.
# With 600 subjects, 1,024 sets instead of 4,096, and the words below, halved what a look-up takes
# of all that is done for a message (from 22 to 11 %).
_SETS_MIN = 256
_SETS_MAX = 4096
_GROWTH = 4
_WAYS = 2


class Recent:
    """What `subject` matched while the SubList's generation was `generation`; never changes.

    A subject of 8 to 32 bytes lies here too, as words that overlap where it is shorter: so one look
    at this object tells whether it is the one.
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
            # Of less than 16 bytes, these would begin before the subject.
            self.second = octets.word(subject, 8) if length >= 16 else 0
            self.third = octets.word(subject, length - 16) if length >= 16 else 0


class RecentMatches:
    """A table of many small sets; each holds the latest two of the subjects that belong there.

    It grows when a set has no room, and forgets what it held: that comes again soon, or never.
    """

    __slots__ = ("_filled", "_sets", "_slots")

    def __init__(self) -> None:
        self._sets = _SETS_MIN
        self._slots: list[Recent | None] = []
        self._filled: list[int] = []  # the places of the sets that hold anything

    def find(self, data: bytearray, start: int, end: int, generation: int) -> SubListResult | None:
        """Give what the subject in ``data[start:end]`` matched, if `generation` is still that."""
        slots = self._slots
        if not slots:
            return None
        length = end - start
        place = (octets.digest(data, start, end) & (self._sets - 1)) * _WAYS
        for i in range(_WAYS):
            recent = slots[place + i]
            if recent is None or recent.generation != generation:
                return None  # and what may lie behind it is older still
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
        """Give where the set of `subject` begins."""
        return (octets.digest(subject, 0, len(subject)) & (self._sets - 1)) * _WAYS

    def clear(self) -> None:
        """Forget everything: none of it is valid any more, and it holds on to who has left."""
        filled, slots = self._filled, self._slots
        if filled:
            self._filled = []
            for place in filled:
                slots[place] = None
                slots[place + 1] = None
