"""Read streams' tables in Spark, without Delta's packages for Java."""

import json
import re
from typing import TYPE_CHECKING

from midge.pipeline.delta import files_of
from midge.pipeline.tables.delta import TableHandle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MEANT_BY_SPARK = re.compile(r"[*?{}]")
"""Spark expands these characters in a path; a backslash makes them literal."""


def read_table(spark: "SparkSession", url: str, version: int | None = None) -> "DataFrame":
    """Return a version of the table at `url`, the newest by default, as Spark reads its files.

    Raises:
        TableError: there is no such table or version, or it is not one of a stream.
    """
    from pyspark.sql.types import StructType

    handle = TableHandle(url, version).handle
    # Delta's log has the columns in Spark's own form.
    schema = StructType.fromJson(json.loads(handle.schema().to_json()))
    files = files_of(url, handle)
    if not files:
        return spark.createDataFrame([], schema)
    paths = (_MEANT_BY_SPARK.sub(r"\\\g<0>", file) for file in files)
    return spark.read.schema(schema).option("basePath", url).parquet(*paths)
