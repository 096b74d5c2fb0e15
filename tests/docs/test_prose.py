"""The search for sentences that need a second reading, over planted ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.docs import prose
from tests.docs.prose import Place, main, places

NOUN, ACTOR, IMPERATIVE, SEND, REPEAT, BESIDE, PLAIN = prose.SHAPES


@pytest.mark.parametrize(
    ("sentence", "words", "cure"),
    [
        ("Write what is left.", "what is", NOUN),
        ("Keep whatever comes.", "whatever comes", NOUN),
        ("Close who reads slowly.", "who", ACTOR),
        ("A subject that nobody uses.", "nobody", ACTOR),
        ("Tell whether it is open.", "Tell", SEND),
        ("Let the caller wait.", '"""Let', IMPERATIVE),
        ("Take note of an ack.", '"""Take note', IMPERATIVE),
        ("The client is told.", "told", SEND),
        ("Add its size to that of the page.", "that of the", REPEAT),
        ("Messages remain which wait, which had to.", ", which had to", BESIDE),
        ("Close the file, if any.", ", if any.", BESIDE),
        ("Count it anew.", "anew", PLAIN),
    ],
)
def test_a_shape_is_found_in_a_docstring(sentence: str, words: str, cure: str) -> None:
    source = f'X = 1\n\n\ndef f():\n    """{sentence}"""\n'
    assert places("a.py", source) == [Place(5, words, cure)]


@pytest.mark.parametrize(
    "sentence",
    [
        "Return whether the file is open.",
        "Users who connect get a name.",
        "What is a stream? A list of messages.",
        "Return the text of `what is` and of `who`.",
        "Close the file, too many of which are open.",
    ],
)
def test_plain_sentences_pass(sentence: str) -> None:
    assert places("a.py", f'"""{sentence}"""\n') == []


def test_comments_and_line_ends_are_searched_and_strings_are_not() -> None:
    source = 'class A:\n    """It writes what\n    is left."""\n\n    X = "who"  # that of a page\n'
    found = [Place(2, "what is", NOUN), Place(5, "that of a", REPEAT)]
    assert places("a.py", source) == found


def test_pages_and_declarations_are_searched_without_fenced_code() -> None:
    page = "# A\n\n```\nwho\nwhat is\n```\n\nIt counts anew.\n"
    assert places("a.md", page) == [Place(8, "anew", PLAIN)]
    assert places("a.pxd", "cdef int x  # is told\n") == [Place(1, "told", SEND)]


def test_a_folder_above_its_limit_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prose, "LIMITS", {"a": 1, ".": 0})
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.py").write_text("# what is\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    assert main(tmp_path, lists_all=False) == 0
    assert capsys.readouterr().out == ""
    (tmp_path / "a" / "b.py").write_text("# what is\n# who\n")
    assert main(tmp_path, lists_all=False) == 1
    report = f"a/b.py:1: 'what is': {NOUN}\na/b.py:2: 'who': {ACTOR}\n"
    assert capsys.readouterr().out == report + "a: 2 places, at most 1 allowed\n"
