"""Server processes for the differential tests: one pair per configuration at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .pair import ServerPair
from .script import ServerConfig

_failed: dict[str, str] = {}
"""Why a configuration's servers do not start: tried once, not again for every script."""


@pytest.fixture(scope="module")
def servers(request: pytest.FixtureRequest) -> Iterator[ServerPair]:
    """A nats-server and a midge with the same configuration, kept while scripts need them."""
    config: ServerConfig = request.param
    if config.name in _failed:
        pytest.fail(_failed[config.name], pytrace=False)
    pair = ServerPair(config)
    try:
        pair.start()
    except RuntimeError as error:
        _failed[config.name] = str(error)
        pytest.fail(str(error), pytrace=False)
    yield pair
    pair.stop()
