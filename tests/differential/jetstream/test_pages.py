"""The monitoring pages show the same of streams and consumers as nats-server's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.differential.pages import Answer, Site, differences, shape
from tests.support.processes import Server, midge_command, nats_server_command

from .wire import Wire

CONFIG = 'jetstream { store_dir: "@directory@" }\n'

JSZ = (
    *(
        "",
        "accounts=1",
        "streams=1",
        "consumers=1",
        "config=1",
        "acc=$G",
        "acc=N",
        "acc=N&streams=1",
    ),
    *("accounts=1&config=1", "streams=1&config=1", "consumers=1&config=1", "acc=$G&config=1"),
    *("streams=1&leader-only=1", "streams=1&stream-leader-only=1", "consumers=1&raft=1"),
    *("direct-consumers=1", "accounts=1&offset=5", "streams=1&limit=1"),
)
HEALTHZ = (
    *("", "details=1", "account=$G", "account=$G&stream=S", "account=$G&stream=S&consumer=C"),
    *("account=N", "account=$G&stream=N", "account=$G&stream=S&consumer=N"),
    *("stream=S", "consumer=C&account=$G", "js-enabled-only=1&account=N", "js-server-only=x"),
)
DETAILED = tuple(f"{one}&details=1" for one in HEALTHZ if "=" in one)

NOT_HERE = ("config.sync_always: ",)
"""Beginnings of the differences that are meant: this is midge's default."""


async def visit(command: list[str]) -> dict[str, Answer]:
    """Start a server by `command`, make streams, and fetch all pages."""
    with Server(command, CONFIG, flags=("-m", "-1")) as server:
        wire = await Wire.connect(*server.address())
        for name, keys in (
            ("S", {"subjects": ["s.>"]}),
            ("MIRROR", {"mirror": {"name": "S", "filter_subject": "s.1"}}),
            ("SOURCED", {"sources": [{"name": "S"}], "storage": "memory"}),
        ):
            assert "error" not in await wire.api(f"STREAM.CREATE.{name}", {"name": name, **keys})
        config = {"durable_name": "C", "ack_policy": "explicit"}
        body = {"stream_name": "S", "config": config}
        assert "error" not in await wire.api("CONSUMER.CREATE.S.C", body)
        for number in range(3):
            await wire.request(f"s.{number}", b"")
        await until_sourced(wire)
        site = Site(server)
        asked = [f"/jsz?{one}" for one in JSZ]
        asked += [f"/healthz?{one}" for one in (*HEALTHZ, *DETAILED)]
        found = {path: await asyncio.to_thread(site.get, path) for path in asked}
        await wire.close()
        return found


async def until_sourced(wire: Wire) -> None:
    """Wait until mirror and source have what they are to have."""
    for name, count in (("MIRROR", 1), ("SOURCED", 3)):
        while (await wire.api(f"STREAM.INFO.{name}"))["state"]["messages"] < count:
            await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def both() -> tuple[dict[str, Answer], dict[str, Answer]]:
    """What nats-server answered, and what midge did."""
    return asyncio.run(visit(nats_server_command())), asyncio.run(visit(midge_command()))


Both = tuple[dict[str, Answer], dict[str, Answer]]


@pytest.mark.parametrize("query", JSZ)
def test_jsz_has_the_same_fields(both: Both, query: str) -> None:
    real, ours = (one[f"/jsz?{query}"] for one in both)
    assert real.status == ours.status == 200
    found = differences(shape(real.page), shape(ours.page))
    assert [one for one in found if not one.startswith(NOT_HERE)] == []
    assert streams(real.page) == streams(ours.page)


def streams(page: Any) -> list[dict[str, Any]]:
    """Return what a page has of each stream but times and sizes, which is the same on both."""
    homes = page.get("account_details", [])
    details = [one for home in homes for one in home.get("stream_detail", [])]
    kept = []
    for one in sorted(details, key=lambda detail: str(detail["name"])):
        state = {key: one["state"][key] for key in ("messages", "first_seq", "last_seq")}
        kept.append({"name": one["name"], "keys": list(one), "state": state})
    return kept


@pytest.mark.parametrize("query", [*HEALTHZ, *DETAILED])
def test_healthz_says_the_same(both: Both, query: str) -> None:
    real, ours = (one[f"/healthz?{query}"] for one in both)
    assert (ours.status, ours.text) == (real.status, real.text)
