"""Subjects and their results in one block of memory, found by the bytes of a subject in place.

A bucket of four numbers with a few bits of each subject's hash leads to the subject itself, which
lies in a cache line of its own, its result beside it: a look-up touches two lines, whatever the
number of subjects. Most of it has no branches, since a processor cannot foresee what depends on the
subject at hand, and each wrong guess costs as much as some 60 instructions.

This module is the interpreted twin of ``subject_table.pxd``, where the same functions are C. There
a table is memory that is not to be used otherwise, here a dictionary.
"""

from midge.sublist.result import SubListResult

NUMBERS_MAX = 4096


def make(capacity: int) -> dict[bytes, SubListResult]:  # noqa: ARG001 - what the twin allocates
    """Make an empty table for numbers from 1 to below `capacity`, a power of two."""
    return {}


def empty(table: dict[bytes, SubListResult], capacity: int) -> None:  # noqa: ARG001 - as above
    """Forget all subjects."""
    table.clear()


def find(
    table: dict[bytes, SubListResult],
    capacity: int,  # noqa: ARG001 - as above
    data: bytearray | bytes,
    start: int,
    end: int,
) -> SubListResult | None:
    """Return the result of the subject in ``data[start:end]``; None if the table has none."""
    return table.get(bytes(data[start:end]))


def put(
    table: dict[bytes, SubListResult],
    capacity: int,
    subject: bytes,
    result: SubListResult,
    number: int,  # noqa: ARG001 - as above
) -> None:
    """Give `subject`, which is not in the table, a `number` and a `result`.

    What had the number before is forgotten. The table does not own what it refers to: the caller
    keeps `subject` and `result` until it gives their number to others, or empties the table.
    """
    if len(table) > capacity:
        table.clear()
    table[subject] = result
