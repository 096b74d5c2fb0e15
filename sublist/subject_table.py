"""Subjects and their numbers in one block of memory, found by the bytes of a subject in place.

A bucket of four numbers with a few bits of each subject's hash leads to the subject itself, which
lies in a cache line of its own: a look-up touches two lines, whatever the number of subjects. Most
of it has no branches, since a processor cannot foresee what depends on the subject at hand, and
each wrong guess costs as much as some 60 instructions.

This module is the interpreted twin of ``subject_table.pxd``, where the same functions are C. There
a table is memory that is not to be used otherwise, here a dictionary.
"""

NUMBERS_MAX = 4096

EXACT_MAX = 0
"""The longest subject of which `find` says for certain that its number is its own."""


def make(capacity: int) -> dict[bytes, int]:  # noqa: ARG001 - what the twin allocates
    """Make an empty table for numbers from 1 to below `capacity`, a power of two."""
    return {}


def empty(table: dict[bytes, int], capacity: int) -> None:  # noqa: ARG001 - as above
    """Forget all subjects."""
    table.clear()


def find(
    table: dict[bytes, int],
    capacity: int,  # noqa: ARG001 - as above
    data: bytearray | bytes,
    start: int,
    end: int,
) -> int:
    """Return the number of the subject in ``data[start:end]``, or 0.

    A number that was given to a subject of more than EXACT_MAX bytes may be another's.
    """
    return table.get(bytes(data[start:end]), 0)


def put(table: dict[bytes, int], capacity: int, subject: bytes, number: int) -> None:
    """Give `subject`, which is not in the table, a `number`, and take it from another."""
    if len(table) > capacity:
        table.clear()
    table[subject] = number
