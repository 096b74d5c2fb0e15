"""The keys with which a server signs and seals."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from midge.server.auth.nkeys import KeyKind, encode_public_key
from midge.server.auth.xkeys import CurveKey


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
