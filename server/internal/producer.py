"""A client without a connection: what the server itself publishes with, so that it can be held."""

from collections.abc import Callable

from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.role import Role

_NO_CHUNKS = ChunkPool()  # nothing is ever written to a producer


class Producer(Client):
    """A producer of messages within the server; `role` says for what.

    It has no cid, 0 in records, and is in no list, count or metric of clients. `held_by` is the
    receiver that is far behind with what it was sent: until that has caught up, or has gone, the
    producer must send nothing more. Then `released` is called, if it is set.
    """

    def __init__(self, account: Account, role: Role) -> None:
        Client.__init__(self, 0, account, _NO_CHUNKS)
        self.role = role
        self.held_by: Client | None = None
        self.released: Callable[[], object] | None = None

    def hold_for(self, receiver: Client) -> None:
        """Wait for `receiver`, unless another one is waited for already."""
        if self.held_by is None:
            self.held_by = receiver
            receiver.held(self)

    def release(self) -> None:
        """Go on."""
        if self.held_by is not None:
            self.held_by = None
            if self.released is not None:
                self.released()
