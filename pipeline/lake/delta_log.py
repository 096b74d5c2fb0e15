"""The Delta log of a table, written by `deltalake` beside the Parquet files that Spark wrote.

Spark needs no package for that: the executors write Parquet, and the driver commits what they
wrote, once a batch, with the batch's number as the transaction of that commit.
"""

import json
from typing import TYPE_CHECKING

import pyarrow as pa

from midge.extras import install_command
from midge.pipeline.errors import PipelineError
from midge.pipeline.lake.storage import Storage, as_path

if TYPE_CHECKING:
    from midge.pipeline.lake.table import Table

_APP_ID = "midge.pipeline"


def commit(storage: Storage, table: "Table", place: str, batch: int | None) -> None:
    """Commit the files in `place`: as a growing table's `batch`, or as all that a table now has.

    A batch that an earlier commit has already taken is left alone.

    Raises:
        PipelineError: `deltalake` is not installed.
    """
    try:
        from deltalake import CommitProperties, DeltaTable, Transaction
        from deltalake.transaction import AddAction
    except ImportError as error:
        raise PipelineError(
            f"the format 'delta' needs deltalake: {install_command('delta')}"
        ) from error

    uri = as_path(storage.uri(table.name))
    if not DeltaTable.is_deltatable(uri):
        partitions = ["batch"] if table.is_growing else None
        DeltaTable.create(uri, schema=_schema(storage, table), partition_by=partitions)
    log = DeltaTable(uri)
    transactions = None
    if batch is not None:
        taken = log.transaction_version(_APP_ID)
        if taken is not None and taken >= batch:
            return
        transactions = [Transaction(_APP_ID, batch)]
    actions = [
        AddAction(
            path=file.place.removeprefix(f"{table.name}/"),
            size=file.size_bytes,
            partition_values={} if batch is None else {"batch": str(batch)},
            modification_time=file.modified_ms,
            data_change=True,
            stats=json.dumps({}),
        )
        for file in storage.files(place)
        if file.place.endswith(".parquet")
    ]
    log.create_write_transaction(
        actions,
        "overwrite" if batch is None else "append",
        log.schema(),
        partition_by=["batch"] if table.is_growing else None,
        commit_properties=CommitProperties(app_transactions=transactions),
    )


def _schema(storage: Storage, table: "Table") -> pa.Schema:
    """Return the columns of a table as Delta knows them, the batch included."""
    from pyspark.sql.pandas.types import to_arrow_schema

    columns = f"{table.columns}, batch bigint" if table.is_growing else table.columns
    frame = storage.spark.createDataFrame([], columns)
    return to_arrow_schema(frame.schema, timezone="UTC")
