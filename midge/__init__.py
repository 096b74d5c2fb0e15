"""midge: a NATS server in Python, as a daemon, as a library and as the head of a data pipeline."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from midge.jetstream.errors import JetStreamError
    from midge.protocol.errors import MidgeError
    from midge.server.config.options import Options
    from midge.server.embedded.direct import DirectSubscription, NoRespondersError
    from midge.server.embedded.fault_kinds import Fault
    from midge.server.embedded.faults import Faults
    from midge.server.embedded.inbox import Message
    from midge.server.embedded.jetstream import JetStream
    from midge.server.embedded.jetstream_requests import PubAck
    from midge.server.embedded.key_value import KeyValue, KeyValueEntry
    from midge.server.embedded.server import Server
    from midge.server.embedded.snapshots import ConnectionView, Stats, SubscriptionView
    from midge.server.embedded.stream_messages import Consuming, StoredMessage, StreamMessage
    from midge.server.embedded.streams import Stream, StreamState
    from midge.server.embedded.threaded import ThreadedServer, ThreadedSubscription, run_in_thread
    from midge.server.embedded.threaded_jetstream import (
        ThreadedConsuming,
        ThreadedJetStream,
        ThreadedKeyValue,
        ThreadedStream,
        ThreadedStreamMessage,
    )
    from midge.server.errors import ConfigError
    from midge.server.preflight import load_options
    from midge.version import __version__ as __version__

__all__ = [
    "ConfigError",
    "ConnectionView",
    "Consuming",
    "DirectSubscription",
    "Fault",
    "Faults",
    "JetStream",
    "JetStreamError",
    "KeyValue",
    "KeyValueEntry",
    "Message",
    "MidgeError",
    "NoRespondersError",
    "Options",
    "PubAck",
    "Server",
    "Stats",
    "StoredMessage",
    "Stream",
    "StreamMessage",
    "StreamState",
    "SubscriptionView",
    "ThreadedConsuming",
    "ThreadedJetStream",
    "ThreadedKeyValue",
    "ThreadedServer",
    "ThreadedStream",
    "ThreadedStreamMessage",
    "ThreadedSubscription",
    "load_options",
    "run_in_thread",
]

_HOMES = {
    "__version__": "midge.version",
    "ConfigError": "midge.server.errors",
    "ConnectionView": "midge.server.embedded.snapshots",
    "Consuming": "midge.server.embedded.stream_messages",
    "DirectSubscription": "midge.server.embedded.direct",
    "Fault": "midge.server.embedded.fault_kinds",
    "Faults": "midge.server.embedded.faults",
    "JetStream": "midge.server.embedded.jetstream",
    "JetStreamError": "midge.jetstream.errors",
    "KeyValue": "midge.server.embedded.key_value",
    "KeyValueEntry": "midge.server.embedded.key_value",
    "Message": "midge.server.embedded.inbox",
    "MidgeError": "midge.protocol.errors",
    "NoRespondersError": "midge.server.embedded.direct",
    "Options": "midge.server.config.options",
    "PubAck": "midge.server.embedded.jetstream_requests",
    "Server": "midge.server.embedded.server",
    "Stats": "midge.server.embedded.snapshots",
    "StoredMessage": "midge.server.embedded.stream_messages",
    "Stream": "midge.server.embedded.streams",
    "StreamMessage": "midge.server.embedded.stream_messages",
    "StreamState": "midge.server.embedded.streams",
    "SubscriptionView": "midge.server.embedded.snapshots",
    "ThreadedConsuming": "midge.server.embedded.threaded_jetstream",
    "ThreadedJetStream": "midge.server.embedded.threaded_jetstream",
    "ThreadedKeyValue": "midge.server.embedded.threaded_jetstream",
    "ThreadedServer": "midge.server.embedded.threaded",
    "ThreadedStream": "midge.server.embedded.threaded_jetstream",
    "ThreadedStreamMessage": "midge.server.embedded.threaded_jetstream",
    "ThreadedSubscription": "midge.server.embedded.threaded",
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
