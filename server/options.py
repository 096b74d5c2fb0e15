"""The documented path to the tables of settings, `midge.server.config.options`."""

from __future__ import annotations

from midge.server.config.options import *  # noqa: F403 - whatever tables there are
