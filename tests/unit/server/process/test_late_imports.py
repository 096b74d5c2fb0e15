"""The stand-ins for modules of Python while the event loop is imported, and their removal."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from midge.server.process import late_imports

IMPORTED = """
import functools, json, sys
from midge.server.process import late_imports

MODULES = ("inspect", "locale", "platform", "ssl", "textwrap", "tokenize", "typing_extensions")

late_imports.import_msgspec()
late_imports.import_event_loop()
found = {"imported": sorted(sys.modules.keys() & set(MODULES))}

import asyncio, inspect, linecache, signal, ssl, textwrap, tokenize
import asyncio.coroutines, asyncio.sslproto, msgspec._json_schema, uvloop

found["same"] = [
    asyncio.coroutines.inspect.isgenerator is inspect.isgenerator,
    asyncio.coroutines.inspect.unwrap is inspect.unwrap,
    asyncio.sslproto.ssl.SSLContext is ssl.SSLContext,
    asyncio.sslproto.ssl.SSLSyscallError is ssl.SSLSyscallError,
    asyncio.sslproto.ssl.create_default_context is ssl.create_default_context,
    linecache.tokenize.open is tokenize.open,
    msgspec._json_schema.textwrap.dedent is textwrap.dedent,
]

class Handlers:
    async def later(self): pass
    def now(self): pass

async def later(): pass

async def refused():
    loop = asyncio.get_running_loop()
    for handler in (later, Handlers().later, Handlers.later, functools.partial(later)):
        try:
            loop.add_signal_handler(signal.SIGUSR1, handler)
        except TypeError as error:
            yield str(error)
    loop.add_signal_handler(signal.SIGUSR1, Handlers().now)
    loop.add_signal_handler(signal.SIGUSR1, functools.partial(Handlers().now))

async def main():
    return [text async for text in refused()]

found["refused"] = uvloop.run(main())
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """Import the loop in a fresh process; return its observations."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED], capture_output=True, text=True, timeout=50, check=True
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_nothing_stands_in_for_a_module_afterwards(found: dict[str, Any]) -> None:
    assert found["imported"] == []


def test_whoever_has_a_stand_in_finds_the_names_of_the_module(found: dict[str, Any]) -> None:
    assert found["same"] == [True] * 7


def test_the_loop_refuses_coroutine_functions_as_before(found: dict[str, Any]) -> None:
    assert found["refused"] == ["coroutines cannot be used with add_signal_handler()"] * 4


def test_a_stand_in_that_lacks_a_name_gives_way_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    late = late_imports.Late("colorsys", ONE_THIRD=3)
    monkeypatch.setitem(sys.modules, "colorsys", late)
    assert late.ONE_THIRD == 3
    assert sys.modules["colorsys"] is late
    assert late.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)
    assert sys.modules["colorsys"] is not late
    late.forget_known()
    assert late.ONE_THIRD == 1 / 3


def test_where_all_has_been_imported_nothing_changes() -> None:
    before = dict(sys.modules)
    late_imports.import_msgspec()
    late_imports.import_event_loop()
    assert before.items() <= sys.modules.items()
    assert [one for one in sys.modules.values() if isinstance(one, late_imports.Late)] == []
