"""The names a server gives itself at each start: its id and its key-exchange key, as nkeys."""

import os

from midge.server.auth.nkeys import KeyKind, encode_public_key

_KEY_BYTES = 32


class ServerKeys:
    """`server_id` and `xkey`, 56 characters each; new ones every time."""

    def __init__(self) -> None:
        self.server_id = encode_public_key(KeyKind.SERVER, os.urandom(_KEY_BYTES))
        self.xkey = encode_public_key(KeyKind.CURVE, os.urandom(_KEY_BYTES))
