"""The documented path to `midge.pipeline.matching.match`."""

from __future__ import annotations

from midge.pipeline.matching.match import match, match_counts

__all__ = ["match", "match_counts"]
