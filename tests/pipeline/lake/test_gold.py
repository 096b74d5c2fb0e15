"""Gold from a few rows of silver each, where the fleet has no such case."""

from datetime import datetime, timedelta

import pytest

from midge.pipeline.lake import gold
from midge.pipeline.lake.tables import TABLES

START = datetime(2026, 3, 2, 8, 0)  # noqa: DTZ001 - as Spark takes it


def table(spark, name, rows):
    """Return rows as a table of the lake; what they leave out is null."""
    columns = spark.createDataFrame([], TABLES[name].columns).columns
    values = [tuple(row.get(column) for column in columns) for row in rows]
    return spark.createDataFrame(values, TABLES[name].columns)


def client(cid=1, server="s"):
    return {"server": server, "account": "$G", "cid": cid}


def subscribed(sid, pattern, *, queue=None, cid=1, begin_s=0, end_s=None):
    return client(cid) | {
        "sid": sid,
        "client_name": "desk",
        "pattern": pattern,
        "queue": queue,
        "since": START + timedelta(seconds=begin_s),
        "until": None if end_s is None else START + timedelta(seconds=end_s),
    }


def matched(subscription, **messages_by_subject):
    return [
        subscription | {"window_start": START, "subject": subject.replace("_", "."), "messages": n}
        for subject, n in messages_by_subject.items()
    ]


def duplicates(spark, subscriptions, matches):
    found = gold.duplicate_subscriptions(
        table(spark, "silver/subscriptions", subscriptions), table(spark, "silver/matches", matches)
    ).collect()
    columns = ("pattern", "overlaps", "copies", "wasted_deliveries")
    return sorted(tuple(row[name] for name in columns) for row in found)


def test_patterns_that_overlap_are_duplicates(spark):
    everything, orders, paid, stock = (
        subscribed(sid, pattern)
        for sid, pattern in (("1", ">"), ("2", "orders.*"), ("3", "orders.paid"), ("4", "stock"))
    )
    matches = [
        *matched(everything, orders_new=5, orders_paid=3, x=9),
        *matched(orders, orders_new=5, orders_paid=3),
        *matched(paid, orders_paid=3),
    ]
    assert duplicates(spark, [everything, orders, paid, stock], matches) == [
        ("orders.*", ">", 2, 8),
        ("orders.paid", ">, orders.*", 3, 3),
    ]


def test_what_one_client_gets_once_is_no_duplicate(spark):
    before, after = subscribed("1", "a.*", end_s=10), subscribed("2", "a.>", begin_s=20)
    member, other_member = subscribed("3", "q", queue="g"), subscribed("4", "q", queue="g")
    elsewhere = subscribed("1", "a.>", cid=2)
    taken_back = subscribed("5", "b.>"), subscribed("6", "b.*")
    subscriptions = [before, after, member, other_member, elsewhere, *taken_back]
    matches = [row for one in subscriptions[:2] for row in matched(one, a_b=4)]
    matches += [row for one in (member, other_member) for row in matched(one, q=4)]
    matches += matched(elsewhere, a_b=4)
    matches += [row for one in taken_back for row in (*matched(one, b_b=4), *matched(one, b_b=-4))]
    assert duplicates(spark, subscriptions, matches) == []


def traffic(server, subject, messages, *, cid=0, plain=0, no_interest=0):
    return client(cid, server) | {
        "window_start": START,
        "subject": subject,
        "prefix": subject,
        "plain_deliveries": plain,
        "queue_deliveries": 0,
        "messages": messages,
        "bytes": messages * 10,
        "no_interest": no_interest,
        "first_time": START,
        "last_time": START,
    }


@pytest.fixture
def mixed(spark):
    """A recording of a server itself, and a recording by listening to another server."""
    return table(
        spark,
        "silver/traffic",
        [
            traffic("own", "a", 6, cid=7, plain=2),
            traffic("own", "a", 1, cid=7, no_interest=1),
            traffic("own", "b", 3, no_interest=3),
            traffic("heard", "a", 5),
            traffic("heard", "c", 4),
        ],
    )


def test_deliveries_that_nobody_counted_are_null_and_not_zero(spark, mixed):
    found = {row.deliveries: row.messages for row in gold.fan_out(mixed).collect()}
    assert found == {None: 9, 0: 4, 2: 6}
    found = {
        row.subject: (row.deliveries, row.publishers) for row in gold.subjects(mixed).collect()
    }
    assert found == {"a": (12, 1), "b": (0, 1), "c": (None, None)}
    sessions = table(spark, "silver/sessions", [client(7, "own") | {"client_name": "till"}])
    found = {row.cid: (row.server, row.messages) for row in gold.talkers(mixed, sessions).collect()}
    assert found == {7: ("own", 7), 0: ("own", 3)}
    matches = table(spark, "silver/matches", [])
    [row] = gold.reconciliation(mixed, matches).collect()
    assert (row.server, row.recorded) == ("own", 12)


def test_consumers_are_known_by_the_replies_to_their_deliveries(spark):
    subjects = {
        # stream, consumer, deliveries, sequence, the consumer's, time, pending messages
        "$JS.ACK.S.c.1.1.1.5.9": 1,
        "$JS.ACK.S.c.1.2.2.5.8": 3,  # in progress, twice, and done
        "$JS.ACK.S.c.2.1.3.5.7": 1,
        "$JS.ACK.S.c.2.2.10.5.2": 1,
        "$JS.ACK.hub.H4sH.S.far.1.7.1.5.0": 1,
        "$JS.ACK.hub.H4sH.S.far.3.7.2.5.0.x": 1,
        "$JS.ACK.S.c.x.2.2.5.": 1,
        "$JS.ACK.S": 1,
        "orders.1.1.1.1.1.1.1.1": 1,
    }
    rows = [traffic("own", subject, count, cid=7) for subject, count in subjects.items()]
    found = gold.consumers(table(spark, "silver/traffic", rows)).drop("account", "last_time")
    assert sorted(tuple(row) for row in found.collect()) == [
        ("S", "c", 2, 6, 2, 2, 2, 9, 2),
        ("S", "far", 1, 2, 1, 3, 0, 0, 7),
    ]


def test_coverage_tells_a_server_from_one_that_was_listened_to(spark, mixed):
    subscriptions = table(spark, "silver/subscriptions", [client(1, "idle"), client(2, "idle")])
    sessions = table(spark, "silver/sessions", [client(1, "idle")])
    found = gold.coverage(mixed, subscriptions, sessions).collect()
    assert sorted(tuple(row) for row in found) == [
        ("heard", "$G", 9, 0, 0, 0),
        ("idle", "$G", 0, 0, 2, 1),
        ("own", "$G", 10, 10, 0, 0),
    ]
