"""Interceptors of every kind, and raw clients of the servers that ask them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import midge
from midge.server.interceptors import Refuse
from tests.support.raw import Raw

Start = Callable[..., Any]
VIOLATION = b'-ERR \'Permissions Violation for Publish to "%b"'

clients: list[Raw] = []
"""The clients of the current test; the fixture `start` closes them."""


async def opened(server: midge.Server) -> Raw:
    clients.append(await Raw.open(server.url))
    return clients[-1]


async def connected(server: midge.Server, **options: Any) -> Raw:
    client = await opened(server)
    assert await client.connect(**options) == b""
    return client


def passes(event: Any) -> Any:
    return event


async def passes_later(event: Any) -> Any:
    await asyncio.sleep(0)
    return event


def refuses(event: Any) -> Any:
    return Refuse("not today")


async def refuses_later(event: Any) -> Any:
    await asyncio.sleep(0)
    return Refuse("not today")


def raises(event: Any) -> Any:
    raise RuntimeError("out of order")


async def raises_later(event: Any) -> Any:
    await asyncio.sleep(0)
    raise RuntimeError("out of order")


def exits(event: Any) -> Any:
    sys.exit("done")


async def exits_later(event: Any) -> Any:
    await asyncio.sleep(0)
    sys.exit("done")


def returns_nothing(event: Any) -> Any:
    return None


def returns_true(event: Any) -> Any:
    return True


async def returns_nothing_later(event: Any) -> Any:
    return None


REFUSING = (
    refuses,
    refuses_later,
    raises,
    raises_later,
    exits,
    exits_later,
    returns_nothing,
    returns_true,
    returns_nothing_later,
)
PASSING = (passes, passes_later)
