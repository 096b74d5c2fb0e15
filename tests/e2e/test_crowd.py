"""Many connections at once: all are listed, in pages that stay bounded, and all go again."""

from __future__ import annotations

import re
import shlex

import pytest

from bench import crowd
from tests.support.processes import midge_command, nats_server_command


@pytest.mark.parametrize("command", [midge_command(), nats_server_command()], ids=["midge", "real"])
def test_a_crowd_comes_is_listed_and_goes(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert crowd.main([shlex.join(command), "--count", "1200"]) == 0
    text = capsys.readouterr().out
    assert "1,200 connections" in text
    pages = re.findall(r"(/connz\S*): ([\d,]+) entries", text)
    assert pages == [
        ("/connz", "1,024"),
        ("/connz?limit=1000000", "1,201"),
        ("/connz?limit=1000000&subs=detail&auth=1&sort=msgs_to", "1,201"),
        ("/connz?offset=1101&limit=100", "100"),
    ]
    assert "all left at once: 1 remain" in text


def test_what_is_no_server_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert crowd.main(["false", "--count", "10"]) == 1
    assert "bench.crowd: " in capsys.readouterr().err
