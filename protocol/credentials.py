"""Credentials files, and the seeds of users in them: read, not used."""

from midge.protocol.nkeys import decode_nkey

_SEED_BYTES = 34  # two bytes for the kind, and 32 bytes of key


def split_credentials(text: str) -> tuple[str, str]:
    """Return the JWT and the seed in the text of a credentials file, each empty if missing."""
    lines = [line.strip() for line in text.splitlines()]
    jwt = next((line for line in lines if line.startswith("eyJ")), "")
    seed = next((line for line in lines if line.startswith("SU") and " " not in line), "")
    return jwt, seed


def decode_user_seed(seed: str) -> bytes:
    """Return the 32 bytes of a user's Ed25519 seed from its nkey form (``SU…``).

    Raises:
        ValueError: it is not a seed; the message says why, without the seed.
    """
    body = decode_nkey(seed)
    if len(body) != _SEED_BYTES or not seed.startswith("SU"):
        raise ValueError("is not the seed of a user")
    return body[2:]
