"""A client without a connection: it publishes internal messages and can be held back."""

from collections.abc import Callable

from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.role import Role

_NO_CHUNKS = ChunkPool()  # nothing is ever written to a producer


class Producer(Client):
    """A producer of messages within the server; `role` names its purpose.

    It has no cid (0 in records), and is in no list, count or metric of clients. `held_by` is a
    receiver with too much unsent output: the producer must not send until that has caught up or
    closed. Then `released` is called, if it is set.
    """

    def __init__(self, account: Account, role: Role) -> None:
        Client.__init__(self, 0, account, _NO_CHUNKS)
        self.role = role
        self.held_by: Client | None = None
        self.released: Callable[[], object] | None = None

    def pause_for(self, receiver: Client) -> None:
        """Wait for `receiver`, unless already waiting for another one."""
        if self.held_by is None:
            self.held_by = receiver
            receiver.held_publishers()[self] = None

    def release(self) -> None:
        """Resume: clear `held_by` and call `released`."""
        if self.held_by is not None:
            self.held_by = None
            if self.released is not None:
                self.released()
