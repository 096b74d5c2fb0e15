"""What a server in the process costs before its first client: only what a plain one needs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

START = """
import asyncio, json, sys
import midge

async def main():
    async with midge.Server(port=-1, {keywords}):
        print(json.dumps(sorted(sys.modules)))

asyncio.run(main())
"""

HEAVY = {
    "aiohttp",
    "bcrypt",
    "cryptography",
    "difflib",
    "nats",
    "prometheus_client",
    "pyarrow",
    "pyspark",
    "pytest",
    "rich",
    "structlog",
    "uvloop",
    "websockets",
}
"""Packages that only some servers need, or none."""

LATER = {
    "midge.server.auth.certificates",
    "midge.server.auth.operator",
    "midge.server.embedded.faults",
    "midge.server.interceptors.interception",
    "midge.server.interceptors",
    "midge.server.log.formats",
    "midge.server.monitoring.connz",
    "midge.server.monitoring.http",
    "midge.server.recorder",
    "midge.server.config.reload_rules",
    "midge.server.embedded.threaded",
    "midge.server.embedded.snapshots",
    "midge.server.listeners.websocket",
    "midge.testing",
}
"""Modules of ours that are imported when they are first used."""


def modules_after_a_start(keywords: str = "") -> set[str]:
    """Start a server in a fresh process; return the names of all that was imported."""
    done = subprocess.run(
        [sys.executable, "-c", START.format(keywords=keywords)],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    return set(json.loads(done.stdout))


def test_a_plain_start_imports_only_what_it_needs() -> None:
    imported = modules_after_a_start()
    assert imported & {"midge.server.embedded.server", "midge.server.broker.broker"}, (
        "the server did start"
    )
    assert imported & (HEAVY | LATER) == set()


@pytest.mark.parametrize(
    "keywords",
    ["user='u', password='p'", "max_payload=2048, ping_interval=60", "token='t', host='127.0.0.1'"],
)
def test_common_settings_import_nothing_more(keywords: str) -> None:
    assert modules_after_a_start(keywords) & (HEAVY | LATER) == set()
