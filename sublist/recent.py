"""The results of recently published subjects, found by the subject's bytes in place.

A publisher's subject lies in a read buffer. A dictionary look-up needs a bytes object and Python's
hash of it; a look-up here needs neither. One table serves all publishers of a SubList, since one
thread routes their messages.
"""

from midge.sublist import octets, subject_table
from midge.sublist.result import SubListResult

# Tables start small, for there may be thousands of accounts: 4.6 KB. With 600 subjects that take
# turns, a look-up reads of 38 KB of subjects and 8 KB of buckets. While each had an object of its
# own, waiting for memory was two thirds of a look-up, and look-ups were a seventh of a message.
_CAPACITY_MIN = 64
_CAPACITY_MAX = subject_table.NUMBERS_MAX
_GROWTH = 4


class RecentMatches:
    """The latest subjects and their results, all of one generation of the SubList.

    It grows when it is full, and drops its contents, which are found again on their next use; the
    largest table forgets the oldest.
    """

    __slots__ = (
        "_capacity",
        "_generation",
        "_has_table",
        "_results",
        "_subjects",
        "_table",
        "_table_data",
        "_turn",
    )

    def __init__(self) -> None:
        self._capacity = _CAPACITY_MIN
        self._generation = 0
        # By number; the first is no subject's. Empty without a table.
        self._results: list[SubListResult | None] = []
        self._subjects: list[bytes] = []
        self._has_table = False  # made when it is first needed
        self._table = subject_table.make(0)
        self._table_data = self._table
        self._turn = 0  # the number given last

    def find(self, data: bytearray, start: int, end: int, generation: int) -> SubListResult | None:
        """Return the result for ``data[start:end]``, or None without one of `generation`."""
        if self._generation != generation or not self._results:
            return None
        number = subject_table.find(self._table_data, self._capacity, data, start, end)
        if end - start > subject_table.EXACT_MAX and not octets.equals(
            self._subjects[number], data, start, end
        ):
            return None
        return self._results[number]

    def keep(self, subject: bytes, result: SubListResult, generation: int) -> None:
        """Remember that `subject` matched `result` at `generation`."""
        if self._generation != generation:
            self.clear()
        self._generation = generation
        if len(self._results) == self._capacity < _CAPACITY_MAX:
            self.clear()
            self._capacity *= _GROWTH
            self._has_table = False
        if not self._results:
            self._begin()
        self._turn = self._turn + 1 if self._turn + 1 < self._capacity else 1
        if self._turn == len(self._results):
            self._results.append(result)
            self._subjects.append(subject)
        else:
            self._results[self._turn] = result
            self._subjects[self._turn] = subject
        subject_table.put(self._table_data, self._capacity, subject, self._turn)

    def clear(self) -> None:
        """Forget everything: it is outdated, and it keeps closed clients alive."""
        if self._results:
            subject_table.empty(self._table_data, self._capacity)
            self._results = []
            self._subjects = []

    def _begin(self) -> None:
        """Make ready for the first subject."""
        if not self._has_table:
            self._table = subject_table.make(self._capacity)
            self._table_data = self._table
            self._has_table = True
        self._results = [None]
        self._subjects = [b""]
        self._turn = 0
