"""What-if routing, against simulated servers that really made the change, and by hand."""

from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta

import pytest

from midge.pipeline.fleet.fleet import Listening, Member, build_fleet
from midge.pipeline.fleet.recorded import Simulation
from midge.pipeline.lake import silver
from midge.pipeline.lake.tables import TABLES
from midge.pipeline.records.format import DATA_SETS
from midge.pipeline.what_if.change import parse_change
from midge.pipeline.what_if.plan import _home, plan

DURATION_S = 60.0
START = datetime(2026, 3, 2, 12, tzinfo=UTC)


class Tables:
    """Silver tables as a lake would give them."""

    def __init__(self, spark, **rows):
        self._frames = {
            name: spark.createDataFrame(each, TABLES[f"silver/{name}"].columns)
            for name, each in rows.items()
        }

    @classmethod
    def of(cls, spark, simulation, tmp_path):
        simulation.write(tmp_path)
        tables = cls(spark)
        bronze = {}
        for name in DATA_SETS:
            frame = spark.read.parquet(str(tmp_path / name)).drop("date", "hour")
            bronze[name] = frame.selectExpr(
                "*", "_metadata.file_path AS segment", "_metadata.row_index AS row"
            )
        sessions = silver.sessions(bronze["clients"])
        tables._frames = {
            "traffic": silver.traffic(silver.messages(bronze["messages"]), 10),
            "sessions": sessions,
            "subscriptions": silver.subscriptions(bronze["interest"], sessions),
        }
        return tables

    def read(self, name):
        return self._frames[name.removeprefix("silver/")]


@pytest.fixture(scope="module")
def members():
    return build_fleet(vans=12)


@pytest.fixture(scope="module")
def recorded(members):
    return Simulation(members, DURATION_S).run()


@pytest.fixture(scope="module")
def tables(spark, recorded, tmp_path_factory):
    return Tables.of(spark, recorded, tmp_path_factory.mktemp("plan"))


def test_without_a_change_it_is_what_was_recorded(tables, recorded):
    totals = plan(tables, parse_change({})).totals
    truth = recorded.truth
    assert (totals.messages, totals.bytes) == (truth.total, sum(truth.sizes.values()))
    # Sums of a window cannot show when in it a subscription came or went.
    assert totals.plain_deliveries == pytest.approx(truth.plain_deliveries, rel=0.02)
    assert totals.queue_deliveries == pytest.approx(truth.queue_deliveries, rel=0.02)
    assert totals.unheard == truth.no_interest.total()
    assert totals.crossings == 0


def test_listeners_that_come_and_go_are_predicted(tables, members):
    change = {
        "remove": [{"client": "wall-map"}, {"client": "dashboard-eu"}],
        "add": [
            {"client": "screen", "subject": "fleet.*.van.*.pos", "copies": 5},
            {"client": "tap", "subject": "debug.>"},
        ],
    }
    gone = {"wall-map", "dashboard-eu"}
    changed = [member for member in members if member.name not in gone]
    changed += [Member("screen", (Listening("fleet.*.van.*.pos"),)) for _ in range(5)]
    changed += [Member("tap", (Listening("debug.>"),))]
    truth = Simulation(changed, DURATION_S).run().truth
    totals = plan(tables, parse_change(change)).totals
    assert totals.plain_deliveries == pytest.approx(truth.plain_deliveries, rel=0.02)
    assert totals.unheard == truth.no_interest.total() == 0


def test_a_mapping_is_predicted(tables, members):
    change = {"mapping": [{"from": "debug.van.*.trace", "to": "fleet.debug.$1"}]}
    changed = [
        replace(
            member,
            publishes=tuple(
                replace(each, subject=f"fleet.debug.{each.subject.split('.')[2]}")
                if each.subject.startswith("debug.")
                else each
                for each in member.publishes
            ),
        )
        for member in members
    ]
    truth = Simulation(changed, DURATION_S).run().truth
    outcome = plan(tables, parse_change(change))
    assert outcome.totals.plain_deliveries == pytest.approx(truth.plain_deliveries, rel=0.02)
    assert "fleet.debug.>" in {each.prefix for each in outcome.prefixes}


def test_the_load_of_several_servers_adds_up(tables, recorded):
    one = plan(tables, parse_change({}))
    three = plan(tables, parse_change({"servers": 3}))
    assert len(three.servers) == 3
    assert three.totals.plain_deliveries == one.totals.plain_deliveries
    assert three.totals.queue_deliveries == pytest.approx(one.totals.queue_deliveries, abs=1)
    assert sum(each.in_msgs for each in three.servers) == recorded.truth.total
    assert sum(each.out_msgs for each in three.servers) == pytest.approx(
        one.servers[0].out_msgs, abs=2
    )
    routed_in = sum(each.routed_in for each in three.servers)
    routed_out = sum(each.routed_out for each in three.servers)
    # Each figure is rounded for itself.
    assert routed_in == pytest.approx(routed_out, abs=3)
    assert routed_in == pytest.approx(three.totals.crossings, abs=3)
    # A message crosses at most once to each other server.
    assert three.totals.crossings <= 2 * recorded.truth.total
    assert sum(each.clients for each in three.servers) == one.servers[0].clients


def traffic(cid, subject, messages):
    time = START
    return (
        *(time, "s", "$G", cid, subject, subject, 0, 0),
        *(messages, messages * 10, 0, time, time + timedelta(seconds=5)),
    )


def subscription(cid, pattern, queue=None, name="x"):
    return ("s", "$G", cid, "1", name, pattern, queue, START, None, None, None)


def session(cid, name):
    return ("s", "$G", cid, name, *([None] * 4), START, *([None] * 6))


@pytest.fixture(scope="module")
def small(spark):
    """Client 1 publishes; 2 and 3 listen; 4, 5 and 6 share a queue group over two patterns."""
    names = {1: "pub", 2: "van-2", 3: "office", 4: "q4", 5: "q5", 6: "q6"}
    return Tables(
        spark,
        traffic=[traffic(1, "a.b", 60), traffic(1, "c", 30), traffic(2, "a.b", 6)],
        sessions=[session(cid, name) for cid, name in names.items()],
        subscriptions=[
            subscription(2, "a.*", name="van-2"),
            subscription(3, "a.b", name="office"),
            subscription(4, "a.b", "q", "q4"),
            subscription(5, "a.>", "q", "q5"),
            subscription(6, "a.b", "q", "q6"),
        ],
    )


def test_queue_groups_are_one_delivery_whatever_their_patterns(small):
    totals = plan(small, parse_change({})).totals
    assert (totals.messages, totals.bytes, totals.unheard) == (96, 960, 30)
    assert (totals.plain_deliveries, totals.queue_deliveries) == (132, 66)
    assert totals.delivered_bytes == 1980
    assert totals.fan_out == pytest.approx(198 / 96)


def test_a_client_that_is_removed_publishes_nothing_any_more(small):
    totals = plan(small, parse_change({"remove": [{"client": "pub"}]})).totals
    assert (totals.messages, totals.plain_deliveries, totals.queue_deliveries) == (6, 12, 6)
    nothing = plan(small, parse_change({"remove": [{"account": "$G"}]}))
    assert (nothing.totals.messages, nothing.servers[0].clients) == (0, 0)
    other = plan(small, parse_change({"remove": [{"client": "pub", "account": "X"}]})).totals
    # With a subject, only subscriptions go.
    one = plan(small, parse_change({"remove": [{"client": "*", "subject": "a.*"}]})).totals
    assert (other.messages, one.messages, one.plain_deliveries) == (96, 96, 66)


def test_counts_are_whole_numbers(small):
    outcome = plan(small, parse_change({"servers": 3}))
    for part in (outcome.totals, *outcome.servers):
        counts = asdict(part)
        counts.pop("peak_in_msgs_per_s", None)
        assert {type(value) for value in counts.values()} == {int}


def test_a_split_cuts_what_is_not_shared(small):
    change = {"split": [{"clients": "van-*", "into": "VANS"}]}
    totals = plan(small, parse_change(change)).totals
    # 60 messages no longer reach van-2; its own 6 reach only itself.
    assert totals.plain_deliveries == 60 + 6
    assert totals.queue_deliveries == 60
    shared = {"split": [{"clients": "van-*", "into": "VANS", "shared": ["a.*"]}]}
    totals = plan(small, parse_change(shared)).totals
    assert (totals.messages, totals.plain_deliveries, totals.queue_deliveries) == (96, 132, 66)
    assert totals.unheard == 30


def test_a_queue_group_prefers_the_server_of_the_publisher(small):
    """Wherever the clients land, a group with a member at home sends nothing of its own away."""
    outcome = plan(small, parse_change({"servers": 2, "remove": [{"subject": "a.*"}]}))
    at = {row["cid"]: row["at"] for row in _places(small, 2)}
    crossing = {0: 0, 1: 0}
    for publisher, messages in ((1, 60), (2, 6)):
        home = at[publisher]
        group_is_away = all(at[member] != home for member in (4, 5, 6))
        if at[3] != home or group_is_away:
            crossing[home] += messages
    assert {each.server: each.routed_out for each in outcome.servers} == crossing
    assert outcome.totals.queue_deliveries == 66
    assert sum(each.out_msgs for each in outcome.servers) == pytest.approx(66 + 66)


def _places(tables, servers):
    frame = tables.read("silver/sessions")
    return frame.select("cid", _home(servers).alias("at")).collect()
