"""Keys and ciphers of an encrypted store.

The user's key is stretched with the store's id. The result wraps the store's key, which is random,
lies in the store's identity and never changes, so that a new user's key changes two small files
only. The store's key wraps the data keys: each file has its own random one, and each byte of
its key stream encrypts the byte at one position, once. Keys are wrapped by RFC 3394, which needs no
nonce.

The key stream hides data and does not authenticate it, as in nats-server: checksums detect
accidental damage, but not changes by an attacker who can write to the disk.
"""

from __future__ import annotations

from collections.abc import Callable

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES, ChaCha20
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap

from midge.jetstream.store.interface import StoreKeyError

KEY_SIZE = 32
WRAPPED_SIZE = 40

CHACHA = "chacha"
AES_CTR = "aes"

_BLOCKS = {CHACHA: 64, AES_CTR: 16}

# 16 MiB and some 50 ms, once at a start: what RFC 7914 recommends for an interactive use.
_SCRYPT_N = 1 << 14
_SCRYPT_R = 8


def stretched(key: bytes, salt: bytes) -> bytes:
    """Return the wrapping key that is derived from a user's key, in some 50 ms."""
    return Scrypt(salt=salt, length=KEY_SIZE, n=_SCRYPT_N, r=_SCRYPT_R, p=1).derive(key)


class UserKeys:
    """The user's key, the one before it, and the cipher to write with.

    `stretch` makes wrapping keys of them and of the store's id; tests have a faster one.
    """

    def __init__(
        self,
        current: bytes,
        previous: bytes = b"",
        cipher: str = CHACHA,
        stretch: Callable[[bytes, bytes], bytes] = stretched,
    ) -> None:
        self.current = current
        self.previous = previous
        self.cipher = cipher
        self._stretch = stretch

    def wrap(self, store_key: bytes, store_id: bytes) -> bytes:
        """Return the store's key as it is written down."""
        return aes_key_wrap(self._stretch(self.current, store_id), store_key)

    def unwrap(self, wrapped: bytes, store_id: bytes) -> tuple[bytes, bool]:
        """Return the store's key, and whether the current key opened it.

        Raises:
            StoreKeyError: neither key opens it.
        """
        for key in filter(None, (self.current, self.previous)):
            try:
                return aes_key_unwrap(self._stretch(key, store_id), wrapped), key is self.current
            except InvalidUnwrap:
                continue
        raise StoreKeyError("the store is encrypted with another key")


def wrap(store_key: bytes, data_key: bytes) -> bytes:
    """Return a data key as a file holds it."""
    return aes_key_wrap(store_key, data_key)


def unwrap(store_key: bytes, wrapped: bytes) -> bytes | None:
    """Return a file's data key; None when it is damaged."""
    try:
        return aes_key_unwrap(store_key, wrapped)
    except InvalidUnwrap:
        return None


class KeyStream:
    """The key stream of one file, from any position on."""

    def __init__(self, cipher: str, data_key: bytes) -> None:
        self.cipher = cipher
        self._key = data_key
        self._block = _BLOCKS[cipher]

    def apply(self, data: bytes | bytearray | memoryview, position: int) -> bytes:
        """Encrypt or decrypt the bytes at `position` of the file."""
        return self._context(position).update(data)

    def apply_into(
        self, data: bytes | bytearray | memoryview, position: int, result: memoryview
    ) -> None:
        """Do the same into `result`, which must be a block longer than `data`."""
        self._context(position).update_into(data, result)

    def _context(self, position: int) -> CipherContext:
        count, offset = divmod(position, self._block)
        if self.cipher == AES_CTR:
            cipher = Cipher(AES(self._key), CTR(count.to_bytes(16, "big")))
            context = cipher.encryptor()
        else:
            context = Cipher(ChaCha20(self._key, count.to_bytes(16, "little")), None).encryptor()
        if offset:
            context.update(bytes(offset))
        return context
