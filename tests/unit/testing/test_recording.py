"""Recorded messages, as a test reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import midge
from midge.protocol.errors import MidgeError
from midge.testing import read_recording

if TYPE_CHECKING:
    from pathlib import Path


async def test_messages_in_their_order(tmp_path: Path) -> None:
    async with midge.Server(port=-1, recorder={"directory": str(tmp_path)}) as server:
        server.publish("orders.new", "tea", headers={"Shop": ["1", "2"]}, reply="_INBOX.x")
        server.publish("invoices.new", "3")
        server.publish("_INBOX.x", "taken")
        server.publish("orders.old", "coffee")
    everything = list(read_recording(tmp_path))
    assert [message.text for message in everything] == ["tea", "3", "coffee"]
    first, last = read_recording(str(tmp_path), "orders.*")
    assert (first.subject, first.headers, first.reply) == (
        "orders.new",
        {"Shop": ["1", "2"]},
        "_INBOX.x",
    )
    assert last.subject == "orders.old"
    assert [message.text for message in read_recording(tmp_path, "_INBOX.>")] == ["taken"]


def test_no_recording(tmp_path: Path) -> None:
    with pytest.raises(MidgeError, match="there is no recording in"):
        list(read_recording(tmp_path))
