"""Any configuration file is either read or refused with an error."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from midge.server import preflight as config
from midge.server.config.from_toml import KeyLines
from midge.server.config.nats_conf.errors import ConfError
from midge.server.config.nats_conf.lexer import Lexer, TokenKind
from midge.server.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

PIECES = st.sampled_from(
    [
        *("port", "authorization", "users", "include", "$a", "a", "tls", "accounts", "mappings"),
        *("{", "}", "[", "]", "(", ")", ":", "=", ",", ";", "\n", " ", "\t", "\r\n", "#", "//"),
        *(
            '"',
            "'",
            "\\",
            "\\x41",
            "-",
            ".",
            "5",
            "4222",
            "1kb",
            "1.5",
            "true",
            "\0",
            "ü",
            "é\u2028",
        ),
    ]
)
NATS_TEXTS = st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=40)
WITHIN_REASON = settings(
    max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@given(NATS_TEXTS)
@WITHIN_REASON
def test_tokens_are_balanced_or_refused(text: str) -> None:
    depth = 0
    try:
        for token in Lexer(text, "x.conf").tokens():
            depth += token.kind in (TokenKind.MAP_START, TokenKind.ARRAY_START)
            depth -= token.kind in (TokenKind.MAP_END, TokenKind.ARRAY_END)
            assert depth >= 0
            assert 1 <= token.line <= text.count("\n") + 1
            assert token.column >= 0
    except ConfError as error:
        assert "\n" not in str(error)  # noqa: PT017 - refusing is as good as reading
    else:
        assert depth == 0


@given(NATS_TEXTS)
@WITHIN_REASON
def test_nats_servers_files_are_read_or_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.conf"
    file.write_text(text, encoding="utf-8", newline="")
    try:
        config.load(file)
    except ConfigError as error:
        assert str(error)  # noqa: PT017 - refusing is as good as reading


KEYS = st.sampled_from(["a", "b", '"c d"', "'e.f'", "g-h"])
VALUES = st.sampled_from(
    ["1", '"x # y"', "'''\n[z]\n'''", '"""\n= " \\""" """', "[1, # ]\n 2]", "{ q = ']' }", "1.5"]
)
TOML_LINES = st.builds("{} = {}".format, KEYS, VALUES) | st.builds("[{}.{}]".format, KEYS, KEYS)
TOML_LINES |= st.builds("[[{}.{}]]".format, KEYS, KEYS) | st.sampled_from(["", "# [x]", "  "])


@given(st.lists(TOML_LINES, max_size=12).map("\n".join))
@WITHIN_REASON
def test_every_key_of_a_toml_text_has_its_line(text: str) -> None:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    lines = KeyLines(text)
    rows = text.split("\n")
    for name, value in document.items():
        line = lines.line_of((name,))
        assert line is not None
        assert name in rows[line - 1]
        if isinstance(value, dict):
            for inner in value:
                assert inner in rows[(lines.line_of((name, inner)) or 0) - 1] or inner == "q"


@given(st.text(max_size=60))
@WITHIN_REASON
def test_toml_files_are_read_or_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.toml"
    file.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
    try:
        config.load(file)
    except ConfigError as error:
        assert str(file) in str(error)  # noqa: PT017 - refusing is as good as reading


@pytest.mark.parametrize("text", ["[" * 100_000, "a" * 1_000_000, "a." * 100_000 + "b = 1"])
def test_shapes_that_hurt_parsers(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError):
        config.load(file)
