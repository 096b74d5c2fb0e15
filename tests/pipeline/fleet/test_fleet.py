"""The fleet, simulated and live: what it says it did is what happened."""

import asyncio
import threading

import pytest

from midge.client.errors import ServerError
from midge.pipeline.fleet.fleet import Truth, build_fleet, dead_subjects, duplicate_listeners
from midge.pipeline.fleet.live import perform
from midge.pipeline.fleet.recorded import Simulation
from midge.sublist.subjects import matches


@pytest.fixture(scope="module")
def simulation():
    return Simulation(build_fleet(vans=10), 60.0).run()


def test_the_same_seed_is_the_same_fleet_and_the_same_day(simulation):
    again = Simulation(build_fleet(vans=10), 60.0).run()
    assert again.rows == simulation.rows
    assert Simulation(build_fleet(vans=10, seed=2), 60.0).run().rows != simulation.rows


def test_the_truth_agrees_with_the_rows(simulation):
    messages = simulation.rows["messages"]
    truth = simulation.truth
    assert len(messages) == truth.total == truth.published.total()
    assert sum(row["plain_deliveries"] for row in messages) == truth.plain_deliveries
    assert sum(row["no_interest"] for row in messages) == truth.no_interest.total() > 0
    assert sum(truth.queue_shares.values()) == truth.queue_deliveries
    times = [row["time"] for row in messages]
    assert times == sorted(times)


def test_every_subscription_and_client_begins_and_ends(simulation):
    for name, begin in (("interest", "sub"), ("clients", "connect")):
        events = [row["event"] for row in simulation.rows[name]]
        assert events.count(begin) * 2 == len(events)


def test_the_faults_are_there(simulation):
    assert duplicate_listeners() == {"dashboard-eu"}
    for subject in simulation.truth.messages:
        assert not any(matches(subject.encode(), dead.encode()) for dead in dead_subjects())


async def test_live_the_server_gets_what_the_fleet_says_it_sent(nats_server):
    def received():
        with nats_server.client() as watcher:
            watcher.subscribe(b">")
            watcher.ping()
            started.set()
            count = 0
            while not (finished.is_set() and count >= truth.total):
                count += len(watcher.receive(timeout_s=0.2))
            return count

    loop = asyncio.get_running_loop()
    started, finished = threading.Event(), threading.Event()
    truth = Truth()
    watching = loop.run_in_executor(None, received)
    assert await loop.run_in_executor(None, started.wait, 10)
    shares = []
    sent = await perform(
        build_fleet(vans=4),
        ("127.0.0.1", nats_server.port),
        30.0,
        speed=30.0,
        progress=lambda share, _: shares.append(share),
    )
    truth.messages = sent.messages
    finished.set()
    assert await asyncio.wait_for(watching, 20) == sent.total
    # Every request was answered by a service that the server chose.
    requests = sent.messages["svc.route.eta"] + sent.messages["svc.geocode.lookup"]
    replies = sum(n for subject, n in sent.messages.items() if subject.startswith("_INBOX."))
    assert replies == requests > 0
    assert shares[-1] == 1.0


async def test_live_a_server_that_is_not_there_is_named():
    with pytest.raises(ServerError, match=r"tracker-0 cannot connect to 127\.0\.0\.1:9"):
        await perform(build_fleet(vans=1), ("127.0.0.1", 9), 1.0)
