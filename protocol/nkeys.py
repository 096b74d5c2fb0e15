"""The text form of nkeys: prefix and key with a CRC-16 behind them, in base32 without padding.

A public key has one prefix byte for its kind, and a seed has two. Cryptography is not here.
"""

import base64
import binascii

USER_PREFIX = 20 << 3
"""The prefix byte of a user's public key, whose text therefore begins with a U."""

ACCOUNT_PREFIX = 0
CURVE_PREFIX = 23 << 3
OPERATOR_PREFIX = 14 << 3
SERVER_PREFIX = 13 << 3
PREFIXES = {ACCOUNT_PREFIX, CURVE_PREFIX, OPERATOR_PREFIX, SERVER_PREFIX, USER_PREFIX}

_CHECKSUM_BYTES = 2
_PUBLIC_BYTES = 33


def encode_nkey(body: bytes) -> str:
    """Return prefix and key in their text form."""
    return base64.b32encode(body + _checksum(body)).decode().rstrip("=")


def decode_nkey(text: str) -> bytes:
    """Return prefix and key.

    Raises:
        ValueError: `text` is not base32, or its checksum is wrong; the message says which.
    """
    try:
        raw = base64.b32decode(text + "=" * (-len(text) % 8))
    except (binascii.Error, ValueError) as error:
        raise ValueError("is not base32") from error
    body, checksum = raw[:-_CHECKSUM_BYTES], raw[-_CHECKSUM_BYTES:]
    if not body or checksum != _checksum(body):
        raise ValueError("has a typing error (its CRC is wrong)")
    return body


def is_any_public_nkey(text: str) -> bool:
    """Return whether `text` is a complete public key of whatever kind."""
    try:
        body = decode_nkey(text)
    except ValueError:
        return False
    return len(body) == _PUBLIC_BYTES and body[0] in PREFIXES


def is_public_nkey(prefix: int, text: str) -> bool:
    """Return whether `text` is a complete public key whose prefix byte is `prefix`."""
    try:
        body = decode_nkey(text)
    except ValueError:
        return False
    return len(body) == _PUBLIC_BYTES and body[0] == prefix


def _checksum(body: bytes) -> bytes:
    return binascii.crc_hqx(body, 0).to_bytes(_CHECKSUM_BYTES, "little")
