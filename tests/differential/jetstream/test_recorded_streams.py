"""Streams answer byte by byte what nats-server answered, times and names aside."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.jetstream_account import REPLY, AccountRig

SCRIPTS = Path(__file__).parent / "streams"
SHOWN = 5

TIME = re.compile(rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
API_COUNTERS = re.compile(rb'"api":\{[^}]*\}')


def masked(raw: bytes) -> str:
    """Return the messages without the values that always differ."""
    return API_COUNTERS.sub(b'"api":{}', TIME.sub(b"T", raw)).decode()


def answers_to(rig: AccountRig, step: list[Any]) -> list[list[str]]:
    subject, body, headers, reply, _ = step
    block = headers.encode() if headers is not None else None
    to = REPLY if reply == "r" else reply
    sent = rig.exchange(subject, body.encode(), block, to)
    return [[masked(block), masked(payload)] for _, block, payload in sent]


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_streams_answer_as_nats_server_did(path: Path) -> None:
    rig = AccountRig()
    differences = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        step = json.loads(line)
        found = answers_to(rig, step)
        if found != step[4]:
            differences.append((number, step[:4], {"recorded": step[4], "found": found}))
        rig.clock.advance(0.001)
    assert differences[:SHOWN] == []
