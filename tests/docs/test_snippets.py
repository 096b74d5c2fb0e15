"""The runner of the documentation's snippets, on toy pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.snippets import Page, SnippetError, commands, output_matches, parse


@pytest.fixture
def page(tmp_path: Path, root: Path) -> Page:
    return Page("toy.md", tmp_path, tmp_path, root)


def fenced(info: str, body: str) -> str:
    return f"```{info}\n{body}\n```\n"


def test_blocks_are_found_with_language_file_and_line() -> None:
    toml, console = fenced("toml midge.toml", "a = 1"), fenced("console", "$ x")
    text = f"# Title\n\n{toml}\n<!-- no-run: docker -->\n{console}"
    first, second = parse(text)
    assert (first.language, first.filename, first.line, first.no_run) == (
        "toml",
        "midge.toml",
        3,
        None,
    )
    assert first.body == "a = 1\n"
    assert (second.language, second.line) == ("console", 8)
    assert (second.no_run or "").strip() == "docker"


def test_block_in_a_list_loses_its_indentation() -> None:
    (block,) = parse("1. do\n\n   ```console\n   $ echo\n   ```\n")
    assert block.body == "$ echo\n"


def test_console_is_split_into_commands_and_output() -> None:
    body = "# comment\n$ echo a \\\n>   b\na b\n$ true\n"
    assert commands(body) == [("echo a   b", "a b\n"), ("true", "")]


@pytest.mark.parametrize(
    ("expected", "actual", "matches"),
    [
        ("a\nb", "a\nb\n", True),
        ("a\n...\nd", "a\nb\nc\nd\n", True),
        ("took ... ms", "took 12 ms", True),
        ("a", "a\nb", False),
        ("a+", "aa", False),
    ],
)
def test_output_is_compared_with_ellipsis(expected: str, actual: str, matches: bool) -> None:
    assert output_matches(expected, actual) is matches


def test_page_runs_in_order_in_one_folder(page: Page) -> None:
    text = (
        fenced("python hello.py", "print('hello')")
        + fenced("console", "$ python hello.py\nhello\n$ make test")
        + fenced("python", "import pathlib; print(pathlib.Path('hello.py').exists())")
        + fenced("text", "True")
        + fenced("toml", "a = 1")
    )
    assert page.run(text) == 4


def test_default_ports_stand_for_free_ones(page: Page) -> None:
    page.run(fenced("python", "print('nats://127.0.0.1:4222')") + fenced("text", "nats://...:4222"))
    assert str(page.ports["4222"]) in (page.folder / "line_1.py").read_text()


def test_background_command_ends_with_the_page(page: Page) -> None:
    waits = "$ until test -s out; do sleep 0.01; done"
    page.run(
        fenced("console", f"$ sh -c 'echo up > out; exec sleep 1000' &\n{waits}\n$ cat out\nup")
    )
    assert (page.folder / "out").read_text() == "up\n"
    assert not page._background


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (fenced("python", "1 / 0"), "toy.md:1: .*ZeroDivisionError"),
        (fenced("python", "print(1)") + fenced("text", "2"), "shown:\n2\n\nprinted:\n1"),
        (fenced("console", "$ false"), "gave 1"),
        (fenced("console", "$ echo a\nb"), "printed:\na"),
        (fenced("console", "$ make no-such-target"), "no-such-target"),
        (fenced("toml", "a = "), "toy.md:1"),
        (fenced("json", "{"), "toy.md:1"),
        (fenced("shell", "rm"), "unknown block language 'shell'"),
        ("<!-- no-run: -->\n" + fenced("console", "$ docker"), "no reason"),
    ],
)
def test_what_does_not_hold_is_named_with_its_line(page: Page, text: str, complaint: str) -> None:
    with pytest.raises(SnippetError, match=f"(?s){complaint}"):
        page.run(text)


def test_marked_block_does_not_run(page: Page) -> None:
    assert page.run("<!-- no-run: needs docker -->\n" + fenced("console", "$ false")) == 0
