"""nkeys: every length is checked before the cryptography, and nothing but a whole key passes."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midge.server.auth.nkeys import (
    KeyKind,
    decode_public_key,
    decode_signature,
    encode_public_key,
    is_public_key,
    is_signed_by,
)
from tests.support.keys import KeyPair

NONCE = b"abcdefghijklmno"


def test_a_key_survives_the_way_there_and_back() -> None:
    text = encode_public_key(KeyKind.USER, bytes(range(32)))
    assert text.startswith("U")
    assert len(text) == 56
    assert decode_public_key(KeyKind.USER, text) == bytes(range(32))


def test_a_key_known_from_elsewhere_is_read() -> None:
    # From the documentation of NATS' authentication by nkeys.
    known = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
    assert is_public_key(KeyKind.USER, known)
    assert not is_public_key(KeyKind.ACCOUNT, known)


@pytest.mark.parametrize(
    ("kind", "letter"),
    [
        (KeyKind.ACCOUNT, "A"),
        (KeyKind.OPERATOR, "O"),
        (KeyKind.SERVER, "N"),
        (KeyKind.USER, "U"),
    ],
)
def test_the_first_letter_tells_the_kind(kind: KeyKind, letter: str) -> None:
    assert KeyPair(kind).public[0] == letter


@pytest.mark.parametrize("length", [0, 1, 10, 54, 55])
def test_a_truncated_key_is_refused_before_any_cryptography(length: int) -> None:
    pair = KeyPair(KeyKind.USER)
    signature = pair.sign(NONCE)
    assert not is_signed_by(KeyKind.USER, pair.public[:length], NONCE, signature)
    assert not is_public_key(KeyKind.USER, pair.public[:length])


def test_any_changed_character_is_refused() -> None:
    public = KeyPair(KeyKind.USER).public
    for i, character in enumerate(public):
        other = "A" if character != "A" else "B"
        assert not is_public_key(KeyKind.USER, public[:i] + other + public[i + 1 :])
    assert not is_public_key(KeyKind.USER, public.lower())
    assert not is_public_key(KeyKind.USER, "ß" * 56)


@given(st.text(max_size=70))
def test_no_text_raises(text: str) -> None:
    decode_public_key(KeyKind.USER, text)
    decode_signature(text)
    assert not is_signed_by(KeyKind.USER, text, NONCE, b"x" * 64)


def test_signatures_are_read_in_both_alphabets() -> None:
    raw = bytes(range(190, 254))
    assert decode_signature(base64.urlsafe_b64encode(raw).decode().rstrip("=")) == raw
    assert decode_signature(base64.b64encode(raw).decode()) == raw


@pytest.mark.parametrize("text", ["", "x", "A" * 87, "!" * 86, "A" * 10_000, "é" * 86, "AAAA"])
def test_what_is_no_signature_is_refused(text: str) -> None:
    assert decode_signature(text) is None


def test_only_the_owner_signs() -> None:
    pair, other = KeyPair(KeyKind.USER), KeyPair(KeyKind.USER)
    assert is_signed_by(KeyKind.USER, pair.public, NONCE, pair.sign(NONCE))
    assert not is_signed_by(KeyKind.USER, pair.public, NONCE, other.sign(NONCE))
    assert not is_signed_by(KeyKind.USER, pair.public, b"other nonce", pair.sign(NONCE))
    assert not is_signed_by(KeyKind.ACCOUNT, pair.public, NONCE, pair.sign(NONCE))
    assert not is_signed_by(KeyKind.USER, pair.public, NONCE, pair.sign(NONCE)[:63])
