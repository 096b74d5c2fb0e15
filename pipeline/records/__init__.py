"""Recorded messages as files; what is documented of it stands here, too."""

from midge.pipeline.records.files import (
    CLIENTS,
    INTEREST,
    MESSAGES,
    BadSegment,
    DataSet,
    RecordsError,
    read_batches,
    read_table,
)

__all__ = [
    "CLIENTS",
    "INTEREST",
    "MESSAGES",
    "BadSegment",
    "DataSet",
    "RecordsError",
    "read_batches",
    "read_table",
]
