"""The documented path to streams as tables: `midge.pipeline.tables`."""

from __future__ import annotations

from midge.pipeline.tables.landing import Landed, create_table, land
from midge.pipeline.tables.rebuilding import rebuild
from midge.pipeline.tables.scanning import scan, scan_duckdb, scan_polars, scan_rows

__all__ = [
    "Landed",
    "create_table",
    "land",
    "rebuild",
    "scan",
    "scan_duckdb",
    "scan_polars",
    "scan_rows",
]
