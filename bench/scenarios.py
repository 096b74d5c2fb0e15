"""The scenarios of the side-by-side load, and midge's targets in them.

A scenario is any object with these attributes and a `run`; a scenario in `SCENARIOS` is in the next
run and in the report.
"""

from collections.abc import Mapping
from typing import Protocol

from bench import frames
from bench.connections import Churn, HeldSubscriptions, IdleConnections
from bench.flow import Flow
from bench.jetstream.consume import DirectGet, StreamRead
from bench.jetstream.crowd import ManyConsumers
from bench.jetstream.publish import StreamPublish
from bench.jetstream.turnover import ConsumerTurnover, IdleConsumers
from bench.jetstream.unacknowledged import StreamTakes
from bench.jetstream.watch import BucketWatch
from bench.latency import RequestReply
from bench.metrics import Measurement
from bench.mixed import Mixed, service_subjects, telemetry_subjects
from bench.open_loop import OpenLoop
from bench.servers import Server


class Scenario(Protocol):
    """One thing to measure on one running server."""

    @property
    def name(self) -> str:
        """The name for `--only`."""

    @property
    def title(self) -> str:
        """The name in reports."""

    @property
    def fresh_server(self) -> bool:
        """Whether each round needs a new server."""

    def run(self, server: Server, seconds: float, /) -> Measurement:
        """Warm up, measure for about that long and return the figures of one round."""


_SERVICES = {"topics": tuple(service_subjects()), "bytes_min": 20, "bytes_max": 400}
_TELEMETRY = {"topics": tuple(telemetry_subjects()), "bytes_min": 8, "bytes_max": 32}
_SIZES = {"bytes_min": 20, "bytes_max": 400}
_LINES_16 = {**_SERVICES, "bytes_min": 16, "bytes_max": 16}
_LINES_128 = {**_SERVICES, "bytes_min": 128, "bytes_max": 128}
_LINKS = ("leaf_out", "leaf_in", "route_out", "route_in")
_TAKEN = ("js_lines_16", "js_lines_128", "js_lines_16_memory", "js_lines_128_memory")


def over_link(name: str, title: str, linked: str) -> tuple[Scenario, ...]:
    """Return the scenarios for each link: small messages, a queue group, services."""
    return (
        Flow(name=f"{name}_16", title=f"{title}, 16 B", linked=linked),
        Flow(
            name=f"{name}_queue",
            title=f"{title}, queue group of 4",
            subscribers=4,
            queue=b"workers",
            linked=linked,
        ),
        Mixed(name=f"{name}_mixed", title=f"{title}, services", linked=linked, **_SERVICES),
    )


SCENARIOS: tuple[Scenario, ...] = (
    Mixed(name="services", title="services, 20 to 400 B", **_SERVICES),
    Mixed(name="telemetry", title="telemetry, 8 to 32 B", **_TELEMETRY),
    Mixed(name="services_6", title="services, 6 subscribers", subscribers=6, **_SERVICES),
    Mixed(name="telemetry_6", title="telemetry, 6 subscribers", subscribers=6, **_TELEMETRY),
    OpenLoop(name="open_200", title="200 writers, 20,000/s", connections=200, rate=20_000),
    OpenLoop(
        name="open_400",
        title="400 writers, 40,000/s",
        connections=400,
        rate=40_000,
        monitored=False,
    ),
    Flow(name="publish_16", title="publish only, 16 B", subscribers=0),
    Flow(name="one_16", title="one-to-one, 16 B"),
    Flow(name="one_128", title="one-to-one, 128 B", payload_bytes=128),
    Flow(name="one_1k", title="one-to-one, 1 KiB", payload_bytes=1024),
    Flow(name="one_64k", title="one-to-one, 64 KiB", payload_bytes=64 * 1024),
    Flow(name="fanout_10", title="fan-out 10, 16 B", subscribers=10),
    # A smaller chunk: one of the usual size would be 27 MB of deliveries, more than the window.
    Flow(name="fanout_100", title="fan-out 100, 16 B", subscribers=100, chunk_bytes=64 * 1024),
    Flow(name="queue_4", title="queue group of 4", subscribers=4, queue=b"workers"),
    Flow(name="pairs_4", title="4 publishers x 4 subjects", groups=4),
    Flow(name="wildcard_1k", title="wildcard, 1,000 subjects", subjects=1_000, wildcard=True),
    Flow(name="subjects_50k", title="50,000 distinct subjects", subjects=50_000, wildcard=True),
    Flow(name="subscriptions_100k", title="100,000 subscriptions", subjects=100_000),
    Flow(name="js_subject_16", title="one-to-one on $JS., 16 B", prefix=b"$JS.load"),
    Flow(name="headers", title="one-to-one, headers, 16 B", headers=frames.HEADER_BLOCK),
    Flow(name="rules_100", title="one-to-one, 100 permission rules", rules=100),
    Flow(name="tls_16", title="one-to-one over TLS, 16 B", tls=True),
    Flow(name="tls_1k", title="one-to-one over TLS, 1 KiB", payload_bytes=1024, tls=True),
    Flow(name="tls_fanout_10", title="fan-out 10 over TLS, 16 B", subscribers=10, tls=True),
    *over_link("leaf_out", "leaf to hub", "out"),
    *over_link("leaf_in", "hub to leaf", "in"),
    *over_link("route_out", "over a route", "route_out"),
    *over_link("route_in", "over a route, accepted", "route_in"),
    *(
        Flow(
            name=name,
            title=title,
            payload_bytes=300,
            subjects=1_000,
            wildcard=True,
            documents=True,
            linked=linked,
        )
        for name, title, linked in (
            ("route_json", "over a route, JSON of 300 B", "route_out"),
            ("route_json_s2", "the same, compressed by S2", "route_s2"),
        )
    ),
    RequestReply(name="request_1", title="request/reply, alone", in_flight=1),
    RequestReply(name="request_64", title="request/reply, 64 in flight", in_flight=64),
    Churn(name="churn", title="connect and close"),
    IdleConnections(name="idle_5k", title="5,000 idle connections"),
    HeldSubscriptions(name="held_1m", title="1 million subscriptions"),
    StreamPublish(name="js_file_2000", title="stream, file, window 2,000", window=2_000),
    StreamPublish(name="js_file_100", title="stream, file, window 100", window=100),
    StreamPublish(
        name="js_file_services",
        title="stream, own replies and ids",
        window=2_000,
        subjects=1_000,
        own_reply=True,
        message_ids=True,
        **_SIZES,
    ),
    StreamPublish(
        name="js_file_100_streams",
        title="100 file streams in turn",
        window=2_000,
        streams=100,
    ),
    StreamPublish(
        name="js_file_1k",
        title="stream, file, 1 KiB",
        window=2_000,
        bytes_min=1024,
        bytes_max=1024,
    ),
    StreamPublish(
        name="js_keys",
        title="1,000 keys, one of each",
        window=2_000,
        subjects=1_000,
        per_subject=1,
    ),
    StreamPublish(
        name="js_memory_2000",
        title="stream, memory, window 2,000",
        window=2_000,
        storage="memory",
    ),
    StreamPublish(
        name="js_memory_1",
        title="stream, memory, one at a time",
        window=1,
        storage="memory",
    ),
    StreamPublish(
        name="js_always_1",
        title="stream, synced, one at a time",
        window=1,
        sync_always=True,
    ),
    StreamPublish(
        name="js_always_2000",
        title="stream, synced, window 2,000",
        window=2_000,
        sync_always=True,
    ),
    Mixed(name="services_0", title="services, nobody subscribes", subscribers=0, **_SERVICES),
    StreamTakes(name="js_services_file", title="services, file stream", **_SERVICES),
    StreamTakes(
        name="js_services_memory",
        title="services, memory stream",
        storage="memory",
        **_SERVICES,
    ),
    StreamTakes(name="js_lines_16", title="unequal lines, 16 B, file", **_LINES_16),
    StreamTakes(name="js_lines_128", title="unequal lines, 128 B, file", **_LINES_128),
    StreamTakes(
        name="js_lines_16_memory",
        title="unequal lines, 16 B, memory",
        storage="memory",
        **_LINES_16,
    ),
    StreamTakes(
        name="js_lines_128_memory",
        title="unequal lines, 128 B, memory",
        storage="memory",
        **_LINES_128,
    ),
    DirectGet(name="js_direct_get", title="direct get, one at a time"),
    StreamRead(name="js_pull", title="pull, no acks", batch=2_000),
    StreamRead(name="js_pull_ack", title="pull, each acknowledged", batch=2_000, acks=True),
    StreamRead(
        name="js_pull_1",
        title="pull, one at a time",
        batch=1,
        acks=True,
        max_messages=10_000,
    ),
    StreamRead(name="js_push", title="push consumer"),
    StreamRead(name="js_ordered", title="ordered consumer", ordered=True),
    ManyConsumers(name="js_1000_consumers", title="1,000 consumers, filters"),
    ManyConsumers(
        name="js_1000_subjects",
        title="1,000 consumers, a subject each",
        shares=1_000,
        messages=100_000,
    ),
    ConsumerTurnover(name="js_turnover_1", title="ordered consumers, one request", window=1),
    ConsumerTurnover(name="js_turnover_16", title="ordered consumers, 16 requests", window=16),
    IdleConsumers(name="js_idle_10k", title="10,000 idle consumers"),
    BucketWatch(name="js_watch_1", title="watch a million keys, history 1", history=1),
    BucketWatch(name="js_watch_64", title="watch a million keys, history 64", history=64, values=2),
)

TARGETS: Mapping[str, Mapping[str, float]] = {
    "services": {"rate": 4.0, "cpu_us": 1 / 5},
    "telemetry": {"rate": 4.0, "cpu_us": 1 / 5},
    "services_6": {"rate": 3.0, "cpu_us": 1 / 4},
    "telemetry_6": {"rate": 3.0, "cpu_us": 1 / 4},
    "open_200": {"p999_us": 1.0, "max_us": 1.0},
    "open_400": {"cpu_us": 0.4, "p999_us": 1.0},
    "publish_16": {"rate": 4.0, "cpu_us": 1 / 4},
    "one_16": {"rate": 5.0, "cpu_us": 1 / 7},
    "one_128": {"rate": 3.0, "cpu_us": 1 / 4},
    "one_1k": {"rate": 1.4, "cpu_us": 2 / 3},
    "fanout_10": {"rate": 6.0, "cpu_us": 1 / 8},
    "queue_4": {"rate": 2.0, "cpu_us": 1 / 3},
    "pairs_4": {"rate": 4.0, "cpu_us": 1 / 7},
    "wildcard_1k": {"rate": 4.0, "cpu_us": 1 / 5},
    "subjects_50k": {"rate": 1.8, "cpu_us": 1 / 2},
    **{f"{link}_16": {"rate": 3.0} for link in _LINKS},
    **{f"{link}_queue": {"rate": 3.0} for link in _LINKS},
    **{f"{link}_mixed": {"rate": 2.0, "cpu_us": 1 / 2} for link in _LINKS},
    "request_1": {"p50_us": 0.8, "cpu_us": 2 / 3},
    "js_file_2000": {"rate": 1.5, "cpu_us": 1 / 3},
    "js_file_100": {"rate": 0.8, "cpu_us": 1 / 2},
    "js_file_services": {"rate": 1.2, "cpu_us": 1 / 2},
    "js_file_100_streams": {"rate": 1.2, "cpu_us": 1 / 2},
    "js_file_1k": {"rate": 1.2, "cpu_us": 1 / 2},
    "js_keys": {"rate": 1.5, "cpu_us": 1 / 2},
    "js_memory_2000": {"rate": 1.5, "cpu_us": 1 / 3},
    "js_memory_1": {"p50_us": 0.7, "cpu_us": 1 / 2},
    "js_always_1": {"p50_us": 0.75, "cpu_us": 1 / 2},
    "js_always_2000": {"rate": 30.0, "cpu_us": 1 / 20},
    "js_services_file": {"rate": 1.0, "stored": 1.0},
    "js_services_memory": {"rate": 1.0, "stored": 1.0},
    **{taken: {"rate": 1.0, "stored": 1.0, "of_core": 0.4} for taken in _TAKEN},
    "js_direct_get": {"p50_us": 0.7, "cpu_us": 1 / 2},
    "js_pull": {"rate": 1.5, "cpu_us": 1 / 3},
    "js_pull_ack": {"rate": 2.0, "cpu_us": 1 / 3},
    "js_pull_1": {"p50_us": 0.7},
    "js_push": {"rate": 1.5, "cpu_us": 1 / 3},
    "js_ordered": {"rate": 1.5, "cpu_us": 1 / 3},
    "js_1000_consumers": {"rate": 2.0, "cpu_us": 1 / 3},
    "js_1000_subjects": {"rate": 2.0},
    "js_turnover_1": {"rate": 2.0},
    "js_turnover_16": {"rate": 2.0},
}
"""Targets by scenario and metric: the ratio midge / nats-server, at least for rates, else at most.

For a metric that is a share, midge itself must reach the value, whatever nats-server's share is.
Rates of scenarios that are not here must not be below nats-server's.
"""


def select(names: list[str]) -> tuple[Scenario, ...]:
    """Return the scenarios with these names in the order of the table, or all without names.

    Raises:
        ValueError: there is no scenario of such a name.
    """
    known = {scenario.name for scenario in SCENARIOS}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"no scenario {unknown[0]!r}; there are: {', '.join(sorted(known))}")
    return tuple(scenario for scenario in SCENARIOS if not names or scenario.name in names)
