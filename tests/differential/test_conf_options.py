"""Random configuration files: both servers take them, or both refuse them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.differential import conf_options

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

FILES = 250
FULL_FILES = 2000


def test_both_servers_judge_random_files_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    count = FULL_FILES if request.config.getoption("--full") else FILES
    found = conf_options.compare(count, 5, tmp_path, conf_options.make_certificates(tmp_path))
    assert not found.differences, "\n\n".join(found.differences)
    taken = found.counts["nats-server accepts, midge accepts"]
    assert taken > count // 4
    assert len(found.exceptions) <= count // 40
