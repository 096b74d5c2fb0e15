"""The description of a table of the lake; `tables.py` has them all."""

from dataclasses import dataclass

from midge.pipeline.errors import PipelineError

DATE = "date"
"""The column that partitions a table by the date of its rows, in UTC."""


class LakeError(PipelineError):
    """A table of the lake is missing or unexpected; the text names it."""


@dataclass(frozen=True)
class LakeTable:
    """One table: its name with the layer, what a row is, and its columns as Spark's DDL."""

    name: str
    row: str
    columns: str
    is_growing: bool = False
    dated_by: str = ""
    """The column whose date partitions the table."""

    @property
    def layer(self) -> str:
        """The layer that it belongs to."""
        return self.name.split("/")[0]

    @property
    def stored_columns(self) -> str:
        """The columns with the one that a growing table adds, the number of the batch."""
        return f"{self.columns}, batch bigint" if self.is_growing else self.columns
