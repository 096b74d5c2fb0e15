"""The documented path to `midge.pipeline.spark_session`."""

from __future__ import annotations

from midge.pipeline.spark_session import spark_session

__all__ = ["spark_session"]
