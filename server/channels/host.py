"""The state that the channels of one server share."""

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

from midge.protocol.errors import ProtocolError
from midge.protocol.inbound import SharedBuffer
from midge.server import clock as machine_clock
from midge.server.channels.busy_poll import BusyPoll
from midge.server.channels.fair_turns import CloseQueue, FairTurns
from midge.server.clock import Clock, LoopClock
from midge.server.config.options import Options
from midge.server.log.logger import get_logger
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.router import Router

if TYPE_CHECKING:
    from midge.server.channels.ready_sockets import ReadySockets
    from midge.server.routing.client import Client

log = get_logger()


class Host:
    """The state that a read, a publish and a close need; the server's Broker extends it.

    `clock` and `random` are the only sources of time and of random numbers. `finishing` has the
    channels without a transport whose input is not all processed yet. `limit_hits` counts refusals
    and closes by the name of the limit, and `stalled_clients` counts how often reading from a
    publisher was paused. `surplus` has the cids of connections that the parent process counted over
    the limit. `busy_poll` exists if the loop serves only this server, and `ready_sockets` from the
    first plain socket on.
    """

    def __init__(self, options: Options, clock: Clock, random: Random, router: Router) -> None:
        self.options = options
        self.clock = clock
        self.random = random
        self.router = router
        self.turns = FairTurns(clock)
        self.close_queue = CloseQueue(self.turns, clock)
        self.shared_buffer = SharedBuffer()
        self.chunks = ChunkPool()
        self.finishing: set[object] = set()
        self.limit_hits: Counter[str] = Counter()
        self.stalled_clients = 0
        self.surplus: set[int] = set()
        self.busy_poll: BusyPoll | None = None
        self.ready_sockets: ReadySockets | None = None
        self._has_real_time = type(clock) is LoopClock

    def now(self) -> float:
        """Return the clock's monotonic time; a real clock is read without a Python call."""
        if self._has_real_time:
            return machine_clock.monotonic_ns() / 1e9
        return self.clock.monotonic()

    def read_ready(self) -> None:
        """Read the plain sockets that are ready."""
        if self.ready_sockets is not None:
            self.ready_sockets.read()

    def write_timed_out(self, owner: "Client", peer: str, deadline_s: float) -> None:
        """Log that a connection that took only some of its output in time stays open."""
        log.info("slow_consumer_stays", cid=owner.cid, peer=peer, deadline_s=deadline_s)

    def protocol_error(self, cid: int, peer: str, error: ProtocolError) -> None:
        """Log a peer's protocol error."""
        log.error("protocol_error", cid=cid, peer=peer, error=error.detail)
