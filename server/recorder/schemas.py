"""The record format's three data sets as Arrow schemas; `docs/record-format.md` explains them."""

import pyarrow as pa

from midge.protocol import record_columns

TIME = pa.timestamp("us", tz="UTC")
HEADERS = pa.map_(pa.string(), pa.list_(pa.string()))

_TYPES = {"time": TIME, "headers": HEADERS}


def _field(column: record_columns.Column) -> pa.Field:
    kind = _TYPES.get(column.kind) or pa.type_for_alias(column.kind)
    return pa.field(column.name, kind, nullable=not column.is_required)


SCHEMAS = {
    name: pa.schema([_field(column) for column in columns])
    for name, columns in record_columns.DATA_SETS.items()
}
"""The data sets by the name of their directory."""

MESSAGES = SCHEMAS["messages"]
