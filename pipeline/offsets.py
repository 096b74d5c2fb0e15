"""The documented path to `midge.pipeline.nats.offsets`."""

from __future__ import annotations

from midge.pipeline.nats.offsets import lag

__all__ = ["lag"]
