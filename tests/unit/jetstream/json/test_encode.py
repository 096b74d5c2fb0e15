"""Answers are written as Go writes them."""

from midge.jetstream.json.encode import blob, encode, text


def test_what_could_end_a_script_is_escaped() -> None:
    assert encode({"a": "<b>&\u2028é"}) == '{"a":"\\u003cb\\u003e\\u0026\\u2028é"}'.encode()


def test_control_characters_are_escaped_as_go_does() -> None:
    assert encode(['\n\t\x01\x7f"']) == b'["\\n\\t\\u0001\x7f\\""]'


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    assert encode({"subject": text(b"a.\xff")}) == b'{"subject":"a.\\ufffd"}'


def test_bytes_are_base64_with_padding() -> None:
    assert blob(b"x") == "eA=="
