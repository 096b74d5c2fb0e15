"""A program to submit: a stream's table, joined with the stream, into the stream COPIES."""

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from midge.pipeline.source import register
from midge.tables import read_table

if __name__ == "__main__":
    spark = SparkSession.builder.appName("joining").getOrCreate()
    register(spark)
    url = os.environ["NATS_URL"]
    orders = spark.read.format("nats").options(servers=url, stream="ORDERS").load()
    rows = read_table(spark, sys.argv[1]).select("sequence", "n")
    joined = orders.join(rows, "sequence").withColumn(
        "subject", F.regexp_replace("subject", "^orders", "copies")
    )
    joined.select("subject", "payload").write.format("nats").mode("append").option(
        "servers", url
    ).save()
    joined.agg(F.count("*").alias("rows"), F.sum("n").alias("n")).show()
