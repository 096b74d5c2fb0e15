"""The `midge` command: dispatch, help, and packages that are not installed."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import midge
from midge import cli


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out for name in cli.COMMANDS)


def test_nothing_is_help_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert capsys.readouterr().out.startswith("usage: midge COMMAND")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"midge {midge.__version__}\n"


def test_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sevre"]) == 2
    assert capsys.readouterr().err == "midge: no such command 'sevre'; did you mean 'serve'?\n"
    assert cli.main(["xyz"]) == 2
    assert capsys.readouterr().err == "midge: no such command 'xyz' (see midge --help)\n"


def test_a_module_with_a_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = types.ModuleType("pretended", "Do as told.")
    seen = []
    module.add_arguments = lambda parser: parser.add_argument("--n", type=int)
    module.run = lambda arguments: seen.append(arguments.n) or 3
    monkeypatch.setitem(sys.modules, "pretended", module)
    monkeypatch.setitem(cli.COMMANDS, "pretend", cli.Command("pretended", "x"))
    assert cli.main(["pretend", "--n", "5"]) == 3
    assert seen == [5]


def test_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = types.ModuleType("pretended")
    module.act = len
    monkeypatch.setitem(sys.modules, "pretended", module)
    monkeypatch.setitem(cli.COMMANDS, "pretend", cli.Command("pretended:act", "x"))
    assert cli.main(["pretend", "a", "b"]) == 2


def test_a_missing_package_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = cli.Command("no_such_module_at_all", "x", "pipeline")
    monkeypatch.setitem(cli.COMMANDS, "pretend", command)
    assert cli.main(["pretend"]) == 1
    module = "no_such_module_at_all"
    told = capsys.readouterr().err
    assert told.startswith(f"midge pretend: needs the module '{module}'; python -m pip install '")
    assert "'pyspark" in told
    assert told.count("\n") == 1


def test_a_reader_that_has_had_enough_is_no_traceback(tmp_path: Path) -> None:
    """What `| head -1` does, whether the text comes from a command or from its help."""
    module = tmp_path / "chatty.py"
    module.write_text(
        "def talk(arguments):\n"
        "    for i in range(100_000):\n        print('line', i)\n"
        "    return 0\n"
    )
    for words in (["chatty"], ["--help"], ["serve", "-h"], ["replay", "--help"]):
        code = (
            "import sys; from midge import cli;"
            "cli.COMMANDS['chatty'] = cli.Command('chatty:talk', 'x');"
            f"sys.exit(cli.main({words!r}))"
        )
        done = subprocess.run(
            ["/bin/sh", "-c", '"$0" -c "$1" 2>err | (exec true); cat err', sys.executable, code],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": f"{tmp_path}:{Path(cli.__file__).parent.parent}"},
            capture_output=True,
            text=True,
            timeout=50,
            check=True,
        )
        assert done.stdout == ""


@pytest.mark.parametrize(
    "words",
    [
        ["record"],
        ["replay"],
        ["pipeline"],
        *(["pipeline", name] for name in ("run", "stream", "match", "plan", "report", "demo")),
    ],
)
def test_help_needs_nothing_installed(words: list[str]) -> None:
    code = (
        "import sys\n"
        "for name in ('pyarrow', 'pyspark', 'pandas', 'numpy', 'plotly', 'deltalake', 'py4j'):\n"
        "    sys.modules[name] = None\n"
        f"from midge.cli import main\nsys.exit(main({[*words, '--help']!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: midge {words[0]}")


def test_an_interrupt_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_arguments: list[str]) -> int:
        raise KeyboardInterrupt

    module: Any = types.ModuleType("pretended")
    module.act = interrupt
    monkeypatch.setitem(sys.modules, "pretended", module)
    monkeypatch.setitem(cli.COMMANDS, "pretend", cli.Command("pretended:act", "x"))
    assert cli.main(["pretend"]) == 130


def test_nothing_of_ours_is_imported_before_a_command_is_known() -> None:
    tree = ast.parse(Path(cli.__file__).read_text(encoding="utf-8"))
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any(name.startswith("midge.") for name in names | {m or "" for m in modules})


def test_recording_and_replaying_need_no_spark() -> None:
    """What the extra `recorder` brings is enough for them."""
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import midge.pipeline.commands.record, midge.pipeline.commands.replay"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
