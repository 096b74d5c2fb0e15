"""What two outcomes may differ in, and what they may not."""

from __future__ import annotations

import pytest

from .report import mismatch
from .runner import Received
from .script import Script, ServerConfig

NAMES = ("one", "other")
FIRST, SECOND, PONG = b"MSG a 1 0\r\n\r\n", b"MSG a 2 0\r\n\r\n", b"PONG\r\n"


def alike(script: Script, left: list[bytes], right: list[bytes]) -> bool:
    outcomes = [{"c": [Received(0, frame) for frame in frames]} for frames in (left, right)]
    return mismatch(script, outcomes[0], outcomes[1], NAMES, "whole") is None


@pytest.mark.parametrize("racy_end", [False, True])
def test_neighbouring_messages_of_unordered_scripts_may_change_places(racy_end: bool) -> None:
    script = Script("s", "why", (), ServerConfig("c"), unordered=True, racy_end=racy_end)
    assert alike(script, [FIRST, SECOND, PONG], [SECOND, FIRST, PONG])
    assert not alike(script, [FIRST, SECOND, PONG], [FIRST, PONG, SECOND])
    assert not alike(script, [FIRST, SECOND, PONG], [FIRST, PONG])


@pytest.mark.parametrize("racy_end", [False, True])
def test_other_scripts_compare_the_order(racy_end: bool) -> None:
    script = Script("s", "why", (), ServerConfig("c"), racy_end=racy_end)
    assert not alike(script, [FIRST, SECOND, PONG], [SECOND, FIRST, PONG])


def test_only_the_last_words_of_a_racy_end_are_left_out() -> None:
    script = Script("s", "why", (), ServerConfig("c"), unordered=True, racy_end=True)
    assert alike(script, [FIRST, b"-ERR 'x'\r\n"], [FIRST])
    assert not alike(script, [FIRST, PONG], [FIRST])
