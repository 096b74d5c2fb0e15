"""nkeys: Ed25519 keys in NATS's base32 form, with their kind and a checksum.

A public key is one prefix byte, 32 bytes of key and a CRC-16, in 56 base32 characters. The length
is checked before the text is decoded, and a malformed key never reaches the cryptography.
"""

from __future__ import annotations

import base64
import binascii
from enum import Enum

from midge.protocol.nkeys import USER_PREFIX, decode_nkey, encode_nkey

_ENCODED_LENGTH = 56
_SIGNATURE_BYTES = 64
_SIGNATURE_MAX_LENGTH = 88
"""Length of 64 bytes in base64 with padding; longer text is not a signature."""


class KeyKind(Enum):
    """The kind of a key; the value is its prefix byte, which determines the first letter."""

    ACCOUNT = 0
    CURVE = 23 << 3
    OPERATOR = 14 << 3
    SERVER = 13 << 3
    USER = USER_PREFIX


def encode_public_key(kind: KeyKind, key: bytes) -> str:
    """Return the 32 bytes of `key` in their base32 form."""
    return encode_nkey(bytes([kind.value]) + key)


def decode_public_key(kind: KeyKind, text: str) -> bytes | None:
    """Return the 32 bytes of the key that `text` holds, or None if it is not a key of that kind."""
    if len(text) != _ENCODED_LENGTH or not text.isascii():
        return None
    try:
        body = decode_nkey(text)
    except ValueError:
        return None
    return body[1:] if body[0] == kind.value else None


def is_public_key(kind: KeyKind, text: str) -> bool:
    """Return whether `text` is a whole public key of `kind`."""
    return decode_public_key(kind, text) is not None


def kind_of(text: str) -> KeyKind | None:
    """Return the kind of a public key, or None if `text` is no public key."""
    return next((kind for kind in KeyKind if is_public_key(kind, text)), None)


def decode_signature(text: str) -> bytes | None:
    """Return the 64 bytes of the signature in `text`, in either alphabet of base64, or None."""
    if not text or len(text) > _SIGNATURE_MAX_LENGTH or not text.isascii():
        return None
    standard = text.rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        raw = base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == _SIGNATURE_BYTES else None


def is_signed_by(kind: KeyKind, public_key: str, message: bytes, signature: bytes) -> bool:
    """Return whether the owner of `public_key` has made `signature` for `message`."""
    key = decode_public_key(kind, public_key)
    if key is None or len(signature) != _SIGNATURE_BYTES:
        return False
    # Imported here: every server makes its own nkeys, but only some servers verify signatures.
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PublicKey,
    )

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
