"""Boxes of curve keys are NaCl's, and only the receiver opens them."""

from __future__ import annotations

import os

import pytest
from nacl.public import Box, PrivateKey, PublicKey

from midge.server.auth.nkeys import KeyKind, decode_public_key, encode_public_key
from midge.server.auth.salsa20 import hsalsa20, xsalsa20
from midge.server.auth.xkeys import SEALED_MAX_BYTES, BoxError, CurveKey

LENGTHS = (1, 31, 32, 33, 63, 64, 65, 1000)


def test_the_cipher_is_that_of_the_paper() -> None:
    # The vectors of "Extending the Salsa20 nonce" and NaCl's tests.
    shared = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
    first = hsalsa20(shared, bytes(16))
    assert first.hex() == "1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389"
    nonce = bytes.fromhex("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37")
    stream = xsalsa20(first, nonce, 80)
    assert stream[:32].hex() == "eea6a7251c1e72916d11c2cb214d3c252539121d8e234e652d651fa4c8cff880"
    assert stream[:70] == xsalsa20(first, nonce, 70)
    assert xsalsa20(first, nonce, 0) == b""


@pytest.mark.parametrize("length", LENGTHS)
def test_boxes_are_nacls(length: int) -> None:
    text, own, theirs = os.urandom(length), CurveKey(), PrivateKey.generate()
    their_public = encode_public_key(KeyKind.CURVE, bytes(theirs.public_key))
    raw = decode_public_key(KeyKind.CURVE, own.public)
    assert raw is not None
    box = Box(theirs, PublicKey(raw))
    sealed = own.seal(text, their_public)
    assert sealed.startswith(b"xkv1")
    assert box.decrypt(sealed[28:], sealed[4:28]) == text
    answer = box.encrypt(text)
    assert own.open(b"xkv1" + answer.nonce + answer.ciphertext, their_public) == text


def test_what_is_no_box_of_the_sender_is_not_opened() -> None:
    sender, receiver, other = CurveKey(), CurveKey(), CurveKey()
    box = sender.seal(b"text", receiver.public)
    assert receiver.open(box, sender.public) == b"text"
    for opener, wrong, named in (
        (receiver, box, other.public),
        (other, box, sender.public),
        (receiver, box[:-1] + bytes([box[-1] ^ 1]), sender.public),
        (receiver, box[:44], sender.public),
        (receiver, b"xkv2" + box[4:], sender.public),
        (receiver, b"", sender.public),
        (receiver, box, "X" * 56),
        (receiver, box, encode_public_key(KeyKind.CURVE, bytes(32))),
        (receiver, box + bytes(SEALED_MAX_BYTES), sender.public),
    ):
        with pytest.raises(BoxError, match="nkeys"):
            opener.open(wrong, named)
