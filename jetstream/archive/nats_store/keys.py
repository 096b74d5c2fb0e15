"""The keys of nats-server's encrypted files, derived from the one in its configuration.

`HMAC-SHA256(key, account + context)` opens the `.key` file of a stream, a block or a consumer; what
that holds is the file's own key. ChaCha means XChaCha20 with nonces of 24 bytes, AES means
AES-256-GCM and, for blocks, counter mode with nonces of 16 bytes. A block is encrypted with the
nonce of its `.key` file and is not authenticated; its records have checksums.
"""

from __future__ import annotations

import hmac
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import AES, ChaCha20
from cryptography.hazmat.primitives.ciphers.modes import CTR

from midge.jetstream.archive.entries import ArchiveError

_SIGMA = b"expand 32-byte k"


class _Aes:
    nonce_size = 16

    def sealed(self, key: bytes, nonce: bytes, data: bytes) -> bytes:
        """Decrypt and authenticate `data`; raises InvalidTag."""
        return AESGCM(key).decrypt(nonce, data, None)

    def stream(self, key: bytes, nonce: bytes, data: bytes) -> bytes:
        """Decrypt `data` without authentication."""
        return Cipher(AES(key), CTR(nonce)).decryptor().update(data)


class _XChaCha:
    nonce_size = 24

    def sealed(self, key: bytes, nonce: bytes, data: bytes) -> bytes:
        return ChaCha20Poly1305(subkey(key, nonce)).decrypt(bytes(4) + nonce[16:], data, None)

    def stream(self, key: bytes, nonce: bytes, data: bytes) -> bytes:
        algorithm = ChaCha20(subkey(key, nonce), bytes(8) + nonce[16:])
        return Cipher(algorithm, None).decryptor().update(data)


_CIPHERS = (_XChaCha(), _Aes())


def subkey(key: bytes, nonce: bytes) -> bytes:
    """Return HChaCha20 of a key and the first 16 bytes of a nonce.

    ChaCha20 gives the words after its rounds, plus those it began with: these are subtracted.
    """
    begin = _SIGMA + key + nonce[:16]
    block = Cipher(ChaCha20(key, nonce[:16]), None).encryptor().update(bytes(64))
    words = [
        int.from_bytes(block[at : at + 4], "little") - int.from_bytes(begin[at : at + 4], "little")
        for at in (0, 4, 8, 12, 48, 52, 56, 60)
    ]
    return b"".join((word & 0xFFFFFFFF).to_bytes(4, "little") for word in words)


class FileKey:
    """The key of one file or of the files beside it."""

    def __init__(self, cipher: _XChaCha | _Aes, key: bytes, nonce: bytes) -> None:
        self._cipher = cipher
        self._key = key
        self._nonce = nonce

    def open(self, data: bytes) -> bytes:
        """Return what a sealed file holds, which begins with its nonce; raises ArchiveError."""
        size = self._cipher.nonce_size
        try:
            return self._cipher.sealed(self._key, data[:size], data[size:])
        except (InvalidTag, ValueError):
            raise ArchiveError("it is encrypted, and damaged") from None

    def decrypt(self, data: bytes) -> bytes:
        """Return what a block holds."""
        return self._cipher.stream(self._key, self._nonce, data)


class AccountKeys:
    """Opens the `.key` files of one account with the configured `keys`."""

    def __init__(self, account: str, keys: tuple[bytes, ...]) -> None:
        self._account = account.encode("utf-8", "surrogateescape")
        self._keys = keys

    def find(self, context: str, stored: bytes) -> FileKey:
        """Return the key in a `.key` file.

        `context` is the stream's name, behind it a colon and a block's number, or a dot and a
        consumer's name.

        Raises:
            ArchiveError: none of the keys opens it, with either cipher.
        """
        if not self._keys:
            raise ArchiveError("it is encrypted; --nats-key-file has to name the file of its key")
        text = self._account + context.encode("utf-8", "surrogateescape")
        for key in self._keys:
            derived = hmac.new(key, text, sha256).digest()
            for cipher in _CIPHERS:
                nonce = stored[: cipher.nonce_size]
                try:
                    seed = cipher.sealed(derived, nonce, stored[cipher.nonce_size :])
                except (InvalidTag, ValueError):
                    continue
                return FileKey(cipher, seed, nonce)
        raise ArchiveError("it is encrypted with another key")
