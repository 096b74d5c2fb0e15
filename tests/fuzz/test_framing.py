"""What clients send through TLS and WebSockets: however it is cut, and however it is damaged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from midge.server.channels.loop_adapter import _BufferedProtocol
from midge.server.config.options import Options, WebSocket
from midge.server.listeners.websocket.messages import WaitingFrames
from midge.server.listeners.websocket.protocol import FrameProtocol
from tests.fuzz.framing import FRAMINGS
from tests.fuzz.test_core import FUZZ, GUARDED, LIMITS, READ_BYTES, TIGHT, _quiet, at_random, whole
from tests.fuzz.traffic import Script, scripts
from tests.fuzz.world import World

__all__ = ["_quiet"]

FRAMED = settings(FUZZ, max_examples=settings().max_examples // 3)
"""A TLS handshake takes 2 ms, so there are fewer scripts."""

DEFLATING = WebSocket(compression=True)
OPEN = Options(limits=LIMITS, websocket=DEFLATING)
PRESSED = Options(limits=TIGHT, websocket=DEFLATING)
OPTIONS = {"open": OPEN, "guarded": GUARDED, "pressed": PRESSED}

Strategies = dict[str, st.SearchStrategy[Any]]
Fault = Callable[[pytest.MonkeyPatch], None]

SPLIT: Strategies = {
    "script": scripts(with_pressure=False),
    "options": st.sampled_from(["open", "open", "guarded"]),
    "framing": st.sampled_from(FRAMINGS),
    "read_bytes": READ_BYTES,
    "is_coalescing": st.booleans(),
    "seed": st.integers(0, 1000),
}
DAMAGED: Strategies = {
    "script": scripts(with_pressure=True, with_damage=True),
    "options": st.sampled_from(sorted(OPTIONS)),
    "framing": st.sampled_from(FRAMINGS),
    "read_bytes": READ_BYTES,
    "seed": st.integers(0, 1000),
}


def play_split(
    script: Script, options: str, seed: int, *, is_coalescing: bool, **world: Any
) -> None:
    expected = World(OPTIONS[options], **world).play(script, whole)
    for is_observed in (True, False):
        again = World(
            OPTIONS[options], is_observed=is_observed, is_coalescing=is_coalescing, **world
        )
        assert again.play(script, at_random(seed)) == expected


def play_damaged(script: Script, options: str, seed: int, **world: Any) -> None:
    for is_observed in (True, False):
        World(OPTIONS[options], is_observed=is_observed, **world).play(script, at_random(seed))


@FRAMED
@given(**SPLIT)
def test_no_split_of_a_framing_changes_what_anybody_is_sent(**drawn: Any) -> None:
    play_split(**drawn)


@FRAMED
@given(**DAMAGED)
def test_a_damaged_framing_harms_nobody_else(**drawn: Any) -> None:
    play_damaged(**drawn)


def forgets_a_reset_websocket(patch: pytest.MonkeyPatch) -> None:
    lost = FrameProtocol.connection_lost

    def unless_reset(self: FrameProtocol, exc: Exception | None) -> None:
        if exc is None:
            lost(self, exc)

    patch.setattr(FrameProtocol, "connection_lost", unless_reset)


def forgets_a_reset_of_tls(patch: pytest.MonkeyPatch) -> None:
    lost = _BufferedProtocol.connection_lost

    def unless_reset(self: _BufferedProtocol, exc: Exception | None) -> None:
        if exc is None:
            lost(self, exc)

    patch.setattr(_BufferedProtocol, "connection_lost", unless_reset)


def loses_a_frame_behind_another(patch: pytest.MonkeyPatch) -> None:
    def drop_first(self: WaitingFrames) -> None:
        self._frames.popleft()
        self._source = memoryview(b"")

    patch.setattr(WaitingFrames, "drop_first", drop_first)


def raises_what_the_frames_say(patch: pytest.MonkeyPatch) -> None:
    def failing(self: FrameProtocol, error: Exception, connection: object) -> None:
        raise error

    patch.setattr(FrameProtocol, "_fail", failing)


@pytest.mark.parametrize(
    ("fault", "play", "strategies"),
    [
        (forgets_a_reset_websocket, play_damaged, DAMAGED),
        (forgets_a_reset_of_tls, play_damaged, DAMAGED),
        (loses_a_frame_behind_another, play_split, SPLIT),
        (raises_what_the_frames_say, play_damaged, DAMAGED),
    ],
)
def test_a_planted_fault_is_found(
    monkeypatch: pytest.MonkeyPatch,
    fault: Fault,
    play: Callable[..., None],
    strategies: Strategies,
) -> None:
    fault(monkeypatch)
    once = settings(
        FRAMED, max_examples=300, derandomize=True, database=None, phases=[Phase.generate]
    )

    def drawn(**drawn: Any) -> None:
        play(**drawn)

    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever it breaks
        once(given(**strategies)(drawn))()
