"""The results of recently published subjects, found by the subject's bytes in place.

A publisher's subject lies in a read buffer. A dictionary look-up needs a bytes object and Python's
hash of it; a look-up here needs neither. One table serves all publishers of a SubList, since one
thread routes their messages.
"""

from midge.sublist import subject_table
from midge.sublist.result import SubListResult

# Tables start small, for there may be thousands of accounts: 4.6 KB. With 600 subjects that take
# turns, a look-up reads of 38 KB of subjects and 8 KB of buckets. While each had an object of its
# own, waiting for memory was two thirds of a look-up, and look-ups were a seventh of a message.
_CAPACITY_MIN = 64
_CAPACITY_MAX = subject_table.NUMBERS_MAX
_GROWTH = 4

_NO_GENERATION = 2**64 - 1  # what no SubList reaches


class RecentMatches:
    """The latest subjects and their results, all of one generation of the SubList.

    It grows when it is full, and drops its contents, which are found again on their next use; the
    largest table forgets the oldest. While `generation` is that of the SubList, a publisher may
    look its subject up in `table`, of `capacity`, without calling `find`; it adds to `hits` then.
    """

    __slots__ = (
        "_has_table",
        "_memory",
        "_results",
        "_subjects",
        "_turn",
        "capacity",
        "generation",
        "hits",
        "table",
    )

    def __init__(self) -> None:
        self.generation = _NO_GENERATION
        self.capacity = _CAPACITY_MIN
        self.hits = 0
        # By number, to own what the table refers to; the first is no subject's.
        self._results: list[SubListResult | None] = []
        self._subjects: list[bytes] = []
        self._has_table = False  # made when it is first needed
        self._memory = subject_table.make(0)
        self.table = self._memory
        self._turn = 0  # the number given last

    def find(
        self, data: bytearray | bytes, start: int, end: int, generation: int
    ) -> SubListResult | None:
        """Return the result for ``data[start:end]``, or None without one of `generation`."""
        if self.generation != generation:
            return None
        result = subject_table.find(self.table, self.capacity, data, start, end)
        if result is not None:
            self.hits += 1
        return result

    def keep(self, subject: bytes, result: SubListResult, generation: int) -> None:
        """Remember that `subject` matched `result` at `generation`."""
        if self.generation != generation:
            self.clear()
        if len(self._results) == self.capacity < _CAPACITY_MAX:
            self.clear()
            self.capacity *= _GROWTH
            self._has_table = False
        if not self._results:
            self._begin()
        self.generation = generation
        self._turn = self._turn + 1 if self._turn + 1 < self.capacity else 1
        subject_table.put(self.table, self.capacity, subject, result, self._turn)
        if self._turn == len(self._results):
            self._results.append(result)
            self._subjects.append(subject)
        else:
            self._results[self._turn] = result
            self._subjects[self._turn] = subject

    def clear(self) -> None:
        """Forget everything: it is outdated, and it keeps closed clients alive."""
        if self._results:
            self.generation = _NO_GENERATION
            subject_table.empty(self.table, self.capacity)
            self._results = []
            self._subjects = []

    def _begin(self) -> None:
        """Make ready for the first subject."""
        if not self._has_table:
            self._memory = subject_table.make(self.capacity)
            self.table = self._memory
            self._has_table = True
        self._results = [None]
        self._subjects = [b""]
        self._turn = 0
