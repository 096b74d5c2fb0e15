"""The garbage collector of a server process: circles go, pauses stay short."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from midge.server.process import gc_pauses as garbage


class Circle:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def shortened() -> Iterator[None]:
    threshold = gc.get_threshold()
    garbage.shorten_pauses()
    yield
    gc.callbacks.remove(garbage._bound_full_collection)
    gc.set_threshold(*threshold)
    gc.unfreeze()


@pytest.mark.usefixtures("shortened")
class TestCollections:
    def test_a_full_one_takes_all_circles_while_there_is_little(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(garbage, "FULL_MAX_BLOCKS", 1 << 40)
        gone = weakref.ref(Circle())
        gc.freeze()
        gc.collect()
        assert gone() is None

    def test_a_full_one_looks_at_nothing_old_when_there_is_much(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(garbage, "FULL_MAX_BLOCKS", 0)
        gone = weakref.ref(Circle())
        gc.collect()
        assert gone() is not None
        assert gc.get_freeze_count() > 0

    def test_young_circles_go_however_much_there_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(garbage, "FULL_MAX_BLOCKS", 0)
        gone = weakref.ref(Circle())
        gc.collect(1)
        assert gone() is None

    def test_asking_again_changes_nothing(self) -> None:
        garbage.shorten_pauses()
        assert gc.callbacks.count(garbage._bound_full_collection) == 1
