"""The documented path to `midge.pipeline.spark_source.source`."""

from __future__ import annotations

from midge.pipeline.spark_source.source import register

__all__ = ["register"]
