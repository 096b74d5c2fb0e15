"""Use Spark as the tests do, so that Java archives the classes (`SPARK_CLASS_ARCHIVE`)."""

import tempfile

from pyspark import SparkContext

from midge.pipeline.session import spark_session


def main() -> None:
    """Run a query, a write, a read with pandas, and a stream."""
    spark = spark_session(
        "classes", "local[2]", {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    )
    with tempfile.TemporaryDirectory(prefix="midge-classes-") as folder:
        rows = spark.createDataFrame([(i, f"a.{i % 3}") for i in range(100)], "n int, s string")
        rows.write.partitionBy("s").parquet(f"{folder}/rows")
        rows.createOrReplaceTempView("rows")
        spark.sql(
            "select s, count(*), sum(n) over (partition by s) from rows group by s, n"
        ).collect()
        spark.read.parquet(f"{folder}/rows").join(rows, "n").toPandas()
        stream = spark.readStream.format("rate").load().writeStream.format("parquet")
        places = {"path": f"{folder}/out", "checkpointLocation": f"{folder}/checkpoint"}
        query = stream.options(**places).trigger(once=True).start()
        query.awaitTermination(60)
        java = SparkContext._gateway.proc
        spark.stop()
    java.stdin.close()
    java.wait(120)


if __name__ == "__main__":
    main()
