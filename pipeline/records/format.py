"""The record format: the columns of its three data sets, and the paths of segments.

The columns come from `midge.protocol.record_columns`, which the recorder uses as well. Nothing here
accesses a file, and nothing needs Spark.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from midge.protocol import record_columns

TIME = pa.timestamp("us", tz="UTC")
HEADERS = pa.map_(pa.string(), pa.list_(pa.string()))

SLOW_CONSUMER_REASON = "slow consumer"
"""The start, in lower case, of the disconnect reason of a client that was too slow."""

_SEGMENT_NAME = re.compile(r"part-(?P<server>.+)-(?P<number>\d+)\.parquet")
_TYPES = {"time": TIME, "headers": HEADERS}


@dataclass(frozen=True)
class DataSet:
    """One of the three data sets: its directory under the record root, and its columns."""

    name: str
    schema: pa.Schema


def _data_set(name: str) -> DataSet:
    return DataSet(name, pa.schema([_field(each) for each in record_columns.DATA_SETS[name]]))


def _field(column: record_columns.Column) -> pa.Field:
    kind = _TYPES.get(column.kind) or pa.type_for_alias(column.kind)
    return pa.field(column.name, kind, nullable=not column.is_required)


MESSAGES = _data_set("messages")
INTEREST = _data_set("interest")
CLIENTS = _data_set("clients")

DATA_SETS: Mapping[str, DataSet] = {each.name: each for each in (MESSAGES, INTEREST, CLIENTS)}


def segment_path(root: Path, data_set: DataSet, time: datetime, server: str, number: int) -> Path:
    """Return the final path of the segment that begins at `time`."""
    time = time.astimezone(UTC)
    name = f"part-{file_safe(server)}-{number:06d}.parquet"
    return root / data_set.name / f"date={time:%Y-%m-%d}" / f"hour={time:%H}" / name


def data_set_of(relative_path: str) -> DataSet | None:
    """Return the data set of a path relative to the record root, or None."""
    return DATA_SETS.get(relative_path.split("/", 1)[0])


def schema_mismatch(schema: pa.Schema, data_set: DataSet) -> str | None:
    """Return why `schema` is no schema of `data_set`, or None; extra columns are allowed."""
    for field in data_set.schema:
        if field.name not in schema.names:
            return f"not a segment of {data_set.name}: column {field.name!r} is missing"
        found = schema.field(field.name).type
        if _plain_type(found) != _plain_type(field.type):
            return (
                f"not a segment of {data_set.name}: column {field.name!r} is {found}, "
                f"expected {field.type}"
            )
    return None


def file_safe(server: str) -> str:
    """Return a server's name for file names; characters that a path cannot have become `_`."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", server) or "_"


def is_hidden(path: Path, root: Path) -> bool:
    """Return whether readers skip this file, as Spark does: unfinished ones begin with a dot."""
    return any(part.startswith((".", "_")) for part in path.relative_to(root).parts)


def segment_order(path: Path) -> tuple[str, str, int, str]:
    """Return the key by which segments are in order: directory, server, number, name."""
    found = _SEGMENT_NAME.fullmatch(path.name)
    server, number = (found["server"], int(found["number"])) if found else ("", 0)
    return str(path.parent), server, number, path.name


def _plain_type(kind: pa.DataType) -> str:
    """Name a type by what it holds, whichever of Arrow's layouts it is in."""
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_map(kind):
        return f"map<{_plain_type(kind.key_type)}, {_plain_type(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{_plain_type(kind.value_type)}>"
    return str(kind).replace("large_", "").replace("_view", "")
