"""Messages that ask for a trace and cross links: the traces are the same as of two nats-servers.

The traces of two nats-servers for each case are stored in `expected`, and the long form compares
them with the servers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.support.clusters import Cluster
from tests.support.clusters import settle as settle_all
from tests.support.leafnodes import Inbox, Pair, until

DESTINATION = {"Nats-Trace-Dest": "trace.here"}
ONLY = {**DESTINATION, "Nats-Trace-Only": "true"}
HERE = {"plain": [None], "both": [None]}
THERE = {"plain": [None], "queue": ["q"], "both": [None, "q"], "there": [None]}
SUBJECTS = ("plain", "queue", "both", "there", "nobody")
ROUTE, LEAF = 1, 4

PAIRS = [
    ("midge", "real"),
    *(
        pytest.param(kinds, marks=pytest.mark.full)
        for kinds in (("real", "midge"), ("midge", "midge"), ("real", "real"))
    ),
]


def deliveries(subject: str, queues: dict[str, list[str | None]]) -> list[dict[str, Any]]:
    """What a trace says of the clients of one server."""
    return [
        {"type": "eg", "kind": 0, "sub": subject, **({"queue": queue} if queue else {})}
        for queue in queues.get(subject, ())
    ]


def expected(
    subject: str, headers: dict[str, str], kind: int, here: str, there: str
) -> list[dict[str, Any]]:
    """The traces of both servers for a message published `here`."""
    header = {name: [value] for name, value in headers.items()}
    arrival = {"type": "in", "kind": 0, "acc": "$G", "subj": subject}
    events = [arrival, *deliveries(subject, HERE)]
    if subject not in THERE:
        return [{"server": here, "header": header, "hops": 0, "events": events}]
    events.append({"type": "eg", "kind": kind, "name": there, "hop": "1"})
    arrival = {**arrival, "kind": kind, "name": here}
    further = [arrival, *deliveries(subject, THERE)]
    hop = {"Nats-Trace-Hop": ["1"]}
    return [
        {"server": here, "header": header, "hops": 1, "events": in_order(events)},
        {"server": there, "header": header | hop, "hops": 0, "events": in_order(further)},
    ]


def in_order(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort the deliveries, which may come in any order."""
    return [events[0], *sorted(events[1:], key=lambda one: json.dumps(one, sort_keys=True))]


def shown(message: Msg) -> dict[str, Any]:
    """Return a trace without its times and numbers."""
    trace = json.loads(message.data)
    for event in trace["events"]:
        del event["ts"]
        assert event.pop("cid", 1)
    return {
        "server": trace["server"]["name"],
        "header": trace["request"]["header"],
        "hops": trace.get("hops", 0),
        "events": in_order(trace["events"]),
    }


async def check(here: Client, there: Client, kind: int, names: tuple[str, str]) -> None:
    """Publish traced messages `here`, and compare traces and deliveries."""
    traces, near, far = Inbox(), Inbox(), Inbox()
    subscriptions = [await here.subscribe("trace.here", cb=traces.take)]
    for client, queues, inbox in ((here, HERE, near), (there, THERE, far)):
        for subject, groups in queues.items():
            for queue in groups:
                subscriptions.append(await client.subscribe(subject, queue or "", cb=inbox.take))
    await settle_all([here, there])
    for headers in (DESTINATION, ONLY):
        for subject in SUBJECTS:
            traces.messages.clear()
            wanted = expected(subject, headers, kind, *names)
            await here.publish(subject, b"x", headers=headers)
            await here.flush()
            await until(lambda wanted=wanted: len(traces.messages) >= len(wanted))
            found = [shown(message) for message in traces.messages]
            assert sorted(found, key=lambda one: one["server"] != names[0]) == wanted
    await settle_all([here, there])
    assert count_of(near.messages) == {"plain": 1, "both": 1}
    assert count_of(far.messages) == {"plain": 1, "queue": 1, "both": 2, "there": 1}
    for subscription in subscriptions:
        await subscription.unsubscribe()
    await settle_all([here, there])


def count_of(messages: Sequence[Msg]) -> dict[str, int]:
    subjects = [message.subject for message in messages]
    return {subject: subjects.count(subject) for subject in dict.fromkeys(subjects)}


@pytest.mark.parametrize("kinds", PAIRS)
async def test_traces_go_on_over_routes(kinds: tuple[str, str]) -> None:
    async with Cluster(*kinds) as cluster:
        first, second = await cluster.clients()
        await check(first, second, ROUTE, ("S0", "S1"))
        await check(second, first, ROUTE, ("S1", "S0"))


@pytest.mark.parametrize("kinds", PAIRS)
async def test_traces_go_on_over_leaf_nodes(kinds: tuple[str, str]) -> None:
    async with Pair(*kinds) as pair:
        at_hub, at_leaf = await pair.at_hub(), await pair.at_leaf()
        await check(at_hub, at_leaf, LEAF, ("HUB", "LEAF"))
        await check(at_leaf, at_hub, LEAF, ("LEAF", "HUB"))


BORDERS = """
accounts {
  A {
    users: [{user: a, password: p}]
    exports: [{stream: "o.>"}]
    imports: [{service: {account: B, subject: svc.open}}, {service: {account: B, subject: svc.no}}]
  }
  B {
    users: [{user: b, password: p}]
    exports: [{service: svc.open, allow_trace: true}, {service: svc.no}]
    imports: [{stream: {account: A, subject: "o.>"}, prefix: in, allow_trace: true}]
  }
}
"""
BORDER_SUBJECTS = ("svc.open", "svc.no", "o.plain", "o.queue")


async def over_borders(kinds: tuple[str, str]) -> list[list[Any]]:
    """Return the traces of requests and messages from one account here to another one there."""
    async with Cluster(*kinds, config=BORDERS) as cluster:
        here = await cluster.client(0, user="a", password="p")
        there = await cluster.client(1, user="b", password="p")
        near = await cluster.client(0, user="b", password="p")
        traces, received = Inbox(), Inbox()
        await here.subscribe("trace.here", cb=traces.take)
        for subject, queue in (("svc.*", ""), ("in.o.plain", ""), ("in.o.queue", "q")):
            await there.subscribe(subject, queue, cb=received.take)
        await settle_all([near, there])
        found = []
        for headers in (DESTINATION, ONLY):
            for subject in BORDER_SUBJECTS:
                traces.messages.clear()
                await here.publish(subject, b"x", headers=headers)
                await here.flush()
                wanted = 1 if subject == "svc.no" else 2
                await until(lambda wanted=wanted: len(traces.messages) >= wanted)
                of_both = [shown(message) for message in traces.messages]
                for one in of_both:
                    one["header"] = sorted(one["header"])  # a reply subject is different each time
                found.append(sorted(of_both, key=lambda one: one["server"]))
        await settle_all([near, there])
        found.append(sorted(message.subject for message in received.messages))
    return found


async def test_traces_cross_borders_of_accounts_and_links() -> None:
    real = await over_borders(("real", "real"))
    for kinds in (("midge", "real"), ("real", "midge"), ("midge", "midge")):
        assert await over_borders(kinds) == real, kinds
