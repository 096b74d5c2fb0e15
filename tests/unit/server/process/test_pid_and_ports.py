"""Pid file and ports file."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from midge.server.process.pid_and_ports import PortsFile, write_pid_file

if TYPE_CHECKING:
    from pathlib import Path


def test_pid_file_has_no_line_end(tmp_path: Path) -> None:
    file = tmp_path / "midge.pid"
    write_pid_file(str(file))
    assert file.read_text() == str(os.getpid())


def test_ports_file_appears_whole_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/midge-server"])
    ports = PortsFile(str(tmp_path))
    ports.write({"nats": ["nats://127.0.0.1:1"], "monitoring": []})
    (file,) = tmp_path.iterdir()
    assert file.name == f"midge-server_{os.getpid()}.ports"
    assert json.loads(file.read_text()) == {"nats": ["nats://127.0.0.1:1"]}
    ports.remove()
    ports.remove()
    assert list(tmp_path.iterdir()) == []


def test_missing_directory_is_the_callers_to_handle(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        PortsFile(str(tmp_path / "none")).write({"nats": ["x"]})
