"""Boxes of curve keys are NaCl's, and only the receiver opens them."""

from __future__ import annotations

import os

import pytest
from nacl.public import Box, PrivateKey, PublicKey

from midge.server.auth.nkeys import KeyKind, decode_public_key, encode_public_key
from midge.server.auth.xkeys import SEALED_MAX_BYTES, BoxError, CurveKey

LENGTHS = (1, 31, 32, 33, 63, 64, 65, 1000)


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
