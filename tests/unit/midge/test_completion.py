"""Completion and the man page know every verb and flag, and shells take them."""

from __future__ import annotations

import argparse
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from midge import cli, completion

SHELLS = [shell for shell in ("bash", "zsh", "fish") if shutil.which(shell)]


def parsers(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Yield all parsers below `parser` with their words."""
    yield path, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, one in action.choices.items():
                yield from parsers(one, (*path, name))


def completed(words: str, folder: Path) -> set[str]:
    """Return what bash completes the last word of a command line to."""
    script = folder / "midge.bash"
    script.write_text(completion.text_of("bash"))
    code = 'source "$0"; COMP_WORDS=($1); [[ $1 == *" " ]] && COMP_WORDS+=("")'
    code += '; COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _shtab_midge; echo "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", code, str(script), words], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completes_commands_verbs_and_flags(tmp_path: Path) -> None:
    assert set(cli.COMMANDS) <= completed("midge ", tmp_path)
    assert completed("midge stream re", tmp_path) == {"report", "restore"}
    assert completed("midge kv ls --ti", tmp_path) == {"--timeout"}
    assert completed("midge serve --ports", tmp_path) == {"--ports_file_dir"}
    assert completed("midge consumer next S C --answer n", tmp_path) == {"nak", "none"}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_takes_its_completion(shell: str, tmp_path: Path) -> None:
    script = tmp_path / shell
    script.write_text(completion.text_of(shell))
    done = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("form", ["zsh", "fish", "man"])
def test_every_verb_and_flag_is_named(form: str) -> None:
    text = completion.text_of(form).replace("\\-", "-")
    found = list(parsers(completion.full_parser()))
    assert len(found) > 60
    for path, parser in found:
        for action in parser._actions:
            names = [one.lstrip("-") for one in action.option_strings] or path[-1:]
            assert all(name in text for name in names), (path, names)


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "bash"]) == 0
    assert capsys.readouterr().out == completion.text_of("bash")
    assert cli.main(["completion", "csh"]) == 2
