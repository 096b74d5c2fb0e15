"""The queries of docs/gold-queries.md, over a few rows whose answers are worked out by hand."""

import re
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pytest

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


def at(minutes):
    return START + timedelta(minutes=minutes)


def rows(names, *values):
    """Return rows of the columns in `names`, which blanks divide."""
    return [dict(zip(names.split(), row, strict=True)) for row in values]


CASES = {
    "rates": (
        rows(
            "prefix window_start messages messages_per_s",
            *(("a.>", at(0), 60, 1.0), ("a.>", at(1), 120, 2.0), ("b", at(0), 30, 0.5)),
        ),
        [("a.>", at(1), 2.0), ("b", at(0), 0.5)],
    ),
    "subjects": (
        rows("place subject messages", (2, "b", 30), (1, "a", 60), (3, "c", 10)),
        [(1, "a", 60, 0.6), (2, "b", 30, 0.9), (3, "c", 10, 1.0)],
    ),
    "talkers": (
        rows("client_name messages bytes", ("x", 11, 25), ("y", 20, 100), ("z", 10, 9000)),
        [("y", 20, 5), ("x", 11, 2)],
    ),
    "fan_out": (
        rows(
            "account deliveries messages share",
            *(("A", 0, 25, 0.25), ("A", 2, 75, 0.75), ("B", 1, 4, 1.0)),
        ),
        [("A", 1.5, 0.25), ("B", 1.0, None)],
    ),
    "no_interest": (
        rows(
            "subject messages bytes share", ("b", 5, 10, 0.5), ("c", 1, 99, 1.0), ("a", 1, 10, 1.0)
        ),
        [("c", 1, 99, 1.0), ("a", 1, 10, 1.0), ("b", 5, 10, 0.5)],
    ),
    "dead_subscriptions": (
        rows("client_name age_s pattern", ("x", 61.0, "p"), ("x", 90.0, "p"), ("y", 60.0, "q")),
        [("x", 2, 90.0, "p")],
    ),
    "duplicate_subscriptions": (
        rows(
            "client_name pattern overlaps wasted_deliveries", ("x", "p", ">", 3), ("y", "q", ">", 8)
        ),
        [("y", "q", ">", 8), ("x", "p", ">", 3)],
    ),
    "queue_balance": (
        rows(
            "queue pattern skew",
            *(("q", "p", 0.8), ("q", "p", 1.2), ("r", "p", 0.5), ("r", "p", 1.5), ("r", "o", 1.0)),
        ),
        [("r", "p", 0.5, 1.5, 2)],
    ),
    "disconnects": (
        rows("server reason disconnects", ("s", "x", 1), ("t", "x", 2), ("s", "y", 9)),
        [("y", 9, 0.75), ("x", 3, 0.25)],
    ),
    "slow_consumers": (
        rows("client_name disconnects last_time out_bytes", ("x", 1, at(1), 7), ("y", 2, at(2), 8)),
        [("y", 2, at(2), 8), ("x", 1, at(1), 7)],
    ),
    "latency": (
        rows(
            "subject requests p50_us p99_us", ("a", 5, 10, 100), ("b", 6, 10, 101), ("c", 7, 0, 90)
        ),
        [("c", 7, 0, 90, 90.0), ("b", 6, 10, 101, 10.1)],
    ),
    "consumers": (
        rows(
            "stream consumer messages redelivered lag max_lag",
            *(("S", "a", 10, 0, 1000, 9999), ("S", "b", 10, 5, 0, 3), ("S", "c", 4, 0, 1001, 1001)),
        ),
        [("S", "c", 1001, 1001, 0.0), ("S", "b", 0, 3, 0.5)],
    ),
    "late_data": (
        rows(
            "batch watermark late_messages max_lateness_s",
            *((2, at(3), 4, 1.5), (0, None, 0, 0.0), (1, at(2), 1, 0.5)),
        ),
        [(1, at(2), 1, 0.5), (2, at(3), 4, 1.5)],
    ),
    "reconciliation": (
        rows(
            "server account recorded matched difference",
            *(("s", "A", 1000, 999, 1), ("t", "A", 1000, 998, 2), ("u", "A", 1000, 1002, -2)),
        ),
        [("t", "A", 1000, 998), ("u", "A", 1000, 1002)],
    ),
    "coverage": (
        rows(
            "server account messages counted subscriptions",
            *(("t", "A", 1, 1, 0), ("s", "A", 5, 4, 3), ("s", "B", 5, 0, 2)),
        ),
        [("s", 10, 4, 5), ("t", 1, 1, 0)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_documented_query_gives_what_its_sentence_says(name, root):
    page = (root / "docs" / "gold-queries.md").read_text()
    query = re.search(rf"^## {name}\n.*?```sql\n(.*?)```", page, re.DOTALL | re.MULTILINE)[1]
    given, expected = CASES[name]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register(name, pa.Table.from_pylist(given))
        found = connection.execute(query).fetchall()
    assert [tuple(map(plain, row)) for row in found] == [tuple(map(plain, row)) for row in expected]


def plain(value):
    """Return a number as one of Python's, and a time in UTC."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return value if value is None or isinstance(value, str) else pytest.approx(float(value))
