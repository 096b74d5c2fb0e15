"""The keys of a server, new at each start: its id, and its key for encryption, as nkeys."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from midge.server.auth.nkeys import KeyKind, encode_public_key

if TYPE_CHECKING:
    from midge.server.auth.xkeys import ServerSigner
    from midge.server.config.options import Options

_KEY_BYTES = 32


class ServerKeys:
    """`server_id` and `xkey`, 56 characters each, new unless another process has made them.

    If nothing is ever signed or sealed, they are random text instead of keys, which saves 20 ms of
    a start for importing the cryptography. `seeds` are the seeds of the keys that sign and seal;
    all workers of a server have the same.
    """

    def __init__(
        self,
        server_id: str = "",
        xkey: str = "",
        seeds: tuple[bytes, bytes] | None = None,
        *,
        are_used: bool = False,
    ) -> None:
        """Make the keys; with `are_used`, real keys are needed from the start."""
        self._signer: ServerSigner | None = None
        self.seeds = seeds or (os.urandom(_KEY_BYTES), os.urandom(_KEY_BYTES))
        random = os.urandom(_KEY_BYTES)
        self.server_id = server_id or encode_public_key(KeyKind.SERVER, random)
        self.xkey = xkey or encode_public_key(KeyKind.CURVE, os.urandom(_KEY_BYTES))
        if are_used:
            self.server_id = self.signer().public

    def signer(self) -> ServerSigner:
        """Return the signer that signs and seals for this server.

        Its public key is `server_id`, unless keys are used only since a reload.
        """
        if self._signer is None:
            from midge.server.auth.xkeys import ServerSigner  # noqa: PLC0415 - see above

            self._signer = ServerSigner(*self.seeds)
            self.xkey = self._signer.curve.public
        return self._signer


def may_delegate(options: Options) -> bool:
    """Return whether `options`, or tokens that they trust, may let a service decide on clients."""
    operator = options.operator
    named = options.authorization.auth_callout.issuer
    return bool(named or operator.jwts or operator.trusted_keys)
