"""Traced messages on a route, with a peer in memory."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from midge.protocol.frame import Frame, compose
from midge.server.broker.message_trace import NOT_TRACING_TEXT, UNTRACED_TEXT
from midge.server.peers.leaf_end import leaf_link
from midge.server.routing.account import Account
from midge.sublist.subscription import RemoteSubscription
from tests.support.routes import World
from tests.support.transports import Transport

TRACED = "Nats-Trace-Dest: trace"
ONLY = "Nats-Trace-Only: 1"
HOP = "Nats-Trace-Hop: 1"


class Tracing(World):
    """A `World` that keeps the traces that are published."""

    def __init__(self) -> None:
        World.__init__(self)
        self.traces: list[tuple[str, dict[str, Any]]] = []
        self.broker.traces.send = self._note

    def _note(self, account: Account, subject: bytes, trace: dict[str, Any]) -> None:
        assert subject == b"trace"
        self.traces.append((account.name, trace))

    def frame(self, subject: bytes, *headers: str) -> Frame:
        block = "".join(f"{header}\r\n" for header in ("NATS/1.0", *headers, ""))
        return compose(subject, b"x", headers=block.encode())

    def egress(self) -> list[tuple[Any, ...]]:
        """What the only trace says of where the message went."""
        ((_, trace),) = self.traces
        events = trace["events"][1:]
        return [(one["kind"], one.get("hop"), one.get("error")) for one in events]


def line(verb: str, *headers: str) -> tuple[str, str]:
    """A message with headers as it comes over a route; its payload is one byte."""
    block = "NATS/1.0\r\n" + "".join(f"{header}\r\n" for header in headers) + "\r\n"
    return f"{verb} {len(block)} {len(block) + 1}", f"{block}x"


@pytest.fixture
def world() -> Tracing:
    return Tracing()


def test_a_trace_goes_on_to_leaf_nodes_with_a_hop_of_its_own(world: Tracing) -> None:
    leaf = leaf_link(world.broker, 99, ("h", 1), Mock())
    transport = Transport()
    leaf.channel.connection_made(transport)
    leaf.start()
    leaf.peer_protocol = 3
    leaf.takes_headers(True)
    branch = leaf.commands.carry(world.account)
    world.account.sublist.insert_remote(RemoteSubscription(b"a", None, branch, 1, "", True))
    world.joined(proto=3).say(*line("HMSG A a", TRACED, HOP))
    world.broker.router.flush()
    assert b"Nats-Trace-Hop: 1.1\r\n" in transport.take()
    assert world.egress() == [(4, "1.1", None)]


@pytest.mark.parametrize("fields", [{"proto": 2}, {"proto": 3, "headers": False}])
def test_a_server_that_traces_nothing_gets_no_mere_trace(
    world: Tracing, fields: dict[str, Any]
) -> None:
    route = world.joined(**fields).say("RS+ A a")
    publisher = leaf_link(world.broker, 99, ("h", 1), Mock()).commands.carry(world.account)
    for headers, error in (((TRACED,), UNTRACED_TEXT), ((TRACED, ONLY), NOT_TRACING_TEXT)):
        frame = world.frame(b"a", *headers)
        trace = world.broker.traces.begin_on_link(publisher, frame)
        assert trace is not None
        trace.route(world.account.sublist.match(b"a"), frame)
        trace.send()
        assert world.egress() == [(1, "1", error)]
        world.traces.clear()
        assert bool(route.take()) == (error == UNTRACED_TEXT)


def test_each_message_of_a_run_is_looked_at(world: Tracing) -> None:
    kept = world.subscribe(b"a")
    lines = [
        part for i in range(100) for part in line("HMSG A a", ["X", "N"][not i % 40] + TRACED[1:])
    ]
    world.joined().say(*lines)
    assert (kept.delivered, len(world.traces)) == (100, 3)


def test_a_trace_is_published_in_the_account_that_it_began_in(world: Tracing) -> None:
    kept = world.subscribe(b"a")
    world.broker.account("B")
    route = world.joined()
    route.say(*line("HMSG A a", TRACED, "Nats-Trace-Origin-Account: B"))
    assert [name for name, _ in world.traces] == ["B"]
    assert kept.delivered == 1
    world.traces.clear()
    for wrong in ("Nats-Trace-Origin-Account: C", "Nats-Trace-Dest: no..subject"):
        first = TRACED if "Origin" in wrong else wrong
        route.say(*line("HMSG A a", first, wrong), *line("HMSG A a", first, wrong, ONLY))
    assert world.traces == []
    assert kept.delivered == 3, "without a trace it is a message, unless it was for that alone"
    assert route.is_up


def test_a_message_for_queue_groups_is_traced_to_one_member_of_each(world: Tracing) -> None:
    members = [world.subscribe(b"a", queue) for queue in (b"q", b"q", b"r")]
    world.joined().say(*line("HMSG A a | q", TRACED, HOP))
    assert sum(member.delivered for member in members[:2]) == 1
    assert members[2].delivered == 0
    assert world.egress() == [(0, None, None)]
