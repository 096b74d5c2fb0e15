"""Sources of account tokens: memory, or a directory of ``<account key>.jwt`` files.

The name of a file is built only from a checked public key, never from other text, and the file must
be in the directory itself: a symbolic link out of it is not followed.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from midge.server.auth.claims import TOKEN_MAX_BYTES
from midge.server.auth.nkeys import KeyKind, is_public_key

if TYPE_CHECKING:
    from collections.abc import Mapping


class ResolverFullError(Exception):
    """The directory has as many tokens as it may."""


class MemoryResolver:
    """Tokens that the configuration preloads."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        """Keep `tokens` by account key."""
        self._tokens = dict(tokens)

    def fetch(self, account_key: str) -> str | None:
        """Return the token of the account with this public key, or None."""
        return self._tokens.get(account_key)

    def replace(self, account_key: str, token: str) -> None:
        """Keep another token of an account."""
        self._tokens[account_key] = token


class DirectoryResolver:
    """Reads tokens from files at each look-up, so a replaced file applies to the next client."""

    def __init__(self, directory: Path, preloaded: Mapping[str, str]) -> None:
        """Search `directory` first, then `preloaded`."""
        self._directory = directory.resolve()
        self._preloaded = dict(preloaded)

    def fetch(self, account_key: str) -> str | None:
        """Return the token of the account with this public key, or None."""
        if not is_public_key(KeyKind.ACCOUNT, account_key):
            return None
        return self._read(account_key) or self._preloaded.get(account_key)

    def accounts(self) -> list[str]:
        """List the accounts that there are tokens of."""
        stored = {path.stem for path in self._directory.glob("A*.jwt")}
        known = stored | self._preloaded.keys()
        return sorted(key for key in known if is_public_key(KeyKind.ACCOUNT, key))

    def store(self, account_key: str, token: str, most: int = 0) -> None:
        """Write the token of an account; a reader never sees a part of it.

        Raises:
            StoreFullError: there are `most` accounts already; 0 means no limit.
            OSError: the file cannot be written.
        """
        known = self.accounts()
        if 0 < most <= len(known) and account_key not in known:
            raise ResolverFullError("jwt store is full")
        self._directory.mkdir(parents=True, exist_ok=True)
        partial = self._directory / f".{account_key}.jwt"
        partial.write_text(token, encoding="ascii")
        partial.replace(self._directory / f"{account_key}.jwt")

    def delete(self, account_key: str, *, for_good: bool) -> None:
        """Remove the token of an account, or keep it under a name that ends in `.deleted`.

        Raises:
            OSError: the file cannot be removed.
        """
        self._preloaded.pop(account_key, None)
        path = self._directory / f"{account_key}.jwt"
        if for_good:
            path.unlink(missing_ok=True)
        elif path.exists():
            path.replace(path.with_name(f"{path.name}.deleted"))

    def _read(self, account_key: str) -> str | None:
        """Return the text of the account's file, or None if it is not a readable file."""
        path = self._directory / f"{account_key}.jwt"
        if path.resolve() != path:
            return None
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return None
        with os.fdopen(descriptor, "rb") as file:
            text = file.read(TOKEN_MAX_BYTES + 1)
        if len(text) > TOKEN_MAX_BYTES:
            return None
        return text.decode("ascii", errors="replace").strip()
