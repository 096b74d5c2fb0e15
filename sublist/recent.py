"""The results of recently published subjects, found by the subject's bytes in place.

A publisher's subject is in a read buffer. A dictionary look-up needs a bytes object and Python's
hash of it; a look-up here needs neither. One table serves all publishers of a SubList, because one
thread routes their messages.
"""

from midge.sublist import subject_table
from midge.sublist.result import SubListResult

# Tables start small (4.6 KB), because there may be thousands of accounts. With 600 subjects in
# rotation, look-ups read from 38 KB of subjects and 8 KB of buckets. With one object per subject,
# waiting for memory took two thirds of a look-up, and look-ups a seventh of the time of a message.
_CAPACITY_MIN = 64
_CAPACITY_MAX = subject_table.NUMBERS_MAX
_GROWTH = 4

_NO_GENERATION = 2**64 - 1  # no SubList reaches this generation


class RecentMatches:
    """The latest subjects and their results, all of one generation of the SubList.

    A full table grows and drops its contents, which return on their next use; a table of the
    largest size replaces its oldest entries. While `generation` equals the SubList's, a publisher
    may look its subject up in `table`, of `capacity`, without calling `find`, and then adds to
    `hits`.
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
        # Results and subjects by number, because the table does not own them; number 0 is unused.
        self._results: list[SubListResult | None] = []
        self._subjects: list[bytes] = []
        self._has_table = False  # the first `keep` makes the table
        self._memory = subject_table.make(0)
        self.table = self._memory
        self._turn = 0  # the last number given to a subject

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
        """Drop all results: they are outdated, and they keep closed clients in memory."""
        if self._results:
            self.generation = _NO_GENERATION
            subject_table.empty(self.table, self.capacity)
            self._results = []
            self._subjects = []

    def _begin(self) -> None:
        """Make the table for the first subject."""
        if not self._has_table:
            self._memory = subject_table.make(self.capacity)
            self.table = self._memory
            self._has_table = True
        self._results = [None]
        self._subjects = [b""]
        self._turn = 0
