"""The keys of encrypted files; files of nats-server itself are in tests/e2e/store_commands."""

from __future__ import annotations

import hmac
from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from midge.jetstream.archive.entries import ArchiveError
from midge.jetstream.archive.nats_store.keys import AccountKeys, subkey


def test_the_subkey_is_that_of_the_draft() -> None:
    """The example of draft-irtf-cfrg-xchacha, section 2.2.1."""
    nonce = bytes.fromhex("000000090000004a0000000031415927")
    expected = "82413b4227b27bfed30e42508a877d73a0f9e4d58a74a853c12ec41326d3ecdc"
    assert subkey(bytes(range(32)), nonce).hex() == expected


def test_a_damaged_file_is_told() -> None:
    nonce, seed = bytes(range(16)), bytes(range(32))
    derived = hmac.new(b"secret", b"$GS", sha256).digest()
    stored = nonce + AESGCM(derived).encrypt(nonce, seed, None)
    key = AccountKeys("$G", (b"old", b"secret")).find("S", stored)
    sealed = nonce + AESGCM(seed).encrypt(nonce, b"text", None)
    assert key.open(sealed) == b"text"
    for damaged in (sealed[:-1], b"", sealed[:16], bytes(len(sealed))):
        with pytest.raises(ArchiveError, match="damaged"):
            key.open(damaged)
    for other in (AccountKeys("$G", (b"old",)), AccountKeys("A", (b"secret",))):
        with pytest.raises(ArchiveError, match="another key"):
            other.find("S", stored)
    with pytest.raises(ArchiveError, match="another key"):
        AccountKeys("$G", (b"secret",)).find("S", b"short")
