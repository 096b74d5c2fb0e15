"""Subjects and payloads of any length are stored as they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.interface import StoreError
from midge.jetstream.store.memory_store import MemoryStore
from midge.jetstream.store.store import Store
from midge.testing.simulated_disk import SimulatedDisk
from tests.support.published_lines import store_lines


def file_store() -> Store:
    return StoreDirectory(SimulatedDisk(), lambda: None).create_stream(b"$G", b"S", b"{}")


STORES: list[Callable[[], Store]] = [MemoryStore, file_store]


@pytest.mark.parametrize("make", STORES, ids=["memory", "file"])
@pytest.mark.parametrize("is_one_by_one", [False, True], ids=["at once", "one by one"])
def test_messages_of_every_length(make: Callable[[], Store], is_one_by_one: bool) -> None:
    letters = bytes(range(65, 91)) * 3
    messages = [
        (letters[length % 7 :][: 1 + length], letters[:payload])
        for length in range(48)
        for payload in {0, 1, 7, length, 48 - length, 33}
    ] * 9
    store = make()
    for subject in sorted({subject for subject, _ in messages}):
        store.append(subject, b"", b"", 1)
    first = store.last_seq + 1
    done = 0
    while done < len(messages):
        taken = 0 if is_one_by_one else store_lines(store, messages[done : done + 500], 2)
        if taken == 0:
            subject, payload = messages[done]
            store.append(subject, b"", payload, 2)
            taken = 1
        done += taken
    found = []
    for seq in range(first, store.last_seq + 1):
        message = store.load(seq)
        assert message is not None
        found.append((message.subject, message.payload))
    assert found == messages


@pytest.mark.parametrize("length", [1, 7, 8, 9, 15, 16, 17, 23, 31, 32, 33, 47, 48, 65])
def test_a_blank_is_found_at_every_place_of_a_subject(length: int) -> None:
    store = MemoryStore()
    for place in range(length):
        for byte in b" \t\r\n":
            subject = bytearray(b"\x01" * place + b"x" * (length - place))
            subject[place] = byte
            with pytest.raises(StoreError, match="blank"):
                store.append(bytes(subject), b"", b"", 1)
    store.append(b"\x01" * length, b"", b"", 1)
    assert store.last_seq == 1
