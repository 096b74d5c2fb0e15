"""A link's branch for one account: messages of that account go over it and come in.

A route and a link between workers carry every account; a leaf node link belongs to one, and is its
own branch.
"""

from typing import Any

from midge.protocol.frame import Frame
from midge.server.peers.link import Link
from midge.server.peers.outbound import Heads
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.sublist.subscription import RemoteSubscription


class Branch(Client):
    """The branch of `link` for `account`, which is called `name` on the wire.

    The other server has announced `interest`, and gets this server's interest by `announcer`.
    `cluster` names a leaf node's cluster, and is empty here.
    """

    def __init__(self, link: Link, account: Account, name: bytes) -> None:
        Client.__init__(self, link.cid, account, link.broker.chunks)
        self.role = link.role
        self.link = link
        self.name = name
        self.cluster = ""
        self.announcer: Any = None
        self.interest: list[RemoteSubscription] = []
        self.heads = Heads(b"RMSG %b " % name, b"HMSG %b " % name)

    def send(self, piece: bytes) -> None:
        """Send a line."""
        self.link.send(piece)

    # As a publisher it is the link.

    def names_group(self, name: bytes) -> bool:
        """Return whether the current line names the queue group `name`."""
        return self.link.names_group(name)

    def run_goes_on(self, generation: int) -> bool:
        """Return whether nothing has halted the parser, and the next message is for the same."""
        return not self.link.parser.halted and self.account.sublist.generation == generation

    def pause_for(self, receiver: Client) -> None:
        """Pause reading after the current batch, because `receiver` is far behind."""
        self.link.pause_for(receiver)

    # As a receiver.

    def forward(self, publisher: Client | None, frame: Frame, queues: list[bytes] | None) -> bool:
        """Send `frame` over the link, and tell whether it goes."""
        return self.link.send_message(publisher, frame, self.heads, queues)

    def takes_run(self, publisher: Client | None, frame: Frame) -> bool:
        """Return whether nothing but the subject decides, and that is allowed."""
        return self.link.sends_run(frame)

    def forward_run(self, frame: Frame, count: int, queues: list[bytes] | None) -> None:
        """Send `count` messages, `frame` the first, that differ in their payloads only."""
        self.link.send_run(frame, self.heads, count, queues)
