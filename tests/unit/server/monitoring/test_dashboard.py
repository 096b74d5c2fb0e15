"""The dashboard in `docs/grafana.json` asks for metrics that there are, by labels they have."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families

from midge.server.config.jetstream import JetStream
from midge.server.config.options import (
    Cluster,
    LeafNodes,
    LeafRemote,
    Listen,
    Options,
    Recorder,
    StreamTable,
)
from midge.server.server import Server
from midge.server.tables.table_service import TableService, TableState
from midge.testing import SettlingClient
from tests.conftest import ROOT
from tests.support.leafnodes import until
from tests.unit.server.monitoring.conftest import OPTIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

DASHBOARD = json.loads((ROOT / "docs/grafana.json").read_text())

METRIC = re.compile(r"\bmidge_\w+")
GROUPED = re.compile(r"by \((\w+)\) \((?:rate\()?(midge_\w+)")
FROM_SCRAPING = {"instance"}
"""Labels that Prometheus adds itself."""


def panels(within: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the panels, those in rows too."""
    for panel in within.get("panels", ()):
        yield panel
        yield from panels(panel)


QUERIES = [target["expr"] for panel in panels(DASHBOARD) for target in panel.get("targets", ())]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server with monitoring, JetStream, a recorder and a port for routes."""
    server = Server(
        structs.replace(
            OPTIONS,
            cluster=Cluster(name="C", port=-1),
            jetstream=JetStream(enabled=True, in_memory=True),
            recorder=Recorder(directory=str(tmp_path)),
            monitoring=structs.replace(OPTIONS.monitoring, max_jetstream_series=1),
        )
    )
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def routed(server: Server) -> AsyncIterator[None]:
    """A route between the server and another one."""
    seed = server.urls()["cluster"][0]
    other = Server(
        Options(listen=Listen(port=-1), cluster=Cluster(name="C", port=-1, routes=(seed,)))
    )
    await other.start()
    assert server._cluster is not None
    cluster = server._cluster
    await until(lambda: cluster.routes)
    yield
    await other.stop()


@pytest.fixture
async def streams(server: Server) -> None:
    """Two streams, of which the page names one, with a durable consumer each."""
    client = await SettlingClient.connected(server.urls()["nats"][0])
    async with client:
        jetstream = client.jetstream()
        for name in ("A", "B"):
            await jetstream.add_stream(name=name, subjects=[name])
            await jetstream.pull_subscribe(name, durable="d")


@pytest.fixture
def tables(server: Server) -> None:
    """A table, whose process is not started."""
    assert server._state is not None
    service = server._state.tables = TableService(server.broker)
    service.tables["a"] = TableState(StreamTable(name="a", stream="A", url="a"))


@pytest.fixture
async def linked(server: Server) -> AsyncIterator[None]:
    """Link the server to another one."""
    hub = Server(Options(listen=Listen(port=-1), leafnodes=LeafNodes(port=-1)))
    await hub.start()
    remote = LeafRemote(urls=tuple(hub.urls()["leafnodes"]))
    leafnodes = LeafNodes(remotes=(remote,))
    await server.reload(structs.replace(server.options, leafnodes=leafnodes))
    assert server._leafnodes is not None
    nodes = server._leafnodes
    await until(lambda: nodes.links)
    yield
    await hub.stop()


@pytest.fixture
async def metrics(
    http: aiohttp.ClientSession,
    server: Server,
    linked: None,
    routed: None,
    streams: None,
    tables: None,
) -> dict[str, set[str]]:
    """The names of the samples of `/metrics`, with their labels."""
    server.broker.errors_sent["Permissions Violation"] += 1  # no value, no sample
    async with http.get("/metrics") as answer:
        text = await answer.text()
    found: defaultdict[str, set[str]] = defaultdict(set)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] |= sample.labels.keys()
    return found


def test_every_panel_asks_for_something() -> None:
    assert len(QUERIES) >= 12
    for panel in panels(DASHBOARD):
        assert panel["title"]
        for target in panel["targets"]:
            assert METRIC.search(target["expr"]), panel["title"]


def test_every_metric_exists(metrics: dict[str, set[str]]) -> None:
    """In the panels, and in what fills the variables."""
    named = set(METRIC.findall(json.dumps(DASHBOARD)))
    assert named <= metrics.keys()


def test_metrics_have_the_labels_they_are_grouped_by(metrics: dict[str, set[str]]) -> None:
    grouped = [found for query in QUERIES for found in GROUPED.findall(query)]
    assert grouped
    for label, name in grouped:
        assert label in metrics[name] | FROM_SCRAPING, name


def test_every_query_is_of_the_chosen_instances() -> None:
    for query in QUERIES:
        asked = METRIC.findall(query)
        assert query.count('{instance=~"$instance"}') == len(asked), query


def test_counters_are_shown_as_rates() -> None:
    for query in QUERIES:
        for name in METRIC.findall(query):
            if name.endswith("_total"):
                assert re.search(rf"(rate|increase)\({name}\{{", query), query


def test_the_page_of_monitoring_lists_every_metric(metrics: dict[str, set[str]]) -> None:
    page = (ROOT / "docs/monitoring.md").read_text()
    assert set(METRIC.findall(page)) == metrics.keys()
