"""Random topologies of midges and nats-servers, with deliver groups, imports, mappings, logins."""

from __future__ import annotations

import pytest

from tests.support.topologies import Topology, play


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 503))]
)
@pytest.mark.timeout(300)
async def test_messages_get_where_they_should_and_once(seed: int) -> None:
    async with Topology(seed) as topology:
        await play(topology, with_disturbances=seed % 2 == 1)
