"""The corpus: byte scripts by topic, each with the behaviour it pins."""

from __future__ import annotations

import importlib

from tests.differential.script import Script

TOPICS = (
    "handshake",
    "connect_json",
    "verbs",
    "numbers",
    "limits",
    "subjects",
    "delivery",
    "keepalive",
    "lifecycle",
    "mappings",
    "auth",
    "permissions",
    "accounts",
    "system",
    "tls",
    "websocket",
)
"""The modules of the corpus, from the first byte of a connection outwards."""


def load() -> tuple[Script, ...]:
    """All scripts of all topics."""
    modules = (importlib.import_module(f"{__name__}.{topic}") for topic in TOPICS)
    return tuple(script for module in modules for script in module.SCRIPTS)
