"""A Spark job: the day's turnover by item, from the stream of orders."""

import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.functions import sum as total

from midge.pipeline.source import register


def turnover(spark: SparkSession, url: str) -> DataFrame:
    """Return the columns `item` and `amount`, ordered by item."""
    register(spark)
    orders = spark.read.format("nats").option("servers", url).option("stream", "ORDERS").load()
    order = from_json(col("payload").cast("string"), "item string, quantity int, price int")
    return (
        orders.select(order.alias("order"))
        .groupBy(col("order.item").alias("item"))
        .agg(total(col("order.quantity") * col("order.price")).alias("amount"))
        .orderBy("item")
    )


if __name__ == "__main__":  # spark-submit job.py
    url = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")
    turnover(SparkSession.builder.appName("turnover").getOrCreate(), url).show()
