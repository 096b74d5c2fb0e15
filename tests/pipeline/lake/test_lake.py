"""The layers, against DuckDB over the same files and against what the fleet knows it did."""

import re
import shutil
from collections import Counter
from dataclasses import replace
from datetime import date, timedelta

import duckdb
import pytest

from midge.pipeline.fleet.fleet import build_fleet, dead_subjects, duplicate_listeners
from midge.pipeline.fleet.recorded import Simulation
from midge.pipeline.lake import gold, tables
from midge.pipeline.lake import job as lake_job
from midge.pipeline.lake.job import LakeJob
from midge.pipeline.lake.opening import open_lake
from midge.pipeline.lake.settings import Days, Period, PipelineSettings
from midge.pipeline.lake.storage import as_path
from midge.pipeline.lake.tables import GOLD, TABLES, Lake, LakeError
from midge.pipeline.records.files import RecordsError, list_segments, read_table, write_records
from midge.pipeline.records.format import INTEREST, MESSAGES
from midge.tables import scan_duckdb

DURATION_S = 240.0
SILVER = ("silver/messages", "silver/traffic", "silver/matches", "silver/exchanges")
NOT_KEYS = {"batch", "messages", "bytes", "no_interest", "first_time", "last_time"}


@pytest.fixture(scope="module")
def simulation():
    return Simulation(build_fleet(vans=24), DURATION_S).run()


@pytest.fixture(scope="module")
def records(simulation, tmp_path_factory):
    """Record files in several segments, and three files among them that are none."""
    root = tmp_path_factory.mktemp("records")
    simulation.write(root, rows_per_segment=2_000)
    spoil(root)
    return root


def spoil(root):
    first = list_segments(root, MESSAGES)[0]
    whole = first.read_bytes()
    first.with_name("part-midge-1-900001.parquet").write_bytes(whole[: len(whole) // 2])
    first.with_name("notes.txt").write_text("not a segment")
    (root / "elsewhere").mkdir()
    shutil.copy(first, root / "elsewhere" / "part-midge-1-000000.parquet")


@pytest.fixture(scope="module")
def job(spark, records, tmp_path_factory):
    """The lake after one run in a few batches."""
    settings = PipelineSettings(
        records_directory=str(records),
        lake_directory=str(tmp_path_factory.mktemp("lake") / "lake"),
        max_files_per_batch=6,
        window_s=30,
    )
    job = LakeJob(spark, settings)
    job.run()
    return job


@pytest.fixture(scope="module")
def duck(records):
    """DuckDB over the good segments."""
    connection = duckdb.connect()
    for name in ("messages", "interest", "clients"):
        files = [
            str(path) for path in (records / name).rglob("*.parquet") if "900001" not in path.name
        ]
        connection.execute(
            f"CREATE VIEW {name} AS SELECT * FROM read_parquet({files}, hive_partitioning=false)"
        )
    yield connection
    connection.close()


def rows(job, name, *columns):
    return sorted(tuple(row) for row in job.lake.read(name).select(*columns).collect())


def sql(duck, query):
    return sorted(duck.execute(query).fetchall())


def test_the_run_took_everything_in_several_batches(job, simulation):
    assert job.progress.batches >= 2
    assert job.progress.messages == simulation.truth.total
    assert job.progress.quarantined == 3
    assert job.progress.gold_tables == len(GOLD)


def test_bronze_is_the_records(job, duck):
    columns = "subject, reply, payload, size, plain_deliveries, cid"
    expected = Counter(duck.execute(f"SELECT {columns} FROM messages").fetchall())
    found = job.lake.read("bronze/messages").selectExpr(*columns.split(", ")).collect()
    assert Counter((*row[:2], bytes(row[2]), *row[3:]) for row in found) == expected
    headers = job.lake.read("bronze/messages").where("headers IS NOT NULL").first().headers
    assert list(headers) == ["origin"]


def test_every_bad_file_is_in_quarantine_and_nothing_of_it_in_bronze(job):
    found = {row.segment: row.reason for row in job.lake.read("bronze/quarantine").collect()}
    assert len(found) == 3
    for segment, reason in found.items():
        if segment.startswith("elsewhere/"):
            assert reason == "not in a data set: expected messages/, interest/, clients/"
        else:
            assert reason.startswith("not a readable Parquet file")
    assert job.lake.read("bronze/messages").where("segment LIKE '%900001%'").count() == 0


def test_every_table_has_the_columns_that_it_promises(job):
    for name, table in TABLES.items():
        if not job.lake.exists(name):
            continue
        found = job.lake.read(name)
        found = found.drop("batch") if table.is_growing else found
        columns = found.schema.simpleString()
        promised = job.lake.spark.createDataFrame([], table.columns).schema.simpleString()
        assert columns == promised, name


def test_rates(job, duck):
    expected = sql(
        duck,
        r"""SELECT epoch_us(time) // 30000000 * 30, account,
                  CASE WHEN subject LIKE '\_INBOX.%' ESCAPE '\' THEN '_INBOX.>'
                       WHEN len(string_split(subject, '.')) > 2
                       THEN array_to_string(string_split(subject, '.')[1:2], '.') || '.>'
                       ELSE subject END,
                  count(*), sum(size)::BIGINT, sum(plain_deliveries + queue_deliveries)::BIGINT
           FROM messages GROUP BY 1, 2, 3""",
    )
    columns = ("account", "prefix", "messages", "bytes", "deliveries")
    found = sorted(
        tuple(row)
        for row in job.lake.read("gold/rates")
        .selectExpr("unix_timestamp(window_start)", *columns)
        .collect()
    )
    assert found == expected


def test_subjects(job, duck, simulation):
    found = rows(job, "gold/subjects", "subject", "messages", "bytes", "publishers")
    assert found == sql(
        duck,
        "SELECT subject, count(*), sum(size)::BIGINT, count(DISTINCT cid) FROM messages GROUP BY 1",
    )
    truth = simulation.truth
    assert {row[0]: row[1:3] for row in found} == {
        subject: (truth.messages[subject], truth.sizes[subject]) for subject in truth.messages
    }
    places = job.lake.read("gold/subjects").orderBy("place").select("messages").collect()
    assert [row.messages for row in places] == sorted((r[1] for r in found), reverse=True)


def test_talkers(job, duck, simulation):
    columns = ("cid", "subjects", "messages", "bytes", "deliveries")
    assert rows(job, "gold/talkers", *columns) == sql(
        duck,
        """SELECT cid, count(DISTINCT subject), count(*), sum(size)::BIGINT,
                  sum(plain_deliveries + queue_deliveries)::BIGINT FROM messages GROUP BY 1""",
    )
    found = Counter()
    for row in job.lake.read("gold/talkers").collect():
        found[row.client_name] += row.messages
    assert found == simulation.truth.published


def test_fan_out(job, duck, simulation):
    found = rows(job, "gold/fan_out", "deliveries", "messages", "bytes", "share")
    expected = sql(
        duck,
        """SELECT plain_deliveries + queue_deliveries, count(*), sum(size)::BIGINT,
                  count(*) / (SELECT count(*) FROM messages) FROM messages GROUP BY 1""",
    )
    assert [row[:3] for row in found] == [row[:3] for row in expected]
    assert [row[3] for row in found] == pytest.approx([row[3] for row in expected])
    truth = simulation.truth
    assert sum(row[0] * row[1] for row in found) == truth.plain_deliveries + truth.queue_deliveries


def test_no_interest(job, duck, simulation):
    found = rows(job, "gold/no_interest", "subject", "messages", "bytes")
    assert found == sql(
        duck,
        "SELECT subject, count(*), sum(size)::BIGINT FROM messages WHERE no_interest GROUP BY 1",
    )
    assert {row[0]: row[1] for row in found} == simulation.truth.no_interest


def test_dead_subscriptions(job, duck):
    assert rows(job, "gold/dead_subscriptions", "cid", "sid", "pattern") == sql(
        duck,
        r"""WITH subscriptions AS (
              SELECT cid, sid, subject AS pattern, min(time) AS since,
                     (SELECT max(time) FROM interest e
                      WHERE e.cid = s.cid AND e.sid = s.sid AND e.event <> 'sub') AS until
              FROM interest s WHERE event = 'sub' GROUP BY 1, 2, 3),
            forms AS (
              SELECT DISTINCT pattern,
                     '^' || replace(replace(replace(pattern, '.', '\.'), '*', '[^.]+'), '>', '.+')
                         || '$' AS form FROM subscriptions),
            fits AS (
              SELECT pattern, subject FROM forms, (SELECT DISTINCT subject FROM messages)
              WHERE regexp_matches(subject, form))
            SELECT cid, sid, pattern FROM subscriptions s WHERE NOT EXISTS (
              SELECT 1 FROM fits JOIN messages m USING (subject)
              WHERE fits.pattern = s.pattern AND m.time >= s.since AND m.time <= s.until)""",
    )
    found = {row.pattern for row in job.lake.read("gold/dead_subscriptions").collect()}
    assert dead_subjects() <= found
    # A few vans may never be spoken to in so short a time, nothing else is dead.
    assert all(pattern.endswith(".cmd") for pattern in found - dead_subjects())


def test_duplicate_subscriptions(job, simulation):
    found = job.lake.read("gold/duplicate_subscriptions").collect()
    assert {row.client_name for row in found} == duplicate_listeners()
    [row] = found
    heard = sum(
        count
        for subject, count in simulation.truth.messages.items()
        if subject.startswith("fleet.eu.")
    )
    assert (row.pattern, row.overlaps) == ("fleet.eu.>", "fleet.eu.>")
    assert (row.copies, row.wasted_deliveries) == (2, heard)


def test_queue_balance(job, duck, simulation):
    assert rows(job, "gold/queue_balance", "queue", "cid", "sid", "delivered") == sql(
        duck,
        """SELECT queue, cid, sid, max(delivered) FROM interest
           WHERE queue IS NOT NULL AND event <> 'sub' GROUP BY 1, 2, 3""",
    )
    found = job.lake.read("gold/queue_balance").collect()
    shares = {(row.queue, row.client_name): row.delivered for row in found}
    assert shares == simulation.truth.queue_shares
    late = next(row for row in found if row.client_name == "tracker-2")
    assert late.members == 3
    assert late.skew < 0.7


def test_disconnects_and_slow_consumers(job, duck, simulation):
    found = {row.reason: row.disconnects for row in job.lake.read("gold/disconnects").collect()}
    assert found == simulation.truth.reasons
    slow = rows(job, "gold/slow_consumers", "client_name", "disconnects", "out_msgs", "out_bytes")
    assert slow == sql(
        duck,
        """SELECT client_name, count(*), sum(out_msgs)::BIGINT, sum(out_bytes)::BIGINT FROM clients
           WHERE reason LIKE 'Slow Consumer%' GROUP BY 1""",
    )
    assert slow[0][:2] == ("wall-map", 2)


def test_latency(job, simulation):
    exchanges = job.lake.read("silver/exchanges").collect()
    truth = simulation.truth.latencies_us
    for subject, latencies in truth.items():
        found = sorted(row.latency_us for row in exchanges if row.subject == subject)
        assert found == sorted(latencies)
    for row in job.lake.read("gold/latency").collect():
        assert row.p50_us <= row.p90_us <= row.p99_us <= row.max_us
    counts = Counter()
    for row in job.lake.read("gold/latency").collect():
        counts[row.subject] += row.replies
    assert counts == {subject: len(latencies) for subject, latencies in truth.items()}


def test_latency_percentiles(job, duck):
    found = rows(job, "gold/latency", "subject", "reply_prefix", "p50_us", "p99_us", "max_us")
    expected = sql(
        duck,
        """WITH pairs AS (
             SELECT q.subject, q.reply, epoch_us(r.time) - epoch_us(q.time) AS us
             FROM messages q JOIN messages r ON q.reply = r.subject AND q.account = r.account)
           SELECT subject, '_INBOX.>', quantile_disc(us, 0.5), quantile_disc(us, 0.99), max(us)
           FROM pairs GROUP BY 1""",
    )
    assert found == expected


def test_matching_finds_what_the_server_delivered(job, simulation):
    [row] = job.lake.read("gold/reconciliation").collect()
    assert row.recorded == simulation.truth.plain_deliveries
    assert row.difference == 0


def test_gold_of_a_range_of_time(job, duck):
    [first] = duck.execute("SELECT min(time) FROM messages").fetchone()
    begin = first.replace(second=0, microsecond=0) + timedelta(minutes=1)
    times = Period(begin, begin + timedelta(minutes=1))
    builds = gold.build(job.lake, 30, 2, times)
    found = [
        tuple(row) for row in builds["gold/subjects"]().select("subject", "messages").collect()
    ]
    query = "SELECT subject, count(*) FROM messages WHERE time >= ? AND time < ? GROUP BY 1"
    assert sorted(found) == sorted(duck.execute(query, list(times)).fetchall())
    assert 0 < builds["gold/coverage"]().first().sessions < job.lake.read("silver/sessions").count()


def test_coverage(job, simulation):
    [row] = job.lake.read("gold/coverage").collect()
    assert row.messages == row.counted == simulation.truth.total
    assert row.subscriptions == job.lake.read("silver/subscriptions").count()
    assert row.sessions == job.lake.read("silver/sessions").count()


def test_the_queries_of_the_documentation(job, root):
    page = (root / "docs" / "gold-queries.md").read_text()
    queries = dict(re.findall(r"^## (\w+)\n.*?```sql\n(.*?)```", page, re.DOTALL | re.MULTILINE))
    assert [f"gold/{name}" for name in queries] == [table.name for table in GOLD]
    with duckdb.connect() as connection:
        for name, query in queries.items():
            scan_duckdb(connection, name, as_path(job.lake.path(f"gold/{name}")), None)
            connection.execute(query).fetchall()


def test_subscription_intervals(job, duck):
    found = job.lake.read("silver/subscriptions")
    assert found.count() == sql(duck, "SELECT count(*) FROM interest WHERE event = 'sub'")[0][0]
    assert found.where("until IS NULL").count() == 0
    assert (
        found.agg({"delivered": "sum"}).first()[0]
        == sql(duck, "SELECT sum(delivered)::BIGINT FROM interest WHERE event <> 'sub'")[0][0]
    )


def test_days_derived_again_are_as_before(job):
    before = {name: job.lake.read(name).drop("batch").collect() for name in SILVER}
    [day] = job.lake.log("silver/messages").dates()
    job.rebuild(Days(date.fromisoformat(day), date(2026, 12, 31)))
    for name, rows in before.items():
        found = job.lake.read(name).drop("batch").collect()
        if name in ("silver/traffic", "silver/matches"):  # one sum, where there was one a batch
            keys = [each for each in job.lake.read(name).columns if each not in NOT_KEYS]
            assert sums(found, keys) == sums(rows, keys), name
        else:
            assert Counter(map(str, found)) == Counter(map(str, rows)), name
    job.rebuild(Days(date(2020, 1, 1), date(2020, 1, 2)))


def sums(rows, keys):
    found = Counter()
    for row in rows:
        found[tuple(str(row[key]) for key in keys)] += row.messages
    return +found


def test_a_second_run_without_new_records_changes_nothing(spark, job):
    again = LakeJob(spark, job.settings).take()
    assert (again.batches, again.messages) == (0, 0)


def snapshot(lake):
    """All gold rows except the rows about single batches."""
    return {
        table.name: sorted(map(str, lake.read(table.name).collect()))
        for table in GOLD
        if table.name != "gold/late_data"
    }


def test_a_crash_in_every_step_of_a_batch_neither_loses_nor_repeats(spark, job, tmp_path):
    """Follow the records in small batches, failing somewhere else in each."""
    steps = ["silver/subscriptions", "silver/messages", "silver/matches", "batch done"]

    def fail_once(step, progress):
        if steps and step == steps[0]:
            steps.pop(0)
            raise RuntimeError(f"crashed in {step}")

    settings = replace(job.settings, lake_directory=str(tmp_path / "lake"), max_files_per_batch=50)
    for _ in range(len(steps)):
        with pytest.raises(RuntimeError, match="crashed in"):
            LakeJob(spark, settings, fail_once).take()
    last = LakeJob(spark, settings)
    last.run()
    assert snapshot(last.lake) == snapshot(job.lake)


def test_small_batches_are_as_large_ones(spark, job, tmp_path, monkeypatch):
    for module in (lake_job, tables):
        monkeypatch.setattr(module, "SMALL_BYTES", 0)
    large = LakeJob(spark, replace(job.settings, lake_directory=str(tmp_path / "lake")))
    large.run()
    assert snapshot(large.lake) == snapshot(job.lake)


def test_a_small_batch_is_a_few_jobs_of_spark(spark, job, records, tmp_path):
    """Messages alone need a job for the listing, and one for each of three tables of silver."""
    few = tmp_path / "records"
    settings = replace(job.settings, records_directory=str(few), lake_directory=str(tmp_path / "l"))
    for data_set in (INTEREST, MESSAGES):
        for place in list_segments(records, data_set)[:1]:
            (few / place.relative_to(records)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(place, few / place.relative_to(records))
    LakeJob(spark, settings).take()
    more = read_table(records, MESSAGES).to_pylist()[:300]
    write_records(few, MESSAGES, "midge-2", more)
    store = spark._jsc.sc().statusStore()
    before = max(job_ids(store))
    assert LakeJob(spark, settings).take().messages == len(more)
    assert len([each for each in job_ids(store) if each > before]) <= 4


def job_ids(store):
    jobs = store.jobsList(None)
    return [jobs.apply(number).jobId() for number in range(jobs.size())]


def test_interest_recorded_after_its_messages_still_counts(spark, job, records, tmp_path):
    """Messages first, then ends of subscriptions with no beginning, then all the rest."""
    late = tmp_path / "records"
    settings = replace(
        job.settings, records_directory=str(late), lake_directory=str(tmp_path / "lake")
    )
    everything = read_table(records, INTEREST).to_pylist()
    half = everything[len(everything) // 3 :: 2]
    shutil.copytree(records / "messages", late / "messages")
    LakeJob(spark, settings).take()
    write_records(late, INTEREST, "midge-1a", half)
    LakeJob(spark, settings).take()
    write_records(late, INTEREST, "midge-1b", [row for row in everything if row not in half])
    shutil.copytree(records / "clients", late / "clients")
    follower = LakeJob(spark, settings)
    follower.take()
    names = [f"gold/{name}" for name in ("reconciliation", "dead_subscriptions")]
    names += ["gold/duplicate_subscriptions", "gold/queue_balance"]
    follower.build_gold(names)
    whole, parts = snapshot(job.lake), snapshot(follower.lake)
    for name in names:
        assert parts[name] == whole[name], name


def test_late_data_is_counted_against_the_watermark(spark, tmp_path):
    members = build_fleet(vans=2)
    records = tmp_path / "records"
    newer = Simulation(members, 300.0, server="s2")
    settings = PipelineSettings(
        records_directory=str(records), lake_directory=str(tmp_path / "lake"), late_after_s=100.0
    )
    newer.run().write(records)
    LakeJob(spark, settings).take()
    # The same hour again from a server whose files come only now.
    older = Simulation(members, 300.0, server="s1").run()
    older.write(records)
    job = LakeJob(spark, settings)
    job.take()
    job.build_gold(["gold/late_data"])
    newest = max(row["time"] for row in newer.rows["messages"])
    expected = [
        lateness
        for row in older.rows["messages"]
        if (lateness := (newest - row["time"]).total_seconds() - 100.0) > 0
    ]
    found = job.lake.read("gold/late_data").orderBy("batch").collect()
    assert [row.late_messages for row in found] == [0, len(expected)]
    assert found[1].max_lateness_s == pytest.approx(max(expected))
    assert found[1].share == pytest.approx(len(expected) / older.truth.total)


def test_no_records_and_no_lake_are_clear_errors(spark, tmp_path):
    settings = PipelineSettings(
        records_directory=str(tmp_path / "none"), lake_directory=str(tmp_path / "lake")
    )
    with pytest.raises(RecordsError, match="none: no such directory"):
        LakeJob(spark, settings)
    with pytest.raises(LakeError, match="holds no lake yet"):
        open_lake(spark, settings)
    with pytest.raises(LakeError, match="expected one of bronze/messages"):
        Lake(spark, settings.lake_directory).read("gold/nothing")
