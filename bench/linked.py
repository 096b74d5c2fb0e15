"""Two servers that a leaf node link or a route joins, as one under test."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import frames, procfs, servers, wire

SIDES = ("out", "in", "route_out", "route_in")
"""Which way messages go, seen from the leaf node, or from the server that has opened a route."""

_LINK_TIMEOUT_S = 20.0
_POLL_S = 0.01
_PROBE = b"probe"
_HUB = 'leafnodes {{ listen: "127.0.0.1:{port}", compression: off }}\n'
_FIRST = 'cluster {{ name: bench, listen: "127.0.0.1:{port}", compression: off }}\n'
_SECOND = (
    'cluster {{ name: bench, listen: "127.0.0.1:-1", compression: off,'
    ' routes: ["nats-route://127.0.0.1:{port}"] }}\n'
)
_LEAF = 'leafnodes {{ remotes: [ {{ url: "nats-leaf://127.0.0.1:{port}", compression: off }} ] }}\n'


@dataclass(frozen=True)
class LinkedServers(servers.Server):
    """A leaf node and its hub, or two servers of a cluster.

    Publishers are at `address`, and subscribers at the other one.
    """

    other_pid: int = 0
    far_address: wire.Address | None = None

    @property
    def subscriber_address(self) -> wire.Address:
        """Where subscribers connect."""
        return self.far_address or self.address

    def cpu_s(self) -> float:
        """Return the CPU time that both have used so far."""
        return procfs.cpu_s(self.pid) + procfs.cpu_s(self.other_pid)

    def rss_bytes(self) -> int:
        """Return the resident memory of both."""
        return procfs.rss_bytes(self.pid) + procfs.rss_bytes(self.other_pid)

    def settle(self) -> None:
        """Return when what subscribers have subscribed to is known at the publishers' server.

        Interest goes over a link in order, so it is when a later subscription is reached.

        Raises:
            StartError: it is not in time.
        """
        subscriber, publisher = wire.connect(self.subscriber_address), wire.connect(self.address)
        deadline = time.monotonic() + _LINK_TIMEOUT_S
        with subscriber, publisher:
            subscriber.sendall(frames.sub(_PROBE, b"1"))
            wire.round_trip(subscriber)
            while not _reaches(publisher, subscriber, b"probe"):
                if time.monotonic() > deadline:
                    raise servers.StartError(f"{self.name}: no link after {_LINK_TIMEOUT_S:g} s")
            # Behind it no earlier probe is under way any more.
            while not _reaches(publisher, subscriber, b"last one"):
                pass


def _reaches(publisher: socket.socket, subscriber: socket.socket, payload: bytes) -> bool:
    """Send a probe, and tell whether it arrives in time."""
    publisher.sendall(frames.pub(_PROBE, payload))
    subscriber.settimeout(_POLL_S)
    seen = b""
    try:
        while payload not in seen:
            data = subscriber.recv(4096)
            if not data:
                raise wire.WireError("the server closed the connection of a probe")
            seen = seen[-4096:] + data
    except TimeoutError:
        return False
    return True


@contextmanager
def running(command: servers.Command, side: str) -> Iterator[LinkedServers]:
    """Run the two servers; with a `side` of "out", publishers are at the one that connects."""
    with TemporaryDirectory() as name, ExitStack() as stack:
        port = servers.free_port()
        started = []
        is_route = side.startswith("route_")
        for role, text in enumerate((_FIRST, _SECOND) if is_route else (_HUB, _LEAF)):
            file = Path(name) / f"{role}.conf"
            file.write_text(text.format(port=port))
            started.append(stack.enter_context(servers.running(command, ("-c", str(file)))))
        accepting, connecting = started
        goes_out = side in {"out", "route_out"}
        near, far = (connecting, accepting) if goes_out else (accepting, connecting)
        yield LinkedServers(
            command.name, near.pid, near.address, other_pid=far.pid, far_address=far.address
        )
