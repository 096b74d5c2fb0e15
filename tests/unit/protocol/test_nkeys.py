"""The text form of nkeys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midge.protocol.nkeys import USER_PREFIX, decode_nkey, encode_nkey


@given(st.binary(min_size=1, max_size=40))
def test_every_body_survives_the_way_there_and_back(body: bytes) -> None:
    assert decode_nkey(encode_nkey(body)) == body


def test_a_user_key_begins_with_u() -> None:
    assert encode_nkey(bytes([USER_PREFIX]) + bytes(32)).startswith("U")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "typing error"),
        ("AA", "typing error"),
        ("U!", "not base32"),
        ("é", "not base32"),
        ("UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF5", "typing error"),
    ],
)
def test_what_is_none_says_why(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_nkey(text)
