"""midge-server, midge serve, check and convert: what they print and how they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from midge.server.process import commands, daemon
from midge.server.process.names import version_line

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {})


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collect the daemons that would run."""
    daemons: list[Any] = []

    def run(daemon_of: Any) -> int:
        daemons.append(daemon_of())
        return 7

    monkeypatch.setattr(daemon, "run", run)
    return daemons


@pytest.mark.parametrize("arguments", [["-v"], ["--version"], ["version"], ["-D", "version"]])
def test_version(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.midge_server(arguments) == 0
    assert capsys.readouterr() == (f"{version_line()}\n", "")


@pytest.mark.parametrize("arguments", [["-h"], ["--help"], ["help"], ["-v", "-h"], ["help", "x"]])
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.midge_server(arguments) == 0
    assert capsys.readouterr().out.startswith("\nUsage: midge-server [options]\n")


def test_help_tls(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.midge_server(["--help_tls"]) == 0
    assert "cert_file" in capsys.readouterr().out


def test_unknown_flag_is_usage_and_exit_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.midge_server(["-x"]) == 0
    out, err = capsys.readouterr()
    assert err == "flag provided but not defined: -x\n"
    assert out.startswith("\nUsage: midge-server [options]\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["foo"], 'unrecognized command: "foo"'),
        (["-t"], "must specify [-c, --config] option to check configuration file syntax"),
        (["-c", "/nonexistent"], "open /nonexistent: no such file or directory"),
        (["--tls"], "TLS Server certificate must be present and valid"),
        (["-p", "70000"], "listen.port: expected int from -1 to 65535, got 70000 (flag -p)"),
        (["-n", "a b"], "server_name: server name cannot contain spaces (flag -n)"),
        (["--signal", "stop=/nonexistent"], "invalid pid: /nonexistent"),
    ],
)
def test_refusals(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.midge_server(arguments) == 1
    assert capsys.readouterr() == ("", f"midge-server: {text}\n")


def test_a_valid_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.toml"
    file.write_text("[listen]\nport = 1\n")
    assert commands.midge_server(["-t", "-c", str(file)]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"midge-server: configuration file {file} is valid (sha256:")


def test_lines_and_flags_without_effect_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.conf"
    file.write_text("port: 5\nprof_port: 6\n")
    assert commands.midge_server(["-t", "--profile=1", "-c", str(file)]) == 0
    *notes, valid = capsys.readouterr().err.splitlines()
    assert notes == [
        f'midge-server: {file}:2:1: field "prof_port" has no effect: there is no profiler of Go',
        "midge-server: flag --profile has no effect: there is no profiler of Go",
    ]
    assert valid.startswith(f"midge-server: configuration file {file} is valid")


def test_an_empty_file_starts_and_fails_the_test_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], started: list[Any]
) -> None:
    for text in ("", "# nothing\n", "\n\n"):
        file = tmp_path / "a.conf"
        file.write_text(text)
        assert commands.midge_server(["-t", "-c", str(file)]) == 1
        expected = f"midge-server: {file}: config has no values or is empty\n"
        assert capsys.readouterr() == ("", expected)
        assert commands.midge_server(["-c", str(file)]) == 7
    assert len(started) == 3


def test_every_problem_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.toml"
    file.write_text("[listen]\nport = 'x'\nhots = 'y'\n")
    assert commands.midge_server(["-t", "-c", str(file)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"midge-server: listen.port: expected int from -1 to 65535, got 'x' ({file}:2)",
        f"midge-server: listen.hots: unknown key; did you mean 'host'? ({file}:3)",
    ]


def test_a_server_runs_with_nats_servers_log(started: list[Any]) -> None:
    assert commands.midge_server(["-p", "-1"]) == 7
    assert started[0]._log_form == "nats"


def test_midge_serve_runs_with_the_natural_log(started: list[Any]) -> None:
    assert commands.serve(["-p=-1"]) == 7
    assert started[0]._log_form == ""


def test_midge_serve_refuses_a_bad_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.serve(["-x"]) == 2
    expected = "midge serve: flag provided but not defined: -x (see midge serve -h)\n"
    assert capsys.readouterr() == ("", expected)


def test_check_prints_every_setting_with_its_origin(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.toml"
    file.write_text("[authorization]\nuser = 'u'\npassword = 'hunter2'\n")
    monkeypatch.setattr("os.environ", {"MIDGE_KEEPALIVE_PING_MAX": "9", "MIDGE_NONE": "1"})
    assert commands.check(["-c", str(file), "-p", "5"]) == 0
    out, err = capsys.readouterr()
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert "port = 5 # flag -p" in rows
    assert "ping_max = 9 # environment MIDGE_KEEPALIVE_PING_MAX" in rows
    assert f'password = "[REDACTED]" # {file}:3' in rows
    assert "max_connections = 65536 # default" in rows
    assert "hunter2" not in out
    assert err.startswith("# warning: MIDGE_NONE: no such setting")


def test_check_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.check(["-p", "x"]) == 2
    assert capsys.readouterr().err == 'midge check: invalid value "x" for flag -p: parse error\n'


def test_check_takes_its_file_first_or_as_a_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.conf"
    file.write_text("ping_max: 7\n")
    for arguments in ([str(file), "-p", "5"], ["-p", "5", "-c", str(file)]):
        assert commands.check(arguments) == 0
        rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        assert "port = 5 # flag -p" in rows
        assert f"ping_max = 7 # {file}:1:0" in rows


def test_check_shows_what_was_changed_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.conf"
    file.write_text("ping_max: 7\nport: 4222\n")
    for arguments in ([str(file), "--changed"], ["--changed", "-c", str(file)]):
        assert commands.check(arguments) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if line]
        assert [line.split()[:3] for line in lines] == [["[keepalive]"], ["ping_max", "=", "7"]]


def test_check_takes_no_other_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.check(["-p", "5", "a.toml"]) == 2
    expected = "midge check: unexpected 'a.toml'; the file comes before the flags\n"
    assert capsys.readouterr().err == expected


def test_check_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.check(["-h"]) == 0
    assert capsys.readouterr().out.startswith("usage: midge check [FILE]")


def test_convert_wants_one_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.convert([]) == 2
    assert commands.convert(["-h"]) == 0
    assert capsys.readouterr().out.startswith("usage: midge convert FILE.conf")


def test_convert_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.convert(["/nonexistent.conf"]) == 1
    expected = "midge convert: open /nonexistent.conf: no such file or directory\n"
    assert capsys.readouterr().err == expected
