"""midge: a NATS server in Python, as a daemon, as a library and as the head of a data pipeline."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from midge.protocol.errors import MidgeError
    from midge.server.config.options import Options
    from midge.server.embedded.direct import DirectSubscription, NoRespondersError
    from midge.server.embedded.inbox import Message
    from midge.server.embedded.server import Server
    from midge.server.embedded.snapshots import ConnectionView, Stats, SubscriptionView
    from midge.server.embedded.threaded import ThreadedServer, run_in_thread
    from midge.server.embedded.threaded_subscription import ThreadedSubscription
    from midge.server.errors import ConfigError
    from midge.server.preflight import load_options
    from midge.version import __version__ as __version__

__all__ = [
    "ConfigError",
    "ConnectionView",
    "DirectSubscription",
    "Message",
    "MidgeError",
    "NoRespondersError",
    "Options",
    "Server",
    "Stats",
    "SubscriptionView",
    "ThreadedServer",
    "ThreadedSubscription",
    "load_options",
    "run_in_thread",
]

_HOMES = {
    "__version__": "midge.version",
    "ConfigError": "midge.server.errors",
    "ConnectionView": "midge.server.embedded.snapshots",
    "DirectSubscription": "midge.server.embedded.direct",
    "Message": "midge.server.embedded.inbox",
    "MidgeError": "midge.protocol.errors",
    "NoRespondersError": "midge.server.embedded.direct",
    "Options": "midge.server.config.options",
    "Server": "midge.server.embedded.server",
    "Stats": "midge.server.embedded.snapshots",
    "SubscriptionView": "midge.server.embedded.snapshots",
    "ThreadedServer": "midge.server.embedded.threaded",
    "ThreadedSubscription": "midge.server.embedded.threaded_subscription",
    "load_options": "midge.server.preflight",
    "run_in_thread": "midge.server.embedded.threaded",
}


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that `import midge` is quick."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'midge' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported yet or not."""
    return sorted({*globals(), *_HOMES})
