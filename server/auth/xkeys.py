"""xkeys: Curve25519 nkeys, and the boxes that two of them seal and open.

A box is `xkv1`, a nonce of 24 bytes, a Poly1305 tag of 16 and the text, as nkeys writes it: NaCl's
`crypto_box`.
"""

from __future__ import annotations

import os

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from nacl import bindings
from nacl.exceptions import CryptoError

from midge.server.auth.nkeys import KeyKind, decode_public_key, encode_public_key

SEALED_MAX_BYTES = 64 * 1024
"""Largest box that is opened, far above any token."""

_VERSION = b"xkv1"
_NONCE_BYTES = bindings.crypto_box_NONCEBYTES
_TAG_BYTES = 16
_OVERHEAD_BYTES = len(_VERSION) + _NONCE_BYTES + _TAG_BYTES


class BoxError(Exception):
    """A box that cannot be opened; the text says why."""


class CurveKey:
    """A pair of keys, of a `seed` of 32 random bytes; `public` is the public one as an nkey."""

    def __init__(self, seed: bytes | None = None) -> None:
        """Make the keys of `seed`, or new ones."""
        self._private = seed or os.urandom(bindings.crypto_box_SECRETKEYBYTES)
        raw = bindings.crypto_scalarmult_base(self._private)
        self.public = encode_public_key(KeyKind.CURVE, raw)

    def seal(self, text: bytes, receiver: str) -> bytes:
        """Encrypt `text` for the owner of the public key `receiver`."""
        nonce = os.urandom(_NONCE_BYTES)
        return _VERSION + nonce + bindings.crypto_box_afternm(text, nonce, self._shared(receiver))

    def open(self, box: bytes, sender: str) -> bytes:
        """Decrypt a box that the owner of the public key `sender` sealed for this key.

        Raises:
            BoxError: it is not a box, is too large, or comes from another sender.
        """
        if len(box) <= _OVERHEAD_BYTES or not box.startswith(_VERSION):
            raise BoxError("nkeys: encrypted input is not valid")
        if len(box) > SEALED_MAX_BYTES:
            raise BoxError(f"nkeys: encrypted input of more than {SEALED_MAX_BYTES} bytes")
        start = len(_VERSION)
        nonce, sealed = box[start : start + _NONCE_BYTES], box[start + _NONCE_BYTES :]
        shared = self._shared(sender)
        try:
            return bindings.crypto_box_open_afternm(sealed, nonce, shared)
        except CryptoError:
            raise BoxError("nkeys: could not decrypt input") from None

    def _shared(self, other: str) -> bytes:
        """Return the key that this pair and the public key `other` share."""
        raw = decode_public_key(KeyKind.CURVE, other)
        if raw is None:
            raise BoxError("nkeys: not a valid curve key")
        try:
            return bindings.crypto_box_beforenm(raw, self._private)
        except CryptoError:  # a point of low order
            raise BoxError("nkeys: not a valid curve key") from None


class ServerSigner:
    """A server's key for signatures, `public` as an nkey, and its `curve` key for encryption.

    Both are made of seeds of 32 random bytes.
    """

    def __init__(self, seed: bytes, curve_seed: bytes) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        raw = self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.public = encode_public_key(KeyKind.SERVER, raw)
        self.curve = CurveKey(curve_seed)

    def sign(self, message: bytes) -> bytes:
        """Return the signature of `message`, 64 bytes."""
        return self._private.sign(message)
