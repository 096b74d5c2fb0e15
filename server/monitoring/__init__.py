"""Monitoring over HTTP: nats-server's pages, Prometheus metrics and the console.

The makers of pages are imported when one is first asked for, so that a server starts quickly.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from midge.server.monitoring import accounts, connz, forms, others, subsz, varz

__all__ = ["accounts", "connz", "forms", "others", "subsz", "varz"]


def __getattr__(name: str) -> Any:
    """Import a maker of pages, which is an attribute of this package from then on."""
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
