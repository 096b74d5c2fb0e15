"""`nats_client` for tests that anyio runs; imported once one of them asks for a client."""

from __future__ import annotations

import pytest

from midge.testing.settling_client import connected_client

in_anyio_loop = pytest.fixture(name="_nats_client_in_anyio_loop")(connected_client)
