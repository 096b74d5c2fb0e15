"""Subjects and their results in one block of memory, found by the bytes of a subject in place.

A bucket has four numbers of subjects, with a few bits of each subject's hash. A number leads to a
cache line with the subject and its result, so a look-up touches two cache lines, whatever the
number of subjects. Most of a look-up has no branches: a processor cannot predict a branch that
depends on the subject, and each wrong prediction costs as much as some 60 instructions.

This module is the interpreted twin of ``subject_table.pxd``, which has the same functions in C.
There a table is opaque memory, here it is a dictionary.
"""

from midge.sublist.result import SubListResult

NUMBERS_MAX = 4096


def make(capacity: int) -> dict[bytes, SubListResult]:  # noqa: ARG001 - the twin allocates by it
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
    """Store `subject`, which is not in the table, with its `number` and `result`.

    The subject that had the number before is dropped. The table owns no references: the caller
    keeps `subject` and `result` until it gives their number to another subject or empties the
    table.
    """
    if len(table) > capacity:
        table.clear()
    table[subject] = result
