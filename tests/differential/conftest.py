"""Server processes for the differential tests: one pair per configuration at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .pair import ServerPair
from .script import ServerConfig


@pytest.fixture(scope="module")
def servers(request: pytest.FixtureRequest) -> Iterator[ServerPair]:
    """A nats-server and a midge with the same configuration, kept while scripts need them."""
    config: ServerConfig = request.param
    with ServerPair(config) as pair:
        yield pair
