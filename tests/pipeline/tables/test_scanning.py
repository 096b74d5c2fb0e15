"""Union reads: each acknowledged message once, whatever a writer does between a reader's steps."""

import random
import subprocess
import sys

import duckdb
import polars as pl
import pytest

from midge import cli
from midge.client.errors import DataLossError
from midge.client.jetstream import StreamSummary
from midge.pipeline.spark_source.reader import Columns
from midge.pipeline.tables import landing, scanning
from midge.pipeline.tables.decoding import Decoder
from midge.pipeline.tables.table_handle import Source, TableHandle, create
from midge.tables import create_table, land, rebuild, scan, scan_duckdb, scan_polars, scan_rows
from tests.pipeline.tables.test_tables import fill, numbers, orders, server, table

__all__ = ["orders", "server", "table"]  # the fixtures
pytestmark = pytest.mark.timeout(120)


def with_arrow(*table):
    return scan(*table).to_table(["sequence"]).column("sequence").to_pylist()


def with_polars(*table):
    return scan_polars(*table).select("sequence").collect().to_series().to_list()


def with_duckdb(*table):
    with duckdb.connect() as connection:
        scan_duckdb(connection, "t", *table)
        return [seq for (seq,) in connection.sql("SELECT sequence FROM t").fetchall()]


def with_rows(*table):
    return [row["sequence"] for row in scan_rows(*table)]


READERS = [with_arrow, with_polars, with_duckdb, with_rows]


class Simulated:
    """A stream in memory, its table on the disk, and the actions of publishers and writers."""

    def __init__(self, url, seed):
        self.url = url
        self.chosen = random.Random(seed)
        self.first = 1
        self.messages = []
        create(url, Decoder({"n": "int64"}), Source("S", "then"))

    @property
    def end(self):
        return self.first + len(self.messages)

    def state(self, _options):
        self.act()
        return StreamSummary("S", "then", self.first, self.end - 1, len(self.messages))

    def read(self, _options, _created, wanted, decoder):
        self.act()
        if wanted.start < min(self.first, wanted.end):
            raise DataLossError("removed")
        payloads = self.messages[wanted.start - self.first : wanted.end - self.first]
        seqs = list(range(wanted.start, wanted.start + len(payloads)))
        nothing = [b""] * len(seqs)
        self.act()
        return decoder.decode(Columns(seqs, [0] * len(seqs), nothing, payloads, nothing))

    def act(self):
        """Do a writer's work between two steps of a reader."""
        for _ in range(self.chosen.choice([0, 0, 1, 1, 2])):
            self.chosen.choice(
                [self.publish, self.publish, self.land, self.land, self.purge, self.maintain]
            )()

    def publish(self):
        for _ in range(self.chosen.randint(1, 4)):
            self.messages.append(b'{"n": %d}' % self.end)

    def land(self):
        table = TableHandle(self.url)
        begin = table.position + 1
        upto = self.chosen.randint(begin - 1, self.end - 1)
        if upto >= begin:
            payloads = self.messages[begin - self.first : upto + 1 - self.first]
            seqs = list(range(begin, upto + 1))
            nothing = [b""] * len(seqs)
            columns = Columns(seqs, [0] * len(seqs), nothing, payloads, nothing)
            table.append(table.decoder().decode(columns), upto)

    def purge(self):
        """Remove messages that are in the table, as a writer's acknowledgements do."""
        upto = self.chosen.randint(
            self.first - 1, max(self.first - 1, TableHandle(self.url).position)
        )
        self.messages = self.messages[upto + 1 - self.first :]
        self.first = upto + 1

    def maintain(self):
        if self.chosen.random() < 0.5:
            TableHandle(self.url).compact()
        else:
            rebuild(self.url, {"n": self.chosen.choice(["int64", "double", "json"])})


@pytest.mark.parametrize("part", range(8))
def test_any_interleaving_shows_each_message_once(part, tmp_path, monkeypatch):
    read_between_the_steps_of_others(part, 10, tmp_path, monkeypatch)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(100))
def test_10000_interleavings_show_each_message_once(part, tmp_path, monkeypatch):
    read_between_the_steps_of_others(100 + part, 100, tmp_path, monkeypatch)


def read_between_the_steps_of_others(seed, reads, tmp_path, monkeypatch):
    world = Simulated(str(tmp_path / "t"), seed)
    monkeypatch.setattr(scanning, "stream_state", world.state)
    monkeypatch.setattr(scanning, "read_rows", lambda *arguments: world.read(*arguments).rows)
    for _ in range(reads):
        least = world.end - 1
        found = sorted(world.chosen.choice(READERS)(world.url, "nats://127.0.0.1:1"))
        assert found == list(range(1, len(found) + 1))
        assert len(found) >= least


def test_polars_filters_both_parts(table, orders, server):
    fill(orders, 100)
    land(table, server.url)
    fill(orders, 50, start=100)
    frame = scan_polars(table, server.url)
    assert frame.filter(pl.col("n") >= 90).select(pl.len(), pl.col("n").max()).collect().rows() == [
        (60, 149)
    ]
    assert scan_polars(table, None).collect().height == 100
    assert sorted(row["n"] for row in scan_rows(table, server.url)) == list(range(150))


def test_new_columns_of_the_later_messages_are_in_the_scan(orders, server, tmp_path):
    url = str(tmp_path / "t")
    create_table(url, "ORDERS", server.url, infer=True)
    fill(orders, 10)
    land(url, server.url)
    orders.publish(1, payload=b'{"n": 10, "more": "words"}')
    rows = scan(url, server.url).to_table().sort_by("sequence")
    assert rows.column("more").to_pylist() == [None] * 10 + ["words"]
    assert scan_polars(url, server.url).collect().sort("sequence")["more"].to_list()[-1] == "words"
    land(url, server.url)
    assert scan(url, None).to_table().sort_by("sequence").equals(rows)


_WRITING = """
import random, sys
from midge.pipeline.tables.table_handle import TableHandle, locked
from midge.tables import land, rebuild

url, server = sys.argv[1:]
kinds = random.Random(1)
while True:
    land(url, server, block_bytes=3000)
    with locked(url, 10):
        TableHandle(url).compact()
    rebuild(url, {"n": kinds.choice(["int64", "double", "json"])})
"""


def test_reads_beside_a_process_that_lands_compacts_and_rebuilds(table, orders, server):
    writer = subprocess.Popen([sys.executable, "-c", _WRITING, table, server.url])
    try:
        count, versions = 0, set()
        while count < 1000 or len(versions) < 8:
            fill(orders, 50, start=count)
            count += 50
            assert [int(n) for n in numbers(scan(table, server.url))] == list(range(count))
            versions.add(TableHandle(table).handle.version())
            assert writer.poll() is None
    finally:
        writer.kill()
        writer.wait()


def test_sql_over_tables_and_their_streams(table, orders, server, capsys):
    fill(orders, 20)
    land(table, server.url)
    fill(orders, 10, start=20)
    query = "SELECT count(*) AS count, max(n) AS top FROM orders"
    asked = ["sql", query, table, "--server", server.url]
    assert cli.main([*asked, "--csv"]) == 0
    assert capsys.readouterr().out == "count,top\n30,29\n"
    assert cli.main(asked) == 0
    assert "count" in capsys.readouterr().out
    named = ["sql", "SELECT max(a.n + b.n) AS sum FROM a, b", f"a={table}", f"b={table}", "--csv"]
    assert cli.main([*named, "--landed"]) == 0
    assert capsys.readouterr().out == "sum\n38\n"


@pytest.mark.parametrize(
    ("query", "tables", "words"),
    [
        ("SELECT 1 FROM nowhere", [], "nowhere"),
        ("SELEC", [], "syntax error"),
        ("SELECT 1", ["a=b=c/none"], "is no Delta table"),
        ("SELECT 1", ["x/a", "y/a"], "a: expected each name once"),
    ],
)
def test_sql_says_in_one_line_what_is_wrong(query, tables, words, capsys):
    assert cli.main(["sql", query, *tables, "--landed"]) == (2 if "once" in words else 1)
    error = capsys.readouterr().err
    assert error.startswith("midge sql: ")
    assert words in error
    assert error.count("\n") == 1


def test_a_landing_uses_the_columns_of_a_rebuild(table, orders, server):
    fill(orders, 5)
    land(table, server.url)
    rebuild(table, {"n": "double", "where": "token(2)"}, partition_by=["where"])
    fill(orders, 5, start=5)
    assert landing.land(table, server.url).rows == 5
    rows = scan(table, None).to_table().sort_by("sequence")
    assert rows.column("n").to_pylist() == [float(n) for n in range(10)]
    assert rows.column("where").to_pylist() == [str(n) for n in range(10)]
