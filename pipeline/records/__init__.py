"""Recorded messages as files; what is documented of it is exported here."""

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
