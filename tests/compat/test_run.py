"""A suite runs against the server that is named; its outcomes are grouped, kept and reported."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import pytest

from tests.compat import run
from tests.compat.groups import group_of
from tests.compat.report import write_report
from tests.compat.run import Outcome, read_outcomes, run_suite, table

if TYPE_CHECKING:
    from pathlib import Path

SUITE = """
import subprocess

import pytest

def version():
    return subprocess.run(["nats-server", "--version"], capture_output=True, text=True).stdout

class TestWebSocket:
    def test_finds_the_server(self):
        assert version() == "it is me\\n"

class TestCore:
    def test_passes(self):
        pass

    def test_fails(self):
        assert version() == "another"

    @pytest.mark.skip(reason="not today")
    def test_is_skipped(self):
        pass

def test_cluster_of_three():
    raise ValueError("no | cluster `here`")
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A checkout of a client with one suite."""
    tests = tmp_path / "client/nats/tests"
    tests.mkdir(parents=True)
    (tests / "test_client.py").write_text(SUITE)
    return tmp_path / "client"


@pytest.fixture
def server(tmp_path: Path) -> list[str]:
    """The command of a server that prints its name."""
    script = tmp_path / "server.py"
    script.write_text("print('it is me')\n")
    return [sys.executable, str(script)]


@pytest.mark.slow
def test_outcomes_are_of_the_server_that_is_named(
    repository: Path, server: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "AGAIN_MAX", 1)
    found = {one.test: one for one in run_suite(repository, "nats.py", server)}
    assert {test: one.result for test, one in found.items()} == {
        "TestWebSocket.test_finds_the_server": "passed",
        "TestCore.test_passes": "passed",
        "TestCore.test_fails": "failed",
        "TestCore.test_is_skipped": "skipped",
        "test_client.test_cluster_of_three": "failed",
    }
    assert found["test_client.test_cluster_of_three"].group == "cluster"
    assert "it is me" in found["TestCore.test_fails"].reason


def test_a_suite_that_does_not_start_is_said(repository: Path, server: list[str]) -> None:
    (repository / "nats-server").mkdir()
    with pytest.raises(RuntimeError, match="nats-server: expected a report of its tests"):
        run_suite(repository, "nats-server", server, python="false")


@pytest.mark.slow
def test_a_test_that_runs_again_replaces_what_is_kept(
    repository: Path, server: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, page = tmp_path / "kept.json", tmp_path / "page.md"
    monkeypatch.setattr(run, "AGAIN_MAX", 0)
    running = ["--server", shlex.join(server), "--suite", "nats.py"]
    report = ["--report-only", "--report", str(page)]
    for more in (running, [*running, "--select", "test_passes"], report):
        monkeypatch.setattr(sys, "argv", ["run", str(repository), "--keep", str(kept), *more])
        assert run.main() == 0
    (outcomes,) = read_outcomes(kept).values()
    assert len(outcomes) == 5
    assert "## nats.py" in page.read_text()


@pytest.mark.parametrize(
    ("suite", "file", "class_name", "test", "group"),
    [
        ("nats.py", "test_client", "ClientTLSTest", "test_connect", "tls"),
        ("nats.py", "test_js", "PullSubscribeTest", "test_fetch", "jetstream"),
        ("nats.py", "test_js", "ObjectStoreTest", "test_object_basics", "object store"),
        ("nats-core", "test_client", "", "test_connect_with_nkey", "nkeys"),
        ("nats-core", "test_client", "", "test_publish", "core"),
        ("nats.py", "test_client", "ClientTest", "test_token", "core"),
        ("nats-jetstream", "test_message", "", "test_ack", "jetstream"),
        ("nats-jetstream", "test_api", "", "test_check_response", "no server needed"),
        ("nats-key-value", "test_kv", "", "test_cluster", "key-value"),
        ("nats-server", "test_server", "", "test_run_cluster_with_jetstream", "cluster"),
    ],
)
def test_groups(suite: str, file: str, class_name: str, test: str, group: str) -> None:
    assert group_of(suite, file, class_name, test) == group


def outcome(group: str, test: str, result: str, reason: str = "") -> Outcome:
    return Outcome("nats.py", group, test, result, reason)


def test_the_page_says_what_only_one_server_passes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    real = [outcome("core", "a", "passed"), outcome("cluster", "b", "passed")]
    ours = [outcome("core", "a", "failed", "a | b `c`"), outcome("cluster", "b", "failed", "x")]
    write_report(page, tmp_path, {"nats-server: v2": real, "midge-server: v1": ours})
    text = page.read_text()
    assert "- nats.py, core: `a`" in text
    assert "| core | 1 of 1 | 0 of 1 |" in text
    assert "| nats.py | `a` | `a / b 'c'` |" in text
    assert "- nats.py, cluster: `b`" in text
    assert "| cluster | 1 of 1 | 0 of 1 |" in text
    write_report(page, tmp_path, {"nats-server: v2": real, "midge-server: v1": real})
    assert (
        "Nothing that passes with nats-server: v2 fails with midge-server: v1" in page.read_text()
    )
    three = {"nats-server: v2": real, "midge-server: v1": real, "interpreted": ours[1:]}
    write_report(page, tmp_path, three)
    text = page.read_text()
    assert "| core | 1 of 1 | 1 of 1 |  |" in text
    assert "What passes with nats-server: v2 and not with interpreted:" in text
    assert "- nats.py, core: `a`" not in text


def test_the_table_counts_by_suite_and_group() -> None:
    outcomes = [outcome("core", "a", "passed"), outcome("core", "b", "skipped")]
    assert table(outcomes).splitlines()[1].split() == ["nats.py", "core", "1", "2", "1"]
