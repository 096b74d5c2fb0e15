"""The keys of a server, new at each start: its id, and its key for encryption, as nkeys."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from midge.server.auth.nkeys import KeyKind, encode_public_key

if TYPE_CHECKING:
    from midge.server.auth.signing import ServerSigner
    from midge.server.config.options import Options

_KEY_BYTES = 32


class ServerKeys:
    """`server_id` and `xkey`, 56 characters each; new ones, unless another process has made them.

    Where nothing is ever signed or sealed they are random and no keys, which spares a start the
    import of the cryptography: 20 ms. `seeds` are what the keys are made of that sign and seal, the
    same in all workers of a server.
    """

    def __init__(
        self,
        server_id: str = "",
        xkey: str = "",
        seeds: tuple[bytes, bytes] | None = None,
        *,
        are_used: bool = False,
    ) -> None:
        """Make the keys; with `are_used` there is something to sign from the start."""
        self._signer: ServerSigner | None = None
        self.seeds = seeds or (os.urandom(_KEY_BYTES), os.urandom(_KEY_BYTES))
        random = os.urandom(_KEY_BYTES)
        self.server_id = server_id or encode_public_key(KeyKind.SERVER, random)
        self.xkey = xkey or encode_public_key(KeyKind.CURVE, os.urandom(_KEY_BYTES))
        if are_used:
            self.server_id = self.signer().public

    def signer(self) -> ServerSigner:
        """Return what signs and seals for this server.

        Its public key is `server_id`, unless a reload has brought the first use of it.
        """
        if self._signer is None:
            from midge.server.auth.signing import ServerSigner  # noqa: PLC0415 - see above

            self._signer = ServerSigner(*self.seeds)
            self.xkey = self._signer.curve.public
        return self._signer


def may_delegate(options: Options) -> bool:
    """Tell whether `options`, or tokens that they trust, may let a service decide on clients."""
    operator = options.operator
    named = options.authorization.auth_callout.issuer
    return bool(named or operator.jwts or operator.trusted_keys)
