"""The documented path to the source's `register`, and to the errors of a program that uses it."""

from __future__ import annotations

from midge.pipeline.errors import exit_on_error, sentence_of
from midge.pipeline.spark_source.source import latest_by_key, register

__all__ = ["exit_on_error", "latest_by_key", "register", "sentence_of"]
