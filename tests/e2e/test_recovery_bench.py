"""The bench of restarts, with small stores: filled, killed and started on both servers."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

import pytest

from bench import recovery
from tests.support.processes import midge_command, nats_server_command

SUBJECTS, KEYS, STREAMS, _ = recovery.CASES
SMALL = (
    dataclasses.replace(SUBJECTS, messages=6_000, subjects=20),
    dataclasses.replace(KEYS, messages=3_000, subjects=3_000),
    dataclasses.replace(STREAMS, messages=12, subjects=4, streams=4),
)


def test_every_case_is_measured_on_both_servers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recovery, "CASES", SMALL)
    monkeypatch.setattr(recovery.restart, "SETTLE_S", 0.01)
    page = tmp_path / "page.md"
    commands = [shlex.join(command) for command in (midge_command(), nats_server_command())]
    words = [*commands, "--rounds", "1", "--starts", "1", "--markdown", str(page)]
    assert recovery.main(words) == 0
    text = page.read_text()
    assert capsys.readouterr().out in text
    assert text.count("| start, files in the page cache |") == len(SMALL)
    assert text.count("| start after a clean stop |") == len(SMALL)
    assert text.count("| consumer of the last of each made |") == 1
    assert len(re.findall(r"\| checkpoints newer than half \| 0 \| \d+ \|", text)) == len(SMALL)
