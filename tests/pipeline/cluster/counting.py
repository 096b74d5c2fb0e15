"""A program for Spark Connect: counts a stream's messages by subject, over two runs of a query.

Arguments: `local[2]` or a Connect server's URL, the NATS server's URL, a directory.
"""

import os
import sys

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor

from midge.pipeline.session import find_java, wrapped_home
from midge.pipeline.source import register


class Count(StatefulProcessor):
    """Keeps the number of messages of each subject."""

    def init(self, handle):
        self._count = handle.getValueState("count", "n long")

    def handleInputRows(self, key, rows, _timers):
        before = self._count.get()[0] if self._count.exists() else 0
        count = before + sum(1 for _ in rows)
        self._count.update((count,))
        yield Row(subject=key[0], n=count)

    def close(self):
        pass


def main(remote, url, directory):
    os.environ["JAVA_HOME"] = str(wrapped_home(find_java()))
    spark = (
        SparkSession.builder.remote(remote)
        .config("spark.sql.shuffle.partitions", "2")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .getOrCreate()
    )
    register(spark)
    orders = (
        spark.readStream.format("nats")
        .options(servers=url, stream="ORDERS", startingOffsets="earliest")
        .load()
    )
    counts = orders.groupBy("subject").transformWithState(
        statefulProcessor=Count(),
        outputStructType="subject string, n long",
        outputMode="Append",
        timeMode="None",
    )

    query = (
        counts.writeStream.format("parquet")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{directory}/counts")
    )
    assert query.awaitTermination(1500)
    for row in spark.read.parquet(f"{directory}/counts").collect():
        print("count", row.subject, row.n)
    stored = spark.read.format("nats").options(servers=url, stream="ORDERS").load()
    print("stored", stored.where("sequence > 5").count())
    stored.selectExpr("'copies.x' AS subject", "payload").write.format("nats").options(
        servers=url
    ).mode("append").save()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
