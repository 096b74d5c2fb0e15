"""Credentials files and nkeys: from a user's seed to the signature that CONNECT carries."""

import base64

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from midge.pipeline.errors import OptionError
from midge.protocol.nkeys import USER_PREFIX, decode_nkey, encode_nkey

_SEED_PREFIX_USER = "SU"
_SEED_BODY_BYTES = 34


def sign_nonce(credentials: str, nonce: str) -> dict[str, str]:
    """Return the fields of CONNECT that authenticate by nkey, with the JWT if the text has one.

    `credentials` is a credentials file's text, or a bare user seed (`SU…`).

    Raises:
        OptionError: it holds no valid user seed.

    """
    jwt, seed = split_credentials(credentials)
    key = Ed25519PrivateKey.from_private_bytes(decode_seed(seed))
    signature = base64.urlsafe_b64encode(key.sign(nonce.encode())).rstrip(b"=").decode()
    if jwt:
        return {"jwt": jwt, "sig": signature}
    public = key.public_key().public_bytes(
        serialization.Encoding.Raw, serialization.PublicFormat.Raw
    )
    return {"nkey": encode_nkey(bytes([USER_PREFIX]) + public), "sig": signature}


def split_credentials(text: str) -> tuple[str, str]:
    """Return the JWT (empty if missing) and the seed from a credentials file's text."""
    lines = [line.strip() for line in text.splitlines()]
    words = [line for line in lines if line and not line.startswith(("-", "#", "*", "/"))]
    seeds = [word for word in words if word.startswith("SU") and " " not in word]
    jwts = [word for word in words if word.startswith("eyJ")]
    if not seeds:
        raise OptionError("credentialsFile: expected a user's nkey seed (SU…) in it")
    return (jwts[0] if jwts else ""), seeds[0]


def decode_seed(seed: str) -> bytes:
    """Return the 32 bytes of a user's Ed25519 seed from its nkey form."""
    try:
        body = decode_nkey(seed)
    except ValueError as error:
        raise OptionError(f"credentialsFile: the nkey seed {error}") from error
    if len(body) != _SEED_BODY_BYTES or not seed.startswith(_SEED_PREFIX_USER):
        raise OptionError("credentialsFile: expected a user's nkey seed of 58 characters")
    return body[2:]
