"""The bench of bystanders, with little work, on both servers."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

import pytest

from bench import bystanders
from bench.jetstream import bystanders as cases
from tests.support.processes import midge_command, nats_server_command


def test_cases_are_measured_on_both_servers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = [
        dataclasses.replace(
            case, settings={"max_age": 200_000_000} if case.name == "expired" else {}
        )
        for case in bystanders.CASES
        if case.name in {"flooded", "purged", "expired", "snapshotted"}
    ]
    monkeypatch.setattr(bystanders, "CASES", small)
    monkeypatch.setattr(cases, "MILLION", 4_000)
    monkeypatch.setattr(cases, "_WARM_UP_S", 0.1)
    page = tmp_path / "page.md"
    commands = [shlex.join(command) for command in (midge_command(), nats_server_command())]
    assert bystanders.main([*commands, "--seconds", "0.3", "--markdown", str(page)]) == 0
    text = page.read_text()
    assert capsys.readouterr().out in text
    assert len(re.findall(r"\| done \| [\d,]+ \| [\d,]+ \|", text)) == len(small)
    assert text.count("elsewhere, p99.9") == len(small)
