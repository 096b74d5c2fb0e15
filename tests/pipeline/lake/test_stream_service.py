"""A recorded FastStream service with streams, from its records to gold and the report."""

from pathlib import Path

import pytest

from midge.pipeline.lake.job import LakeJob
from midge.pipeline.lake.settings import PipelineSettings
from midge.pipeline.report.page import headline, read_gold, render
from tests.pipeline.service.oracle import QUERIES, by_hand, in_lake, plain

RECORDS = Path(__file__).parents[1] / "service" / "records"


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    """A lake that took the recording in several batches, some of which correct earlier ones."""
    directory = tmp_path_factory.mktemp("service") / "lake"
    settings = PipelineSettings(
        records_directory=str(RECORDS), lake_directory=str(directory), max_files_per_batch=3
    )
    progress = LakeJob(spark, settings).run()
    assert progress.batches > 2
    return directory


@pytest.fixture(scope="module")
def expected():
    return by_hand(RECORDS)


@pytest.mark.parametrize("name", QUERIES)
def test_gold_is_what_sql_over_the_records_says(lake, expected, name):
    assert expected[name]
    assert plain(in_lake(lake)[name]) == plain(expected[name])


def test_what_streams_deliver_counts_for_their_consumers_alone(lake):
    """The packers got orders by their inbox; the board got each order once, as published."""
    gold = in_lake(lake)
    assert [row[5] for row in gold["dead_subscriptions"]] == ["orders.cancelled"]
    [board] = gold["duplicate_subscriptions"]
    assert board[4:] == ("orders.>", "orders.packed", 2, 54)


def test_the_report_of_the_service(lake):
    gold = read_gold(str(lake))
    assert sum(row["late_messages"] for row in gold["late_data"]) == 0
    messages = sum(row["messages"] for row in gold["late_data"])
    assert dict(headline(gold))["messages"] == str(messages)
    streams = render(gold).partition('<section id="consumers"')[2].partition("</section>")[0]
    assert streams.count(">ORDERS<") == 2
    assert ">packers<" in streams
    assert ">auditors<" in streams
