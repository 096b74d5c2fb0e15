"""The documented path to streams as tables: `midge.pipeline.tables`."""

from __future__ import annotations

from midge.pipeline.tables.landing import Landed, create_table, land
from midge.pipeline.tables.rebuilding import rebuild
from midge.pipeline.tables.scanning import (
    latest,
    read_table,
    scan,
    scan_duckdb,
    scan_polars,
    scan_rows,
)
from midge.pipeline.tables.stored import build

__all__ = [
    "Landed",
    "build",
    "create_table",
    "land",
    "latest",
    "read_table",
    "rebuild",
    "scan",
    "scan_duckdb",
    "scan_polars",
    "scan_rows",
]
