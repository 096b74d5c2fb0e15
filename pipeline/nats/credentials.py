"""Credentials files and nkeys: from a user's seed to the signature that CONNECT carries."""

import base64
import binascii

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from midge.pipeline.errors import OptionError

_SEED_PREFIX_USER = "SU"
_SEED_BODY_BYTES = 34
_PUBLIC_PREFIX_USER = bytes([20 << 3])


def sign_nonce(credentials: str, nonce: str) -> dict[str, str]:
    """Return the fields of CONNECT that prove who we are by an nkey, with the JWT if there is one.

    `credentials` is a credentials file's text, or a bare user seed (`SU…`).

    Raises:
        OptionError: no usable seed is in it.

    """
    jwt, seed = split_credentials(credentials)
    key = Ed25519PrivateKey.from_private_bytes(decode_seed(seed))
    signature = base64.urlsafe_b64encode(key.sign(nonce.encode())).rstrip(b"=").decode()
    if jwt:
        return {"jwt": jwt, "sig": signature}
    public = key.public_key().public_bytes(
        serialization.Encoding.Raw, serialization.PublicFormat.Raw
    )
    return {"nkey": _encode_public(public), "sig": signature}


def split_credentials(text: str) -> tuple[str, str]:
    """Return the JWT (empty if there is none) and the seed from a credentials file's text."""
    lines = [line.strip() for line in text.splitlines()]
    words = [line for line in lines if line and not line.startswith(("-", "#", "*", "/"))]
    seeds = [word for word in words if word.startswith("SU") and " " not in word]
    jwts = [word for word in words if word.startswith("eyJ")]
    if not seeds:
        raise OptionError("credentialsFile: expected a user's nkey seed (SU…) in it")
    return (jwts[0] if jwts else ""), seeds[0]


def decode_seed(seed: str) -> bytes:
    """Return the 32 bytes of an Ed25519 seed from its nkey form: prefix, key and CRC in base32."""
    try:
        raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
    except (binascii.Error, ValueError) as error:
        raise OptionError("credentialsFile: the nkey seed is not base32") from error
    body, check = raw[:-2], int.from_bytes(raw[-2:], "little")
    if len(body) != _SEED_BODY_BYTES or not seed.startswith(_SEED_PREFIX_USER):
        raise OptionError("credentialsFile: expected a user's nkey seed of 58 characters")
    if binascii.crc_hqx(body, 0) != check:
        raise OptionError("credentialsFile: the nkey seed has a typing error (its CRC is wrong)")
    return body[2:]


def _encode_public(public: bytes) -> str:
    """Return an nkey's public form: `U`, the key and its CRC in base32."""
    body = _PUBLIC_PREFIX_USER + public
    raw = body + binascii.crc_hqx(body, 0).to_bytes(2, "little")
    return base64.b32encode(raw).rstrip(b"=").decode()
