"""A server in a cluster without sockets, and the routes that a test speaks for."""

from __future__ import annotations

import json
from random import Random
from typing import Any, cast

from midge.protocol.frame import compose
from midge.protocol.route_messages import GOSSIP_DEFAULT
from midge.server.broker.broker import Broker
from midge.server.config import options as tables
from midge.server.peers.cluster import Cluster
from midge.server.peers.dial import Address
from midge.server.peers.ledger import Ledger
from midge.server.peers.link import Link
from midge.server.peers.route import route_link
from midge.server.peers.route_end import ROUTE_ENDS, AcceptedRoute, RouteEnd, SolicitedRoute
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.subscription import RoutedSubscription
from midge.testing import ManualClock
from tests.support.transports import Transport

PEER = {
    "server_id": "NPEER",
    "server_name": "PEER",
    "host": "h",
    "port": 1,
    "headers": True,
    "max_payload": 1 << 20,
    "cluster": "C1",
    "lnoc": True,
    "lnocu": True,
}


class Blockable(Transport):
    """A transport that may stop taking output."""

    is_stuck = False

    def get_write_buffer_size(self) -> int:
        return len(self.written) if self.is_stuck else 0


class Route:
    """One route of a `World`, and the output to it."""

    def __init__(self, world: World, side: RouteEnd, host: str) -> None:
        cid = world.broker.take_cid()
        self.link = route_link(world.broker, cid, (host, 1), side, 30)
        self.side = side
        self._transport = Blockable()
        self.link.channel.connection_made(self._transport)

    def say(self, *lines: str) -> Route:
        """Receive lines."""
        self.link.channel.feed("".join(f"{line}\r\n" for line in lines).encode())
        return self

    def connect(self, **fields: Any) -> Route:
        return self.say(f"CONNECT {json.dumps({'name': 'NPEER', 'cluster': 'C1', **fields})}")

    def introduce(self, **fields: Any) -> Route:
        return self.say(f"INFO {json.dumps({**PEER, **fields})}")

    def take(self) -> list[str]:
        """Return the lines written since the last time, those of $SYS left out."""
        self.link.router.flush()
        lines = self._transport.take().decode().split("\r\n")[:-1]
        return [line for line in lines if "$SYS" not in line]

    def infos(self) -> list[dict[str, Any]]:
        return [json.loads(line[5:]) for line in self.take() if line.startswith("INFO ")]

    def block(self) -> None:
        """Make the socket take nothing from now on."""
        self._transport.is_stuck = True

    @property
    def is_up(self) -> bool:
        return self.link.reason is None and self.link.is_ready


class Dialling:
    """What opens routes, as a SolicitedRoute sees it."""

    def __init__(self, *, is_explicit: bool = True, gossip_mode: int = GOSSIP_DEFAULT) -> None:
        self.address = Address("h", 1, "u", "p")
        self.is_explicit = is_explicit
        self.gossip_mode = gossip_mode
        self.place = 0
        self.joins = self.ends = 0

    def joined(self) -> None:
        self.joins += 1

    def ended(self, link: Link) -> None:
        self.ends += 1


class World:
    """A server in a cluster, without sockets."""

    def __init__(self, jetstream: bool = False, **cluster: Any) -> None:
        options = tables.Options(
            server_name="ME",
            cluster=tables.Cluster(**{"name": "C1", "port": -1, **cluster}),
            jetstream=tables.JetStream(enabled=jetstream),
            limits=tables.Limits(max_subscriptions=5),
        )
        self.clock = ManualClock()
        self.broker = Broker(options, self.clock, Random(1))
        self.ledger = Ledger(self.broker.admission.links)
        self.broker.observers.append(self.ledger)
        self.cluster = Cluster(self.broker, self.ledger, ROUTE_ENDS)
        self.account = self.broker.account("A")
        self.found: list[str] = []
        self.cluster.discovered = lambda info: self.found.append(info.server_id)
        self.cluster.urls_changed = lambda: None  # there is no loop

    def accept(self, host: str = "127.0.0.1", authenticate: Any = None) -> Route:
        self.clock.advance(0.001)  # it comes in a turn of its own, with that turn's budget
        return Route(self, AcceptedRoute(self.cluster, authenticate), host)

    def joined(self, name: str = "PEER", **fields: Any) -> Route:
        """A route to a server that has connected."""
        route = self.accept()
        route.connect(name=f"N{name}", cluster=self.cluster.name).introduce(
            server_id=f"N{name}", server_name=name, **fields
        )
        route.take()
        return route

    def dial(self, **dialling: Any) -> Route:
        return Route(
            self, SolicitedRoute(self.cluster, cast("Any", Dialling(**dialling))), "10.0.0.1"
        )

    def subscribe(self, subject: bytes, queue: bytes | None = None) -> RoutedSubscription:
        client = Client(1, self.account, ChunkPool())
        subscription = RoutedSubscription(subject, queue, b"1", client)
        assert self.account.add(subscription) is None
        return subscription

    def publish(self, subject: bytes, publisher: Client | None = None, **parts: bytes) -> int:
        frame = compose(subject, b"x", **parts)
        result = self.account.sublist.match(subject)
        return self.broker.router.route(self.account, result, publisher, frame)
