"""Go's command-line spelling, with the real server's error texts."""

from __future__ import annotations

import pytest

from midge.server.process.go_flags import Flag, FlagError, parse

FLAGS = (
    Flag(("p", "port"), "int", ("port",)),
    Flag(("D", "debug"), "bool", ("debug",)),
    Flag(("a", "addr"), "str", ("host",)),
)


def values(*arguments: str) -> list[object]:
    return [one.value for one in parse(arguments, FLAGS).given]


@pytest.mark.parametrize(
    "arguments", [("-p", "42"), ("-p=42",), ("--p=42",), ("--port", "42"), ("-port=42",)]
)
def test_all_spellings_of_a_value(arguments: tuple[str, ...]) -> None:
    assert values(*arguments) == [42]


@pytest.mark.parametrize(
    ("text", "number"),
    [("0x10", 16), ("-1", -1), ("010", 8), ("0b11", 3), ("0", 0), ("+7", 7), ("0o17", 15)],
)
def test_integers_as_go_reads_them(text: str, number: int) -> None:
    assert values(f"-p={text}") == [number]


@pytest.mark.parametrize(
    ("argument", "value"),
    [("-D", True), ("--debug", True), ("-D=false", False), ("-D=T", True), ("-debug=0", False)],
)
def test_booleans(argument: str, value: bool) -> None:
    assert values(argument) == [value]


def test_a_boolean_never_takes_the_next_word() -> None:
    line = parse(["-D", "false", "-p", "1"], FLAGS)
    assert [one.value for one in line.given] == [True]
    assert line.words == ["false", "-p", "1"]


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (["--bell"], "true"),
        (["--bell", "-p", "1"], "true"),
        (["--bell=no"], "no"),
        (["--bell", "off"], "off"),
        (["--bell", "Yes"], "Yes"),
        (["--bell", "quit"], "true"),
    ],
)
def test_a_switch_takes_a_yes_or_no_that_follows(arguments: list[str], value: str) -> None:
    bell = Flag(("bell",), "switch", ("bell",))
    line = parse(arguments, [*FLAGS, bell])
    assert line.given[0].value == value
    assert line.words == [word for word in arguments if word == "quit"]


def test_two_dashes_end_the_flags() -> None:
    assert parse(["-D", "--", "-p"], FLAGS).words == ["-p"]


def test_a_single_dash_is_a_word() -> None:
    assert parse(["-"], FLAGS).words == ["-"]


def test_a_value_may_look_like_a_flag() -> None:
    assert values("-a", "-D") == ["-D"]


def test_a_value_may_hold_an_equals_sign() -> None:
    assert values("-a=x=y") == ["x=y"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["-x"], "flag provided but not defined: -x"),
        (["-prot"], "flag provided but not defined: -prot; did you mean '--port'?"),
        (["--x=1"], "flag provided but not defined: -x"),
        (["-p"], "flag needs an argument: -p"),
        (["--port"], "flag needs an argument: -port"),
        (["-p", "x"], 'invalid value "x" for flag -p: parse error'),
        (["-p", "1.5"], 'invalid value "1.5" for flag -p: parse error'),
        (["-p", "٤"], 'invalid value "٤" for flag -p: parse error'),
        (["-p", "9" * 30], f'invalid value "{"9" * 30}" for flag -p: value out of range'),
        (["-p", "9" * 9000], f'invalid value "{"9" * 9000}" for flag -p: parse error'),
        (["-D=maybe"], 'invalid boolean value "maybe" for -D: parse error'),
        (["--=x"], "bad flag syntax: --=x"),
        (["---p"], "bad flag syntax: ---p"),
        (["-=1"], "bad flag syntax: -=1"),
    ],
)
def test_errors_in_the_words_of_go(arguments: list[str], text: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse(arguments, FLAGS)
    assert str(caught.value) == text
