"""The router's view of a client: where its output goes, what to watch for, and its counts."""

from typing import TYPE_CHECKING, Any

from midge.server.routing.account import Account
from midge.server.routing.outbound import ChunkPool, Outbound
from midge.server.routing.role import Role
from midge.server.routing.slow_path import CLOSED

if TYPE_CHECKING:
    from midge.protocol.frame import Frame
    from midge.sublist.subscription import Subscription

_CLIENT = int(Role.CLIENT)  # a C number where this is compiled


class Client:
    """One receiver of messages, and their sender too; `deliver_checks` holds bits of slow_path.py.

    `role` is one of role.py: most are what NATS calls clients.

    The counts are of messages and of their bytes, header and payload. `dirty` is true while the
    router has unflushed output in `outbound`; it flushes this client, then `next_dirty`.
    """

    def __init__(self, cid: int, account: Account, pool: ChunkPool) -> None:
        self.cid = cid
        self.account = account
        self.outbound = Outbound(pool)
        self.deliver_checks = 0
        self.dirty = False
        self.next_dirty: Client | None = None
        self.role = _CLIENT
        self.in_messages = 0
        self.in_bytes = 0
        self.out_messages = 0
        self.out_bytes = 0

    def checked(
        self, subscription: "Subscription", publisher: "Client | None", frame: "Frame"
    ) -> "Frame | None":
        """Return what may be delivered of `frame`, or None; called if `deliver_checks` is not 0."""
        return None if self.deliver_checks & CLOSED else frame

    def finished(self, subscription: "Subscription") -> None:
        """Called when `subscription` has had all the messages it asked for."""

    def has_room(self, publisher: "Client | None") -> bool:
        """Return whether to queue more while this client is behind; it may hold `publisher`."""
        return True

    def flushed(self) -> None:
        """Called when the router has flushed `outbound`; the socket may not have taken all."""

    def run_goes_on(self, generation: int) -> bool:
        """Return whether the next message of this publisher's run is for the same receivers.

        `generation` is the generation of its account's SubList when the run began.
        """
        return self.account.sublist.generation == generation

    def pause_for(self, receiver: "Client") -> None:
        """Called for a publisher when `receiver` is far behind."""

    def release(self) -> None:
        """Called for a publisher when it may continue."""

    def held_publishers(self) -> "dict[Client, None]":
        """Return the publishers that wait for this receiver, which releases them, to change."""
        return {}

    def reaches(self, link: Any, origin: str) -> bool:
        """Return whether a message of this publisher may go over `link`, to interest of `origin`.

        That is the cluster of the leaf nodes behind the link whose interest it is; empty otherwise.
        """
        return link is not self

    def names_group(self, name: bytes) -> bool:
        """Return whether the current message is for a member of the queue group `name`."""
        return True

    def lines_to(self, subscription: "Subscription") -> "Client | None":
        """Return the handler of further lines that may go straight to `subscription`, else None.

        The lines are PUBs like the current message of this publisher; None: they need checks.
        """
        return None

    # What only links do.

    def forward(
        self, publisher: "Client | None", frame: "Frame", queues: list[bytes] | None
    ) -> bool:
        """Send `frame` to the server behind this link, once; return whether it goes.

        It is for the plain subscriptions there, and for a member of each of the groups `queues`.
        """
        return False

    def forward_parts(self, subject: bytes, payload: bytes) -> bool:
        """Send a message of the server's own, without reply or headers; False: make it a frame."""
        return False

    def takes_run(self, publisher: "Client | None", frame: "Frame") -> bool:
        """Return whether one `forward_run` may replace several calls of `forward`."""
        return False

    def forward_run(self, frame: "Frame", count: int, queues: list[bytes] | None) -> None:
        """Send `count` messages, `frame` the first, that differ in their payloads only.

        Each is for what `forward` says.
        """
