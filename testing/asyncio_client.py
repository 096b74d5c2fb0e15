"""`nats_client` for tests that pytest-asyncio runs: a fixture for each loop a test may run in.

The first test with a client imports this module, so pytest-asyncio is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from midge.testing.settling_client import connected_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from midge.testing.settling_client import SettlingClient


def _fixture(loop_scope: str) -> object:
    # One function per scope, because pytest-asyncio stores the scope of its loop on the function.
    async def nats_client_in_loop(
        request: pytest.FixtureRequest, nats_url: str
    ) -> AsyncIterator[SettlingClient]:
        async for client in connected_client(request, nats_url):
            yield client

    name = f"_nats_client_in_{loop_scope}_loop"
    register = pytest_asyncio.fixture(loop_scope=loop_scope, name=name)  # type: ignore[call-overload]
    return register(nats_client_in_loop)


in_function_loop = _fixture("function")
in_class_loop = _fixture("class")
in_module_loop = _fixture("module")
in_package_loop = _fixture("package")
in_session_loop = _fixture("session")
