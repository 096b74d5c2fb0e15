"""Two servers joined by a leaf node link or a route, as one server under test."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import frames, procfs, servers, wire

SIDES = ("out", "in", "route_out", "route_in", "route_s2")
"""Direction of messages, seen from the leaf node, or from the server that has opened the route; in
the last case it goes out, and the route is compressed."""

_LINK_TIMEOUT_S = 20.0
_POLL_S = 0.01
_PROBE = b"probe"
_HUB = 'leafnodes {{ listen: "127.0.0.1:{port}", compression: {mode} }}\n'
_FIRST = 'cluster {{ name: bench, listen: "127.0.0.1:{port}", compression: {mode} }}\n'
_SECOND = (
    'cluster {{ name: bench, listen: "127.0.0.1:-1", compression: {mode},'
    ' routes: ["nats-route://127.0.0.1:{port}"] }}\n'
)
_LEAF = (
    'leafnodes {{ remotes: [ {{ url: "nats-leaf://127.0.0.1:{port}", compression: {mode} }} ] }}\n'
)


@dataclass(frozen=True)
class LinkedServers(servers.Server):
    """A leaf node and its hub, or two servers of a cluster.

    Publishers connect to `address`, and subscribers to the other server.
    """

    other_pid: int = 0
    far_address: wire.Address | None = None

    @property
    def subscriber_address(self) -> wire.Address:
        """The address for subscribers."""
        return self.far_address or self.address

    def cpu_s(self) -> float:
        """Return the CPU time of both servers so far."""
        return procfs.cpu_s(self.pid) + procfs.cpu_s(self.other_pid)

    def rss_bytes(self) -> int:
        """Return the resident memory of both."""
        return procfs.rss_bytes(self.pid) + procfs.rss_bytes(self.other_pid)

    def settle(self) -> None:
        """Wait until the publishers' server knows all subscriptions.

        Interest crosses a link in order, so this waits until a later subscription gets a message.

        Raises:
            StartError: that takes too long.
        """
        subscriber, publisher = wire.connect(self.subscriber_address), wire.connect(self.address)
        deadline = time.monotonic() + _LINK_TIMEOUT_S
        with subscriber, publisher:
            subscriber.sendall(frames.sub(_PROBE, b"1"))
            wire.round_trip(subscriber)
            while not _reaches(publisher, subscriber, b"probe"):
                if time.monotonic() > deadline:
                    raise servers.StartError(f"{self.name}: no link after {_LINK_TIMEOUT_S:g} s")
            # After this one, no earlier probe can still arrive.
            while not _reaches(publisher, subscriber, b"last one"):
                pass


def _reaches(publisher: socket.socket, subscriber: socket.socket, payload: bytes) -> bool:
    """Send a probe, and return whether it arrives in time."""
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
    """Run the two servers; with `side` "out", publishers use the server that connects."""
    with TemporaryDirectory() as name, ExitStack() as stack:
        port = servers.free_port()
        started = []
        is_route = side.startswith("route_")
        for role, text in enumerate((_FIRST, _SECOND) if is_route else (_HUB, _LEAF)):
            file = Path(name) / f"{role}.conf"
            mode = "s2_fast" if side == "route_s2" else "off"
            file.write_text(text.format(port=port, mode=mode))
            started.append(stack.enter_context(servers.running(command, ("-c", str(file)))))
        accepting, connecting = started
        goes_out = side in {"out", "route_out", "route_s2"}
        near, far = (connecting, accepting) if goes_out else (accepting, connecting)
        yield LinkedServers(
            command.name, near.pid, near.address, other_pid=far.pid, far_address=far.address
        )
