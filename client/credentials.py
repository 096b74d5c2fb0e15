"""Credentials files and nkeys: from a user's seed to the signature that CONNECT carries."""

import base64

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from midge.client.errors import OptionError
from midge.protocol.credentials import decode_user_seed, split_credentials
from midge.protocol.nkeys import USER_PREFIX, encode_nkey


def sign_nonce(credentials: str, nonce: str) -> dict[str, str]:
    """Return the fields of CONNECT that authenticate by nkey, with the JWT if the text has one.

    `credentials` is a credentials file's text, or a bare user seed (`SU…`).

    Raises:
        OptionError: it holds no valid user seed.

    """
    jwt, seed = split_credentials(credentials)
    if not seed:
        raise OptionError("credentialsFile: expected a user's nkey seed (SU…) in it")
    key = Ed25519PrivateKey.from_private_bytes(_decode(seed))
    signature = base64.urlsafe_b64encode(key.sign(nonce.encode())).rstrip(b"=").decode()
    if jwt:
        return {"jwt": jwt, "sig": signature}
    public = key.public_key().public_bytes(
        serialization.Encoding.Raw, serialization.PublicFormat.Raw
    )
    return {"nkey": encode_nkey(bytes([USER_PREFIX]) + public), "sig": signature}


def _decode(seed: str) -> bytes:
    try:
        return decode_user_seed(seed)
    except ValueError as error:
        raise OptionError(f"credentialsFile: the nkey seed {error}") from error
