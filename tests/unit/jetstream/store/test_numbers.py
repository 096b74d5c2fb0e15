"""The interpreted numbers, which look whether the bytes are there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from midge.jetstream.store import numbers

OUTSIDE = {
    "u16": lambda data: numbers.u16(data, 8),
    "u16 before": lambda data: numbers.u16(data, -1),
    "set_u16": lambda data: numbers.set_u16(data, 8, 1),
    "u32": lambda data: numbers.u32(data, 4),
    "set_u32": lambda data: numbers.set_u32(data, 4, 1),
    "u32_at": lambda data: numbers.u32_at(data, 13),
    "u32_at before": lambda data: numbers.u32_at(data, -4),
    "set_u32_at": lambda data: numbers.set_u32_at(data, 13, 1),
    "u64_at": lambda data: numbers.u64_at(data, 9),
    "set_u64_at": lambda data: numbers.set_u64_at(data, 9, 1),
    "put": lambda data: numbers.put(data, 15, b"abc", 1, 3),
    "take": lambda data: numbers.take(data, 9, 17),
    "move": lambda data: numbers.move(data, 9, 0, 8),
    "move from": lambda data: numbers.move(data, 0, 9, 17),
    "is_same": lambda data: numbers.is_same(data, 15, b"\0\0", 0, 2),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_bytes_outside_are_refused(name: str) -> None:
    access: Callable[[bytearray], object] = OUTSIDE[name]
    data = bytearray(16)
    with pytest.raises(IndexError, match=r"of 16$"):
        access(data)
    assert data == bytes(16)


def test_the_last_bytes_are_there() -> None:
    data = bytearray(16)
    numbers.set_u64_at(data, 8, 1 << 63)
    numbers.set_u16(data, 6, 7)
    assert (numbers.u64_at(data, 8), numbers.u32(data, 3)) == ((1 << 63) + (7 << 32), 0x80000007)
