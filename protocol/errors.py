"""The root of every error that midge raises on purpose."""

from __future__ import annotations


class MidgeError(Exception):
    """Stand above every error of midge, so that one `except` catches them all."""
