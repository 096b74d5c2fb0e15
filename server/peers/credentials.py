"""The credentials of a link: names and secrets of a URL, a seed, a credentials file."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

from midge.protocol.credentials import decode_user_seed, split_credentials
from midge.protocol.nkeys import USER_PREFIX, encode_nkey

if TYPE_CHECKING:
    from midge.protocol.leaf_messages import LeafConnect
    from midge.server.config.leafnodes import LeafRemote
    from midge.server.peers.addresses import Address

_FILE_MAX_BYTES = 1 << 20


def prove(connect: LeafConnect, remote: LeafRemote, address: Address, nonce: str) -> None:
    """Put the remote's credentials, and a signature of its nonce, into `connect`.

    Raises:
        OSError: the credentials file cannot be read.
        ValueError: the file or the seed is malformed.
    """
    if remote.credentials:
        with Path(remote.credentials).open("rb") as file:
            text = file.read(_FILE_MAX_BYTES).decode(errors="replace")
        connect.jwt, seed = split_credentials(text)
        if not connect.jwt or not seed:
            raise ValueError("expected a user's JWT and seed in the credentials file")
        connect.sig = _sign(seed, nonce)[1]
    elif remote.nkey_seed:
        connect.nkey, connect.sig = _sign(remote.nkey_seed, nonce)
    elif address.user and address.password:
        connect.user, connect.password = address.user, address.password
    elif address.user:
        connect.user = connect.auth_token = address.user  # older servers take it as a token
    elif remote.token:
        connect.auth_token = remote.token
    else:
        connect.user, connect.password = remote.user, remote.password


def _sign(seed: str, nonce: str) -> tuple[str, str]:
    """Return the public key of `seed` and its signature of `nonce`."""
    # Only links with keys pay for importing it.
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PrivateKey,
    )

    key = Ed25519PrivateKey.from_private_bytes(decode_user_seed(seed))
    raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    signature = base64.urlsafe_b64encode(key.sign(nonce.encode())).rstrip(b"=").decode()
    return encode_nkey(bytes([USER_PREFIX]) + raw), signature
