"""xkeys: Curve25519 nkeys, and the boxes that are sealed and opened with a pair of them.

A box is NaCl's `crypto_box` in the form that nkeys writes: `xkv1`, a nonce of 24 bytes, a Poly1305
tag of 16 bytes, and the text.
"""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.poly1305 import Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from midge.server.auth.nkeys import KeyKind, decode_public_key, encode_public_key
from midge.server.auth.salsa20 import KEY_BYTES, NONCE_BYTES, hsalsa20, xsalsa20

SEALED_MAX_BYTES = 64 * 1024
"""Largest box that is opened: far above any token, and 70 ms of work in the interpreted build."""

_VERSION = b"xkv1"
_TAG_BYTES = 16
_OVERHEAD_BYTES = len(_VERSION) + NONCE_BYTES + _TAG_BYTES


class BoxError(Exception):
    """A box that cannot be opened; the text gives the reason."""


class CurveKey:
    """A pair of keys, made from a `seed` of 32 random bytes; `public` is the public key as nkey."""

    def __init__(self, seed: bytes | None = None) -> None:
        """Make the keys of `seed`, or new ones."""
        self._private = X25519PrivateKey.from_private_bytes(seed or os.urandom(KEY_BYTES))
        raw = self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.public = encode_public_key(KeyKind.CURVE, raw)

    def seal(self, text: bytes, receiver: str) -> bytes:
        """Encrypt `text` for the owner of the public key `receiver`."""
        nonce = os.urandom(NONCE_BYTES)
        stream = xsalsa20(self._shared(receiver), nonce, KEY_BYTES + len(text))
        sealed = _xor(text, stream[KEY_BYTES:])
        tag = Poly1305.generate_tag(stream[:KEY_BYTES], sealed)
        return _VERSION + nonce + tag + sealed

    def open(self, box: bytes, sender: str) -> bytes:
        """Decrypt a box that the owner of the public key `sender` has sealed for this key.

        Raises:
            BoxError: it is not a box, is too large, or comes from another sender.
        """
        if len(box) <= _OVERHEAD_BYTES or not box.startswith(_VERSION):
            raise BoxError("nkeys: encrypted input is not valid")
        if len(box) > SEALED_MAX_BYTES:
            raise BoxError(f"nkeys: encrypted input of more than {SEALED_MAX_BYTES} bytes")
        nonce = box[len(_VERSION) : len(_VERSION) + NONCE_BYTES]
        tag, sealed = box[len(_VERSION) + NONCE_BYTES : _OVERHEAD_BYTES], box[_OVERHEAD_BYTES:]
        stream = xsalsa20(self._shared(sender), nonce, KEY_BYTES + len(sealed))
        try:
            Poly1305.verify_tag(stream[:KEY_BYTES], sealed, tag)
        except InvalidSignature:
            raise BoxError("nkeys: could not decrypt input") from None
        return _xor(sealed, stream[KEY_BYTES:])

    def _shared(self, other: str) -> bytes:
        """Return the key that this pair and the public key `other` share."""
        raw = decode_public_key(KeyKind.CURVE, other)
        if raw is None:
            raise BoxError("nkeys: not a valid curve key")
        try:
            secret = self._private.exchange(X25519PublicKey.from_public_bytes(raw))
        except ValueError:
            raise BoxError("nkeys: not a valid curve key") from None
        return hsalsa20(secret, bytes(16))


def _xor(one: bytes, other: bytes) -> bytes:
    mixed = int.from_bytes(one, "little") ^ int.from_bytes(other, "little")
    return mixed.to_bytes(len(one), "little")
