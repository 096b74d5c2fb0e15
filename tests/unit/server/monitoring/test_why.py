"""`/why` and `midge why`: each cause of a message that does not arrive is planted and named."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

import midge
from midge.cli import main
from midge.testing import ManualClock, SettlingClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ACCOUNTS: list[dict[str, Any]] = [
    {
        "name": "SHOP",
        "users": [
            {"user": "owner", "password": "o"},
            {
                "user": "till",
                "password": "t",
                "permissions": {
                    "publish": {"allow": ["orders.>"], "deny": ["orders.secret"]},
                    "subscribe": {"deny": ["orders.secret"]},
                },
            },
        ],
        "exports": [{"stream": "prices.>"}],
        "mappings": [
            {"source": "old.*", "destinations": [{"destination": "orders.{{wildcard(1)}}"}]},
            {
                "source": "canary",
                "destinations": [
                    {"destination": "orders.new", "weight_percent": 1},
                    {"destination": "canary", "weight_percent": 1},
                ],
            },
        ],
        "jetstream": {"enabled": True},
    },
    {
        "name": "PRESS",
        "users": [{"user": "press", "password": "p"}],
        "imports": [{"stream": {"account": "SHOP", "subject": "prices.>"}}],
    },
]


class Shop:
    """A server with clients, and its page."""

    def __init__(self, server: midge.Server, clock: ManualClock) -> None:
        self.server = server
        self.clock = clock
        self._clients: list[SettlingClient] = []

    @property
    def monitor(self) -> str:
        return self.server._core.urls()["monitoring"][0]

    async def client(self, user: str, name: str, *patterns: str, **options: Any) -> SettlingClient:
        password = {"owner": "o", "till": "t", "press": "p"}[user]
        client = await SettlingClient.connected(
            self.server.url, user=user, password=password, name=name, **options
        )
        self._clients.append(client)
        for pattern in patterns:
            await client.subscribe(pattern)
        await client.flush()
        return client

    async def page(self, subject: str, **asked: Any) -> dict[str, Any]:
        query = urlencode({"subject": subject, **asked})

        def read() -> dict[str, Any]:
            with urllib.request.urlopen(f"{self.monitor}/why?{query}", timeout=60) as page:
                found: dict[str, Any] = json.load(page)
                return found

        return await asyncio.to_thread(read)

    async def stop(self, subject: str, **asked: Any) -> tuple[str, str, str]:
        """Return rule, text and setting of what stops a message."""
        page = await self.page(subject, **asked)
        assert not page["arrives"], page
        found = next(one for one in page["findings"] if one["stops"])
        return found["rule"], found["text"], found["setting"]

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    clock = ManualClock()
    async with midge.Server(
        port=-1,
        http_port=-1,
        leafnodes_port=-1,
        accounts=ACCOUNTS,
        jetstream=True,
        clock=clock,
    ) as server:
        shop = Shop(server, clock)
        yield shop
        await shop.close()


async def test_a_delivery(shop: Shop) -> None:
    await shop.client("owner", "desk", "orders.*")
    await shop.client("owner", "other", "orders.>")
    page = await shop.page("orders.new", to="desk")
    assert (page["arrives"], page["account"]) == (True, "SHOP")
    texts = [one["text"] for one in page["findings"]]
    assert any("(desk) subscribes to 'orders.*'" in text for text in texts)
    assert "(desk) gets it by 'orders.*'" in texts[-1]


async def test_permissions_to_publish(shop: Shop) -> None:
    await shop.client("till", "till")
    await shop.client("owner", "desk", ">")
    rule, text, setting = await shop.stop("orders.secret", **{"from": "till"})
    assert (rule, setting) == ("permissions", "accounts[0].users[1].permissions.publish.deny")
    assert "may not publish: 'orders.secret' is denied" in text
    rule, text, setting = await shop.stop("stock", **{"from": "till"})
    assert (rule, setting) == ("permissions", "accounts[0].users[1].permissions.publish.allow")
    assert (await shop.page("orders.new", **{"from": "till"}))["arrives"]


async def test_permissions_to_receive(shop: Shop) -> None:
    await shop.client("till", "till", "orders.*")
    rule, text, setting = await shop.stop("orders.secret", to="till")
    assert (rule, setting) == ("permissions", "accounts[0].users[1].permissions.subscribe.deny")
    assert "may not receive it by 'orders.*': 'orders.secret' is denied" in text


async def test_mappings(shop: Shop) -> None:
    await shop.client("owner", "desk", "orders.*")
    page = await shop.page("old.new", to="desk")
    mapping = next(one for one in page["findings"] if one["rule"] == "mapping")
    assert page["arrives"]
    assert (mapping["text"], mapping["setting"]) == (
        "the subject becomes 'orders.new'",
        "accounts[0].mappings[0]",
    )


async def test_a_mapping_that_drops_its_share(shop: Shop) -> None:
    await shop.client("owner", "desk", "canary", "orders.*")
    async with asyncio.timeout(60):
        while (page := await shop.page("canary", to="desk"))["arrives"]:
            pass  # 2 % of the messages do
    (dropped,) = page["findings"]
    assert (dropped["rule"], dropped["stops"]) == ("mapping", True)
    assert dropped["text"] == "a mapping drops its share of these messages"
    assert dropped["setting"] == "accounts[0].mappings[1]"


async def test_a_link(shop: Shop) -> None:
    async with midge.Server(port=-1, server_name="EDGE", leafnodes_remotes=[remote(shop)]) as edge:
        behind = await SettlingClient.connected(edge.url)
        await behind.subscribe("far")
        await behind.flush()
        async with asyncio.timeout(60):
            while not (page := await shop.page("far", account="SHOP"))["arrives"]:
                await asyncio.sleep(0.01)
        assert [(one["rule"], one["text"]) for one in page["findings"]] == [
            ("link", "server EDGE has interest behind its link")
        ]
        await behind.close()


async def test_a_route_is_named_by_its_server() -> None:
    cluster: dict[str, Any] = {"cluster_name": "C", "cluster_port": -1}
    async with midge.Server(port=-1, http_port=-1, **cluster) as here:
        cluster |= {"cluster_routes": [here.cluster_url], "server_name": "THERE"}
        async with midge.Server(port=-1, **cluster) as there:
            behind = await SettlingClient.connected(there.url)
            await behind.subscribe("far")
            await behind.flush()
            asking = Shop(here, ManualClock())
            async with asyncio.timeout(60):
                while not (page := await asking.page("far", account="$G"))["arrives"]:
                    await asyncio.sleep(0.01)
            texts = [one["text"] for one in page["findings"]]
            assert texts == ["server THERE has interest behind its link"]
            await behind.close()


def remote(shop: Shop) -> dict[str, Any]:
    state = shop.server._core._state
    assert state is not None
    return {"urls": [f"nats-leaf://owner:o@127.0.0.1:{state.leafnode_port}"]}


async def test_interest(shop: Shop) -> None:
    await shop.client("owner", "desk", "orders.new")
    rule, text, _ = await shop.stop("orders.nwe", account="SHOP")
    assert (rule, "did you mean 'orders.new'" in text) == ("interest", True)
    await shop.client("owner", "other", "stock.*")
    rule, text, _ = await shop.stop("orders.new", to="other")
    assert "none of the 1 subscriptions of client" in text


async def test_the_border_of_accounts(shop: Shop) -> None:
    await shop.client("press", "press", ">")
    await shop.client("owner", "desk", ">")
    rule, text, setting = await shop.stop("orders.new", to="press", account="SHOP")
    assert (rule, setting) == ("account", "accounts[1].imports")
    assert "does not import this subject, and account SHOP does not export it" in text
    page = await shop.page("prices.tea", to="press", account="SHOP")
    assert page["arrives"], page


async def test_echo_queues_and_clients_that_have_left(shop: Shop) -> None:
    await shop.client("owner", "quiet", "orders.new", no_echo=True)
    rule, _, _ = await shop.stop("orders.new", to="quiet", **{"from": "quiet"})
    assert rule == "echo"
    worker = await shop.client("owner", "worker")
    await worker.subscribe("jobs", queue="workers")
    await worker.flush()
    page = await shop.page("jobs", to="worker")
    assert page["findings"][-1]["rule"] == "queue"
    await worker.close()
    while any(one.name == "worker" for one in shop.server.connections):
        await asyncio.sleep(0.01)
    rule, text, _ = await shop.stop("jobs", to="worker", account="SHOP")
    assert (rule, "has left: Client Closed" in text) == ("connection", True)


async def test_streams_that_refuse(shop: Shop) -> None:
    owner = await shop.client("owner", "owner")
    streams = owner.jetstream()
    await streams.add_stream(name="ORDERS", subjects=["orders.>"], max_msgs=1, discard="new")
    asked = {"account": "SHOP"}
    assert (await shop.page("orders.new", **asked))["arrives"]
    await streams.publish("orders.new", b"tea", headers={"Nats-Msg-Id": "a"})
    rule, text, setting = await shop.stop("orders.new", id="a", **asked)
    assert (rule, setting) == ("dedup", "stream ORDERS: duplicate_window")
    assert "has a message with this id, as 1" in text
    rule, text, setting = await shop.stop("orders.new", **asked)
    assert (rule, setting) == ("limits", "stream ORDERS: max_msgs")
    await streams.add_stream(name="BYTES", subjects=["bytes"], max_bytes=100, discard="new")
    await streams.publish("bytes", bytes(60))
    rule, _, setting = await shop.stop("bytes", **asked)
    assert (rule, setting) == ("limits", "stream BYTES: max_bytes")
    config = (await streams.stream_info("ORDERS")).config
    await streams.update_stream(config.evolve(sealed=True, discard="old"))
    rule, text, setting = await shop.stop("orders.new", **asked)
    assert (rule, text, setting) == ("limits", "stream ORDERS is sealed", "stream ORDERS: sealed")


async def test_what_became_of_a_stored_message(shop: Shop) -> None:
    owner = await shop.client("owner", "owner")
    streams = owner.jetstream()
    await streams.add_stream(name="ORDERS", subjects=["orders.>"], max_age=60)
    await streams.publish("orders.new", b"tea")
    asked = {"account": "SHOP", "seq": 1}
    config = {"max_deliver": 2, "ack_wait": 5, "max_ack_pending": 1}
    workers = await streams.pull_subscribe(
        "orders.new", "workers", config=midge_config(filter_subject="orders.new", **config)
    )
    await streams.add_consumer(
        "ORDERS", midge_config(durable_name="cakes", filter_subject="orders.cake")
    )
    rule, text, setting = await shop.stop("orders.new", **asked)
    assert (rule, text) == ("interest", "no client asks consumer workers for messages")
    findings = (await shop.page("orders.new", **asked))["findings"]
    assert any(
        one["rule"] == "filter" and "takes only 'orders.cake'" in one["text"] for one in findings
    )
    await workers.fetch(1)
    findings = (await shop.page("orders.new", **asked))["findings"]
    assert any("delivered it 1 times, and awaits the ack for" in one["text"] for one in findings)
    await streams.publish("orders.new", b"coffee")
    rule, text, setting = await shop.stop("orders.new", account="SHOP", seq=2)
    assert (rule, setting) == ("limits", "consumer workers: max_ack_pending")
    await shop.clock.elapse(5)
    await workers.fetch(1)
    await shop.clock.elapse(6)
    rule, text, setting = await shop.stop("orders.new", **asked)
    assert (rule, setting) == ("max_deliver", "consumer workers: max_deliver")
    (second,) = await workers.fetch(1, timeout=60)
    await second.ack_sync()
    findings = (await shop.page("orders.new", account="SHOP", seq=2))["findings"]
    assert any("and it was acknowledged" in one["text"] for one in findings)
    await shop.clock.elapse(60)
    rule, text, _ = await shop.stop("orders.new", **asked)
    assert (rule, "max_age=60 s" in text) == ("expiry", True)
    rule, text, _ = await shop.stop("orders.new", account="SHOP", seq=9)
    assert text == "stream ORDERS has come to 2"


def midge_config(**given: Any) -> Any:
    from nats.js.api import ConsumerConfig

    return ConsumerConfig(**given)


async def test_push_consumers_and_pauses(shop: Shop) -> None:
    owner = await shop.client("owner", "owner")
    streams = owner.jetstream()
    await streams.add_stream(name="ORDERS", subjects=["orders.>"])
    await streams.add_consumer("ORDERS", midge_config(durable_name="push", deliver_subject="inbox"))
    rule, _, setting = await shop.stop("orders.new", account="SHOP")
    assert (rule, setting) == ("interest", "consumer push: deliver_subject")
    await streams.delete_consumer("ORDERS", "push")
    until = "2999-01-01T00:00:00Z"
    await streams.add_consumer("ORDERS", midge_config(durable_name="pull"))
    asked = json.dumps({"pause_until": until}).encode()
    await owner.request("$JS.API.CONSUMER.PAUSE.ORDERS.pull", asked, timeout=60)
    rule, text, setting = await shop.stop("orders.new", account="SHOP")
    assert (rule, text) == ("pause", "consumer pull is paused")
    assert setting == "consumer pull: pause_until"


async def test_the_command(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    await shop.client("owner", "desk", "orders.new")
    words = ["why", "orders.new", "--to", "desk", "--monitor", shop.monitor]
    assert await asyncio.to_thread(main, words) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("orders.new in account SHOP\n  - interest: ")
    words[1] = "orders.old"
    assert await asyncio.to_thread(main, [*words, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["arrives"] is False
    for wrong, text in (
        (["why", "orders.*"], "subject: expected one that can be published to"),
        (["why", "a", "--to", "dsk"], "no client is called 'dsk'; did you mean 'desk'"),
        (["why", "a", "--account", "SHOOP"], "did you mean 'SHOP'"),
    ):
        assert await asyncio.to_thread(main, [*wrong, "--monitor", shop.monitor]) == 2
        assert text in capsys.readouterr().err
    assert await asyncio.to_thread(main, ["why", "a", "--monitor", "http://127.0.0.1:9"]) == 2
