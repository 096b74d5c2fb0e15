"""What passes between the connections of a server: midge and nats-server against a recording."""

from __future__ import annotations

import json

import pytest

from tests.differential.passage import RECORDING, record

DIFFERENCES = {
    # An import of a service asks for a member of a group in the exporter's account by the rules of
    # messages that cross no border.
    "leaf -> leaf same service queue": "nothing",
    # An import of a stream leaves out a group whose members were here when the message was sent.
    "route -> hub other stream queue": "nothing",
}
"""The cells in which midge differs, and what it does there."""


@pytest.mark.parametrize("kind", ["real", "midge"])
async def test_every_cell_is_as_recorded(kind: str) -> None:
    expected = json.loads(RECORDING.read_text())
    if kind == "midge":
        expected |= DIFFERENCES
    assert await record(kind) == expected
