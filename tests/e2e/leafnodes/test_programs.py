"""Random programs of clients on both sides of a link, judged by a model, with links that break."""

from __future__ import annotations

import json
from functools import partial

import pytest

from tests.support.clusters import Cluster
from tests.support.leafnodes import Pair, leaf_port
from tests.support.link_programs import Program
from tests.support.processes import Server, command_of

PAIRS = [("real", "midge"), ("midge", "real")]


def over(pair: Pair, seed: int) -> Program:
    """A program over one link."""
    return Program({"hub": pair.at_hub, "leaf": pair.at_leaf}, seed)


@pytest.mark.parametrize(("hub", "leaf"), PAIRS)
@pytest.mark.parametrize("steps", [40, pytest.param(2_000, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
async def test_every_message_gets_where_it_should_and_once(hub: str, leaf: str, steps: int) -> None:
    async with Pair(hub, leaf) as pair:
        program = over(pair, steps)
        await program.start()
        for _ in range(steps):
            await program.step()


@pytest.mark.parametrize(
    ("hub", "leaf", "rounds"),
    [
        ("real", "midge", 2),
        pytest.param("real", "midge", 100, marks=pytest.mark.full),
        pytest.param("midge", "real", 100, marks=pytest.mark.full),
    ],
)
@pytest.mark.timeout(600)
async def test_a_link_that_breaks_again_and_again_comes_back_whole(
    hub: str, leaf: str, rounds: int
) -> None:
    async with Pair(hub, leaf, is_wired=True) as pair:
        program = over(pair, rounds)
        await program.start()
        for number in range(rounds):
            for _ in range(5):
                await program.step()
            if number % 2:
                pair.wire.pause()
                await program.subscribe()
                await program.unsubscribe()
                pair.wire.resume()
            else:
                pair.wire.cut()
                for _ in range(3):
                    await program.subscribe()
                await program.unsubscribe()
                pair.wire.mend()
            await program.publish()
            await program.request()


@pytest.mark.parametrize("steps", [30, pytest.param(2_000, marks=pytest.mark.full)])
@pytest.mark.timeout(600)
async def test_a_leaf_of_a_leaf_is_reached_like_any_other(steps: int) -> None:
    """The midge in the middle is a leaf of one nats-server and the hub of another."""
    below = 'leafnodes { listen: "127.0.0.1:-1", reconnect: 100ms, remotes: [ { url: "@url@" } ] }'
    async with Cluster("real", config='leafnodes { listen: "127.0.0.1:-1" }') as top:
        to_top = f"nats-leaf://127.0.0.1:{leaf_port(top.servers[0])}"
        text = "server_name: MIDDLE\n" + below.replace("@url@", to_top)
        with Server(command_of("midge"), text) as middle:
            middle.wait_ready()
            to_middle = f"nats-leaf://127.0.0.1:{leaf_port(middle)}"
            text = "server_name: BOTTOM\n" + below.replace("@url@", to_middle)
            with Server(command_of("real"), text) as bottom:
                bottom.wait_ready()
                servers = {"hub": top.servers[0], "middle": middle, "leaf": bottom}
                await run(servers, top, steps)


async def run(servers: dict[str, Server], cluster: Cluster, steps: int) -> None:
    """Run a program over `servers`, whose clients `cluster` closes."""
    connect = {side: partial(cluster.client_of, server) for side, server in servers.items()}
    program = Program(connect, seed=steps)
    await program.start()
    for _ in range(steps):
        await program.step()


@pytest.mark.parametrize("steps", [15, pytest.param(700, marks=pytest.mark.full)])
@pytest.mark.timeout(600)
async def test_a_cluster_of_hubs_is_killed_node_by_node(steps: int) -> None:
    port = 'leafnodes { listen: "127.0.0.1:-1" }'
    async with Cluster("real", "real", "real", config=port) as hubs:
        urls = [f"nats-leaf://127.0.0.1:{leaf_port(server)}" for server in hubs.servers]
        remote = f"{{ urls: {json.dumps(urls)}, no_randomize: true }}"
        text = f"server_name: L\nleafnodes {{ reconnect: 100ms, remotes: [ {remote} ] }}"
        with Server(command_of("midge"), text) as leaf:
            leaf.wait_ready()
            servers = {"hub": hubs.servers[2], "leaf": leaf}
            connect = {side: partial(hubs.client_of, one) for side, one in servers.items()}
            program = Program(connect, seed=steps)
            await program.start()
            for node in (0, 1, None):
                for _ in range(steps):
                    await program.step()
                if node is not None:
                    hubs.servers[node].process.kill()
                    await program.subscribe()
                    await program.settled()
