"""Answers are written as Go writes them."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from midge.jetstream.json.encode import blob, encode, text

_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="<>&\u2028\u2029"), max_size=8)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200)
@given(_VALUES)
def test_all_else_is_written_as_the_interpreter_does(value: object) -> None:
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert encode(value) == written.encode()


def test_only_what_must_be_is_escaped_beside_bytes_that_are_no_text() -> None:
    assert encode({text(b"\xff"): "\u2014<"}) == '{"\\ufffd":"\u2014\\u003c"}'.encode()


def test_what_could_end_a_script_is_escaped() -> None:
    assert encode({"a": "<b>&\u2028é"}) == '{"a":"\\u003cb\\u003e\\u0026\\u2028é"}'.encode()


def test_control_characters_are_escaped_as_go_does() -> None:
    assert encode(['\n\t\x01\x7f"']) == b'["\\n\\t\\u0001\x7f\\""]'


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    assert encode({"subject": text(b"a.\xff")}) == b'{"subject":"a.\\ufffd"}'


def test_bytes_are_base64_with_padding() -> None:
    assert blob(b"x") == "eA=="
