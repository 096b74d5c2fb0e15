"""The Spark job on a stream that the test fills."""

import json

import pytest
from job import turnover

from midge.pipeline.session import spark_session


@pytest.fixture(scope="module")
def spark():
    session = spark_session("turnover")
    yield session
    session.stop()


def test_the_turnover_of_a_day(spark, nats_stream, nats_url):
    orders = nats_stream("ORDERS", "orders.>")
    for item, quantity, price in (("tea", 2, 3), ("cake", 1, 5), ("tea", 1, 3)):
        order = {"item": item, "quantity": quantity, "price": price}
        orders.publish("orders.placed", json.dumps(order))
    rows = turnover(spark, nats_url).collect()
    assert [(row.item, row.amount) for row in rows] == [("cake", 5), ("tea", 9)]
