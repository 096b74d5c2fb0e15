"""midge: a NATS server in Python, as a daemon, as a library and as the head of a data pipeline."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from midge.protocol.errors import MidgeError
    from midge.server.config import load_options
    from midge.server.direct import DirectSubscription, NoRespondersError
    from midge.server.embedded import Server
    from midge.server.errors import ConfigError
    from midge.server.inbox import Message
    from midge.server.options import Options
    from midge.server.threaded import ThreadedServer, run_in_thread
    from midge.server.threaded_subscription import ThreadedSubscription
    from midge.server.views import ConnectionView, Stats, SubscriptionView

__version__ = "0.1.0"

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
    "ConfigError": "midge.server.errors",
    "ConnectionView": "midge.server.views",
    "DirectSubscription": "midge.server.direct",
    "Message": "midge.server.inbox",
    "MidgeError": "midge.protocol.errors",
    "NoRespondersError": "midge.server.direct",
    "Options": "midge.server.options",
    "Server": "midge.server.embedded",
    "Stats": "midge.server.views",
    "SubscriptionView": "midge.server.views",
    "ThreadedServer": "midge.server.threaded",
    "ThreadedSubscription": "midge.server.threaded_subscription",
    "load_options": "midge.server.config",
    "run_in_thread": "midge.server.threaded",
}


def __getattr__(name: str) -> Any:
    """Import what is public when it is first asked for, so that `import midge` is quick."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'midge' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported yet or not."""
    return sorted({*globals(), *__all__})
