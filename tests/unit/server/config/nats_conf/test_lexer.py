"""Tokens of nats-server's grammar, their values and their places."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from midge.server.config.nats_conf.errors import ConfError
from midge.server.config.nats_conf.lexer import DEPTH_MAX, Lexer, Token, TokenKind

TOP_END = (
    "Parse error on line 1: 'Expected a top-level value to end with a new line, comment or EOF, "
    "but got '2' instead.'"
)
BLOCK_END = (
    "Parse error on line 1: 'Expected a block-level value to end with a new line, comment or EOF, "
    "but got '{}' instead.'"
)
INNER_END = (
    "Parse error on line 1: 'Expected a block-level to end with a '}}', but got '{}' instead.'"
)
ESCAPES = r"Only the following escape characters are allowed: \xXX, \t, \n, \r, \", \\."
HEX = "Parse error on line {}: 'Expected two hexadecimal digits after '\\x', but {}'"
ARRAY_END = (
    'Parse error on line 1: \'Expected an array value terminator "," or an array terminator '
    "\"]\", but got '}' instead.'"
)


def tokens(text: str) -> list[Token]:
    return list(Lexer(text, "x.conf").tokens())


def value(text: str) -> Any:
    key, scalar = tokens(f"k: {text}")
    assert (key.kind, key.value, scalar.kind) == (TokenKind.KEY, "k", TokenKind.SCALAR)
    return scalar.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", 5),
        ("-5", -5),
        ("007", 7),
        ("1k", 1000),
        ("1K", 1000),
        ("1kb", 1024),
        ("1KiB", 1024),
        ("1ki", 1024),
        ("-2m", -2_000_000),
        ("3MB", 3 << 20),
        ("1g", 10**9),
        ("1gib", 1 << 30),
        ("1t", 10**12),
        ("1pb", 1 << 50),
        ("1e", 10**18),
        ("1eb", 1 << 60),
        ("9223372036854775807", (1 << 63) - 1),
        ("-9223372036854775808", -(1 << 63)),
        ("1.5", 1.5),
        ("-0.25", -0.25),
        ("2006-01-02T15:04:05Z", datetime(2006, 1, 2, 15, 4, 5, tzinfo=UTC)),
        ("5s", "5s"),
        ("1abc", "1abc"),
        ("1_000", "1_000"),
        ("1e3", "1e3"),
        ("0x10", "0x10"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1:4222", "127.0.0.1:4222"),
        ("50%", "50%"),
        ("4222#c", "4222#c"),
        ("true", True),
        ("YES", True),
        ("On", True),
        ("off", False),
        ('"true"', "true"),
        ("'on'", "on"),
        ("plain", "plain"),
        ("a#b", "a#b"),
        ("http://x", "http://x"),
        ("a=b", "a=b"),
        ("a\\tb", "a\tb"),
        ("tr\\x75e", "true"),
        ('"a\\x41\\n\\r\\t\\"\\\\"', 'aA\n\r\t"\\'),
        ("'a\\n'", "a\\n"),
        ('"two\nlines"', "two\nlines"),
        ('""', ""),
        ("grüße", "grüße"),
        ("(\n a)b\n)", "\n a)b\n"),
        ("9e", 9 * 10**18),
        ("1]", "1]"),
        ("12'b", "12'b"),
        ("12]b'", "12]b"),
        ("1\\x41", "1\\x41"),
        ("1]\\x41", "1]A"),
        ("1b'", "1b"),
        ("11k'", "11k"),
        ("true'", "true"),
        ("$a'", "$a"),
    ],
)
def test_values(text: str, expected: Any) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize("end", ["\n", ";", ",", "", " ", " # c", " // c", "\r\n", "}"])
def test_what_ends_a_value(end: str) -> None:
    assert [token.value for token in tokens(f"a: 5{end}")] == ["a", 5]


@pytest.mark.parametrize("text", ["[1]]", "[0, 1]]", "[1] ]", "[1]a]", "[{a: 1}, 1]]"])
def test_a_bracket_right_after_digits_is_a_part_of_a_text(text: str) -> None:
    assert tokens(f"a: {text}")[-2].value in ("1]", "1]a")


@pytest.mark.parametrize("text", ["[1 ]", "[-1]", "[1k]", "[1.5]", "[a1]", "[1,]"])
def test_a_bracket_after_other_items_ends_an_array(text: str) -> None:
    assert tokens(f"a: {text}")[-1].kind is TokenKind.ARRAY_END


@pytest.mark.parametrize("separator", [":", "=", " ", " : ", "\t=\t", "\n", "\n=", " \n\n "])
def test_what_separates_key_and_value(separator: str) -> None:
    assert [token.value for token in tokens(f"a{separator}5")] == ["a", 5]


def test_kinds() -> None:
    kinds = [token.kind.name for token in tokens("a { b: [1, {c: $V}] }\ninclude 'f'\n")]
    assert kinds == [
        *("KEY", "MAP_START", "KEY", "ARRAY_START", "SCALAR", "MAP_START", "KEY", "VARIABLE"),
        *("MAP_END", "ARRAY_END", "MAP_END", "INCLUDE"),
    ]


def test_a_key_runs_to_a_blank_or_separator() -> None:
    assert tokens("auth{ x")[0].value == "auth{"
    assert [token.value for token in tokens("\"a b\" 1\n'c=d': 2")] == ["a b", 1, "c=d", 2]


def test_places_count_as_nats_server_does() -> None:
    text = 'a: 1\n  b: {\n  c: 2 }\n"d": [5\n 6 ]\n'
    places = [(token.value, token.line, token.column) for token in tokens(text)]
    assert places == [
        ("a", 1, 0),
        (1, 1, 3),
        ("b", 2, 3),
        (None, 2, 6),
        ("c", 3, 3),
        (2, 3, 6),
        (None, 3, 8),
        ("d", 4, 2),
        (None, 4, 6),
        (5, 4, 7),
        (6, 5, 2),
        (None, 5, 4),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "{a: 1, b: 2}",
        "{a: 1\n}\nb: 2\n",
        "{}a: 1\n{b: 2}",
        "{a: 1}b: 2",
        "{{a: 1};b: 2}",
        "{{{},a: 1}\n} b: 2",
        "{{a: 1} / # c\n} b: 2",
        "{a: 1 /} b: 2",
        "a: 1 / /\nb: 2 /",
        "a: 1\nb: 2\n'",
        'a: 1\nb: 2\n"',
    ],
)
def test_blocks_slashes_and_a_last_quote_mean_nothing(text: str) -> None:
    assert [token.value for token in tokens(text)] == ["a", 1, "b", 2]


@pytest.mark.parametrize("text", ["a {b: 1 / c: 2}", "a {b: 1 /c: 2}", "a {/b: 1, /c: 2 /}"])
def test_a_slash_in_a_map_is_a_comma_or_dropped(text: str) -> None:
    assert [token.value for token in tokens(text)] == ["a", None, "b", 1, "c", 2, None]


def test_a_slash_in_an_array_is_a_comma() -> None:
    assert [token.value for token in tokens("a [1 / 2 /]")] == ["a", None, 1, 2, None]


def test_a_map_may_end_behind_a_key() -> None:
    kinds = [token.kind.name for token in tokens("a {b: 1, c: }\nd: 2")]
    assert kinds == [
        *("KEY", "MAP_START", "KEY", "SCALAR", "KEY", "MAP_END"),
        *("KEY", "SCALAR"),
    ]


@pytest.mark.parametrize("text", ["", " \n", "# c", "// c\n#d", "{}", "{ }\n", "{\n#x\n}", '"'])
def test_nothing(text: str) -> None:
    assert tokens(text) == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a", "config is invalid (x.conf:1:1)"),
        ("a\n", "config is invalid (x.conf:2:1)"),
        ("a: -", "Parse error on line 1: 'Expected a digit but got ''.'"),
        ("a: {b: ,}", "Parse error on line 1: 'Unexpected map value terminator \",\".'"),
        ("a: b\\\n", f"Parse error on line 2: 'Invalid escape character '\\n'. {ESCAPES}'"),
        ("a: \\\nb: 1", f"Parse error on line 2: 'Invalid escape character '\\n'. {ESCAPES}'"),
        ("a: $b\\\n", f"Parse error on line 2: 'Invalid escape character '\\n'. {ESCAPES}'"),
        ("a: 1b\\\n", f"Parse error on line 2: 'Invalid escape character '\\n'. {ESCAPES}'"),
        ("a: [b\\\n]", f"Parse error on line 2: 'Invalid escape character '\\n'. {ESCAPES}'"),
        ("a: b\\q\\\n", f"Parse error on line 1: 'Invalid escape character 'q'. {ESCAPES}'"),
        ('a: "\\q\n\n"', f"Parse error on line 1: 'Invalid escape character 'q'. {ESCAPES}'"),
        ("a: b\\", "Parse error on line 1: 'Unexpected EOF.'"),
        ("a: b\\x4\n", HEX.format(2, "hit end of line")),
        ("a: b\\x\n", HEX.format(2, "hit end of line")),
        ("a: b\\x4 ", HEX.format(1, "got '4 '")),
        ("a: b\\x4", HEX.format(1, "got 'x4'")),
        ("a: b\\x41\\x4g", HEX.format(1, "got '4g'")),
        ("/a: 1", "Parse error on line 1: 'Unexpected EOF.'"),
        ("a: [/ 1]", "Parse error on line 1: 'Unexpected array value terminator ','.'"),
        ('a: {"', "Parse error on line 1: 'Unexpected EOF processing double quoted map key.'"),
        ("a: {'", "Parse error on line 1: 'Unexpected EOF processing quoted map key.'"),
        ("a: {=1}", "Parse error on line 1: 'Unexpected key separator '='.'"),
        ("{a: 1 b}", BLOCK_END.format("b")),
        ("{a: 1", BLOCK_END.format("")),
        ("{{a: 1} b: 2}", INNER_END.format("b")),
        ("{{a: 1}", INNER_END.format("")),
        (
            "a: 1 2",
            TOP_END,
        ),
        ("a: [1", "Parse error on line 1: 'Unexpected EOF processing array.'"),
        ("a: {", "Parse error on line 1: 'Unexpected EOF processing map.'"),
        ("a: {b: 1", "Parse error on line 1: 'Unexpected EOF processing map.'"),
        (
            "a: [1}",
            ARRAY_END,
        ),
        ("a: 99999999999999999999", "integer '99999999999999999999' is out of the range"),
        (
            "a: 2006-99-02T15:04:05Z",
            "expected Zulu formatted DateTime, but got '2006-99-02T15:04:05Z'",
        ),
        ("include {x}", "Parse error on line 1: 'Expected include value but found start of a map'"),
        ("include 'x", "Parse error on line 1: 'Unexpected EOF.'"),
        ('a: "\\', "Parse error on line 1: 'Unexpected EOF.'"),
    ],
)
def test_errors(text: str, error: str) -> None:
    with pytest.raises(ConfError) as caught:
        tokens(text)
    assert str(caught.value) == error


@pytest.mark.parametrize("text", ["a: " + "[" * 1_000_000, "a " + "{b " * 1_000_000])
def test_deep_nesting_is_refused_early(text: str) -> None:
    with pytest.raises(ConfError, match=f"nested more than {DEPTH_MAX} deep"):
        tokens(text)


@pytest.mark.parametrize("text", ["a: " + "9" * 500_000, "a: " + "1" * 500_000 + "k"])
def test_endless_numbers_are_refused_quickly(text: str) -> None:
    with pytest.raises(ConfError, match="is out of the range"):
        tokens(text)
