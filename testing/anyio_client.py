"""`nats_client` for tests that anyio runs; the first test with a client imports this module."""

from __future__ import annotations

import pytest

from midge.testing.settling_client import connected_client

in_anyio_loop = pytest.fixture(name="_nats_client_in_anyio_loop")(connected_client)
