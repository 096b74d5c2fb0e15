"""Recorded messages as files; this package exports the documented names."""

from midge.pipeline.records.files import BadSegment, RecordsError, read_batches, read_table
from midge.pipeline.records.format import CLIENTS, INTEREST, MESSAGES, DataSet

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
