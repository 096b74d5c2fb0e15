"""The description of a table of the lake; `tables.py` has them all."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """One table: its name with the layer, what a row is, and its columns as Spark's DDL."""

    name: str
    row: str
    columns: str
    is_growing: bool = False

    @property
    def layer(self) -> str:
        """The layer that it belongs to."""
        return self.name.split("/")[0]
