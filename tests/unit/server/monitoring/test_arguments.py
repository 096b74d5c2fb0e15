"""Arguments of monitoring requests; the refusals are nats-server's, word by word."""

import pytest

from midge.server.monitoring.arguments import DEFAULT_LIMIT, MAX_LIMIT, Arguments, BadArgument


@pytest.mark.parametrize("text", ["1", "t", "T", "true", "True", "TRUE"])
def test_go_has_six_words_for_true(text: str) -> None:
    assert Arguments({"auth": text}).flag("auth")


@pytest.mark.parametrize("text", ["", "0", "f", "F", "false", "False", "FALSE"])
def test_anything_false_or_absent_is_false(text: str) -> None:
    assert not Arguments({"auth": text}).flag("auth")


def test_a_wrong_boolean_is_refused_by_name() -> None:
    with pytest.raises(BadArgument) as caught:
        Arguments({"auth": "zz"}).flag("auth")
    assert str(caught.value) == (
        "Error decoding boolean for 'auth': strconv.ParseBool: parsing \"zz\": invalid syntax"
    )


@pytest.mark.parametrize("text", ["x", "1.0", "\u0661", "1_0", " 1", "--1", "+", "0x1"])
def test_only_ascii_digits_are_a_number(text: str) -> None:
    with pytest.raises(BadArgument, match=r"Error decoding int for 'limit': strconv.Atoi"):
        Arguments({"limit": text}).integer("limit")


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_a_number_has_64_bits(number: int) -> None:
    assert Arguments({"limit": str(number)}).integer("limit") == number


@pytest.mark.parametrize("text", [str(2**63), str(-(2**63) - 1), "9" * 30, "9" * 5000])
def test_a_number_beyond_64_bits_is_out_of_range(text: str) -> None:
    with pytest.raises(BadArgument, match="value out of range"):
        Arguments({"limit": text}).integer("limit")


def test_a_cid_has_no_sign() -> None:
    assert Arguments({"cid": "7"}).cid() == 7
    with pytest.raises(BadArgument, match=r"Error decoding uint64 for 'cid': strconv.ParseUint"):
        Arguments({"cid": "-7"}).cid()


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ({}, (0, DEFAULT_LIMIT)),
        ({"limit": "-1", "offset": "-3"}, (0, DEFAULT_LIMIT)),
        ({"limit": "7", "offset": "3"}, (3, 7)),
        ({"limit": "99999999"}, (0, MAX_LIMIT)),
    ],
)
def test_pages_are_clamped(query: dict[str, str], page: tuple[int, int]) -> None:
    assert Arguments(query).page() == page


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("", (False, False)), ("1", (True, False)), ("detail", (True, True)), ("0", (False, False))],
)
def test_subscriptions_are_listed_or_detailed(text: str, wanted: tuple[bool, bool]) -> None:
    assert Arguments({"subs": text}).subscriptions() == wanted
