"""The console's page, its data, and the actions that its token allows."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest

import midge
from midge.server.config.options import Console, Limits, Listen, Monitoring, Options
from midge.server.monitoring.console.interest import merged
from midge.testing import ManualClock, SimulatedDisk

Start = Callable[..., Awaitable[str]]
TOKEN = "s3cret"


class Page:
    """What a page does: it asks, and acts with the token."""

    def __init__(self, server: midge.Server, session: aiohttp.ClientSession) -> None:
        self.server = server
        monitoring = server._core.urls()["monitoring"][0]
        self._url = f"{monitoring}/console"
        self._session = session

    async def get(self, path: str) -> Any:
        async with self._session.get(f"{self._url}/{path}") as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def act(self, action: str, token: str = TOKEN, **body: Any) -> Any:
        headers = {"X-Console-Token": token}
        async with self._session.post(
            f"{self._url}/{action}", json=body, headers=headers
        ) as answer:
            return await answer.json()

    async def text(self, path: str = "") -> tuple[str, Any]:
        async with self._session.get(f"{self._url}{path}") as answer:
            return await answer.text(), answer.headers


@pytest.fixture
def settings() -> dict[str, Any]:
    return {}


@pytest.fixture
async def console(settings: dict[str, Any]) -> AsyncIterator[Page]:
    monitoring = Monitoring(http_port=-1, console=Console(enabled=True, token=TOKEN))
    options = Options(
        listen=Listen(port=-1), monitoring=monitoring, limits=Limits(max_payload_bytes=3000)
    )
    started = midge.Server(options, jetstream=True, **settings)
    async with started as server, aiohttp.ClientSession() as session:
        yield Page(server, session)


async def test_it_is_off_unless_enabled() -> None:
    options = Options(listen=Listen(port=-1), monitoring=Monitoring(http_port=-1))
    async with midge.Server(options) as server, aiohttp.ClientSession() as session:
        url = server._core.urls()["monitoring"][0]
        async with session.get(f"{url}/console") as answer:
            assert answer.status == 404


async def test_the_page_brings_everything_with_it(console: Page) -> None:
    html, headers = await console.text()
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self'")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Frame-Options"] == "DENY"
    scripts = ("console", "clients", "subjects", "tail", "streams", "buckets", "objects")
    names = [*(f"{name}.js" for name in scripts), "console.css"]
    assert all(f"./console/{name}" in html for name in names)
    for text in [html, *[(await console.text(f"/{name}"))[0] for name in names]]:
        assert "http://" not in text
        assert "https://" not in text
        assert "innerHTML" not in text


async def test_facts_and_counts(console: Page) -> None:
    facts = await console.get("facts")
    assert facts["can_unlock"] is True
    assert facts["jetstream"] is True
    assert facts["accounts"] == ["$G", "$SYS"]
    assert TOKEN not in json.dumps(facts)
    now = await console.get("now")
    assert now == {"subscriptions": 0, "slow": [], "limits": {}}  # JetStream's do not count


@pytest.mark.parametrize(
    "action", ["publish", "request", "tail", "messages", "keys", "disconnect", "unlock"]
)
async def test_nothing_is_done_without_the_token(console: Page, action: str) -> None:
    for token in ("wrong", "", "é"):
        answer = await console.act(action, token.encode().decode("latin-1"), subject="a")
        assert answer == {"error": "the console's token is needed"}
    headers = {"X-Console-Token": TOKEN}
    async with console._session.get(f"{console._url}/{action}", headers=headers) as answer_to_get:
        assert answer_to_get.status == 405
    assert console.server.broker.router.observer is None


async def test_a_page_of_another_origin_does_nothing(console: Page) -> None:
    host = console._url.split("/")[2]
    for origin, status in (("http://evil.example", 403), ("null", 403), (f"http://{host}", 200)):
        headers = {"X-Console-Token": TOKEN, "Origin": origin}
        async with console._session.post(f"{console._url}/unlock", headers=headers) as answer:
            assert answer.status == status


async def test_it_disconnects_a_client(console: Page) -> None:
    reader, writer = await asyncio.open_connection(console.server.host, console.server.port)
    writer.write(b"CONNECT {}\r\nPING\r\n")
    while await reader.readline() != b"PONG\r\n":
        pass
    (client,) = console.server.connections
    assert await console.act("disconnect", cid=client.cid) == {"cid": client.cid}
    await reader.read()
    writer.close()
    answer = await console.act("disconnect", cid=client.cid)
    assert answer == {"error": f"there is no client {client.cid}"}


async def test_the_tree_of_subjects_and_the_groups(console: Page) -> None:
    reader, writer = await asyncio.open_connection(console.server.host, console.server.port)
    lines = [f"SUB orders.{number} {number}\r\n" for number in range(5)]
    lines += [
        "SUB orders.1.eu q 6\r\n",
        "SUB orders.1.eu q 7\r\n",
        "SUB orders.> 8\r\n",
        "SUB > 9\r\n",
    ]
    writer.write(("CONNECT {}\r\n" + "".join(lines) + "PING\r\n").encode())
    while await reader.readline() != b"PONG\r\n":
        pass
    for _ in range(6):
        console.server.publish("orders.1.eu", "")
    top = await console.get("interest?account=$G")
    assert top["total"] == 2
    assert top["entries"] == [
        {"subject": ">", "subscriptions": 1, "below": 0, "messages": 6},
        {"subject": "orders", "subscriptions": 0, "below": 8, "messages": 12},
    ]
    page = await console.get("interest?account=$G&prefix=orders.&offset=1&limit=3")
    assert page["total"] == 6
    assert [one["subject"] for one in page["entries"]] == ["orders.1", "orders.2", "orders.3"]
    assert (page["entries"][0]["subscriptions"], page["entries"][0]["below"]) == (1, 2)
    groups = await console.get("interest?account=$G&groups=1")
    (group,) = groups["entries"]
    assert (group["subject"], group["queue"]) == ("orders.1.eu", "q")
    assert (group["subscriptions"], group["messages"], len(group["members"])) == (2, 6, 2)
    assert group["members"][0]["messages"] + group["least"] == 6
    assert await console.get("interest?account=NONE") == {"total": 0, "entries": []}
    writer.close()


async def test_a_page_of_several_workers_is_put_together() -> None:
    def group(queue: str, *counts: int) -> dict[str, Any]:
        members = [{"cid": count, "name": "", "messages": count} for count in counts]
        fields = {"subscriptions": len(counts), "below": 0, "messages": sum(counts)}
        return {"subject": "a", "queue": queue, **fields, "least": min(counts), "members": members}

    pages: list[dict[str, Any]] = [
        {"total": 2, "entries": [group("p", 5, 1), group("q", 3)]},
        {"total": 1, "entries": [group("q", 7, 2)]},
    ]
    found = merged(pages, 1, 5)
    assert found["total"] == 2
    (shared,) = found["entries"]
    assert (shared["queue"], shared["subscriptions"], shared["messages"]) == ("q", 3, 12)
    assert (shared["least"], [one["cid"] for one in shared["members"]]) == (2, [7, 3, 2])


async def test_without_a_token_configured_none_is_right() -> None:
    monitoring = Monitoring(http_port=-1, console=Console(enabled=True))
    started = midge.Server(Options(listen=Listen(port=-1), monitoring=monitoring))
    async with started as server, aiohttp.ClientSession() as session:
        console = Page(server, session)
        assert "error" in await console.act("unlock", "")
        assert (await console.get("facts"))["can_unlock"] is False
        assert await console.get("streams") == {"total": 0, "streams": []}


async def test_clients_that_are_behind_are_named(console: Page) -> None:
    reader, writer = await asyncio.open_connection(
        console.server.host, console.server.port, limit=1024
    )
    writer.write(b'CONNECT {"name":"sloth"}\r\nSUB a 1\r\nPING\r\n')
    while await reader.readline() != b"PONG\r\n":
        pass
    while not (slow := (await console.get("now"))["slow"]):
        for _ in range(500):
            console.server.publish("a", "x" * 3000)
    assert slow[0]["name"] == "sloth"
    assert slow[0]["pending_bytes"] >= 64 * 1024
    assert (await console.get("now"))["subscriptions"] == 1
    writer.close()


# Publishing.


async def test_it_publishes_to_exactly_what_was_typed(console: Page) -> None:
    heard = console.server.subscribe(">")
    done = await console.act("publish", subject="a.b", payload="hællo", headers={"A": "1"})
    assert done == {"taken": 1, "size": 6}
    message = await heard.next(5)
    assert (message.subject, message.text, message.headers) == ("a.b", "hællo", {"A": ["1"]})


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        ("", "it is empty"),
        (" a", "it has a blank in it"),
        ("a b", "it has a blank in it"),
        ("a..b", "it has an empty token"),
        ("a.", "it has an empty token"),
        ("a.*", "a wildcard stands where none may"),
        (">", "a wildcard stands where none may"),
    ],
)
async def test_or_says_why_not(console: Page, subject: str, reason: str) -> None:
    heard = console.server.subscribe(">")
    answer = await console.act("publish", subject=subject, payload="x")
    assert answer == {"error": f"cannot publish to {subject!r}: {reason}"}
    assert heard.pending() == 0


async def test_what_else_cannot_be_published(console: Page) -> None:
    answer = await console.act("publish", subject="a", payload="x" * 3001)
    assert answer == {"error": "3001 bytes are more than this server takes, 3000"}
    answer = await console.act("publish", subject="a", headers={"A B": "1"})
    assert answer == {"error": "'A B' is no header name"}
    answer = await console.act("publish", subject="a", headers={"A": "1\r\nB: 2"})
    assert answer == {"error": "header 'A': a value has no line ends"}
    answer = await console.act("publish", subject="a", account="B")
    assert answer == {"error": "there is no account 'B'"}
    answer = await console.act("publish", topic="a")
    assert answer["error"].startswith("the request cannot be read")
    answer = await console.act("publish", subject="a", payload="x" * 100_000)
    assert answer["error"].startswith("more than the console takes")


async def test_a_request_gets_its_answer_or_a_reason(console: Page) -> None:
    console.server.subscribe("price", lambda message: message.respond("3"))
    answer = await console.act("request", subject="price")
    assert (answer["text"], answer["size"]) == ("3", 1)
    assert answer["took_ms"] >= 0
    answer = await console.act("request", subject="nobody")
    assert answer == {"error": "nobody answers on 'nobody'"}


# Tails.


async def test_a_tail_is_no_subscription(console: Page) -> None:
    server = console.server
    subscriptions = len(server.broker.global_account.sublist)
    assert await console.act("tail", subject=">", name="1") == {
        "messages": [],
        "seen": 0,
        "left_out": 0,
        "has_begun": True,
    }
    assert len(server.broker.global_account.sublist) == subscriptions
    assert server.publish("a.b", "x") == 0  # no interest
    with pytest.raises(midge.NoRespondersError):
        await server.request("nobody")
    assert server.stats.subscriptions == 0


async def test_a_tail_shows_what_passes_and_what_it_leaves_out(console: Page) -> None:
    server = console.server
    for name, subject in (("all", ">"), ("some", "a.*")):
        await console.act("tail", subject=subject, name=name)
    for number in range(150):
        server.publish(f"a.{number}", "x" * 2000 if number == 1 else b"\xff", headers={"A": "1"})
    server.publish("b", "x")
    found = await console.act("tail", subject=">", name="all")
    assert (found["seen"], found["left_out"], len(found["messages"])) == (151, 51, 100)
    binary, text = found["messages"][:2]
    assert binary["time"] > 1_700_000_000
    assert (binary["subject"], binary["base64"], binary["cut"]) == ("a.0", "/w==", False)
    assert (text["size"], len(text["text"]), text["cut"]) == (2000, 1024, True)
    assert text["headers"] == {"A": ["1"]}
    assert text["taken"] == 0
    some = await console.act("tail", subject="a.*", name="some")
    assert some["seen"] == 150
    assert (await console.act("tail", subject="a.*", name="some"))["seen"] == 0
    answer = await console.act("tail", subject="a b", name="some")
    assert answer == {"error": "'a b' is no subject: it has a blank in it"}


async def test_tails_are_few(console: Page) -> None:
    answers = [await console.act("tail", subject=">", name=str(i)) for i in range(9)]
    assert [("error" in answer) for answer in answers] == [False] * 8 + [True]


class TestOnATurnedClock:
    """The parts that use the clock."""

    @pytest.fixture
    def settings(self) -> dict[str, Any]:
        return {"clock": ManualClock()}

    async def test_a_tail_that_nobody_asks_for_ends(
        self, console: Page, settings: dict[str, Any]
    ) -> None:
        await console.act("tail", subject=">", name="1")
        assert console.server.broker.router.observer is not None
        settings["clock"].advance(19)
        assert not (await console.act("tail", subject=">", name="1"))["has_begun"]
        settings["clock"].advance(19)
        assert console.server.broker.router.observer is not None
        settings["clock"].advance(1)
        assert console.server.broker.router.observer is None
        assert (await console.act("tail", subject=">", name="1"))["has_begun"]

    async def test_an_hour_of_counts_is_kept(self, console: Page, settings: dict[str, Any]) -> None:
        for _ in range(400):
            settings["clock"].advance(10)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        shown = await console.get("history")
        assert shown["fields"][:3] == ["time", "in_messages", "out_messages"]
        times = [sample[0] for sample in shown["samples"]]
        assert len(times) == 361
        assert times[-1] - times[0] == 3600

    async def test_streams_and_consumers(self, console: Page, settings: dict[str, Any]) -> None:
        server = console.server
        await api(console, "STREAM.CREATE.ORDERS", name="ORDERS", subjects=["orders.>"])
        await api(
            console,
            "CONSUMER.CREATE.ORDERS.workers",
            stream_name="ORDERS",
            config={"durable_name": "workers", "ack_policy": "explicit", "ack_wait": 30 * 10**9},
        )
        for number in range(3):
            server.publish("orders.new", str(number))
        shown = await console.get("streams")
        assert shown["total"] == 1
        assert shown["streams"][0]["name"] == "ORDERS"
        assert shown["streams"][0]["state"]["messages"] == 3
        inbox = server.subscribe("inbox")
        server.publish(
            "$JS.API.CONSUMER.MSG.NEXT.ORDERS.workers",
            b'{"batch":5,"expires":60000000000}',
            None,
            "inbox",
        )
        await inbox.next(5)
        settings["clock"].advance(10)
        (workers,) = (await console.get("consumers?stream=ORDERS"))["consumers"]
        assert (workers["name"], workers["num_pending"], workers["num_ack_pending"]) == (
            "workers",
            0,
            3,
        )
        assert (workers["bound"], workers["next_due_s"]) == (["this process"], 20)
        assert await console.get("consumers?stream=NONE") == {"total": 0, "consumers": []}


async def api(console: Page, subject: str, **body: Any) -> Any:
    answer = await console.act("request", subject=f"$JS.API.{subject}", payload=json.dumps(body))
    assert "text" in answer, answer
    return json.loads(answer["text"])


class TestCold:
    """Pages with messages of which none is in memory."""

    @pytest.fixture
    def disk(self) -> SimulatedDisk:
        return SimulatedDisk()

    @pytest.fixture
    def settings(self, disk: SimulatedDisk) -> dict[str, Any]:
        return {"disk": disk}

    @pytest.fixture
    async def cold(self, console: Page, disk: SimulatedDisk) -> AsyncIterator[Page]:
        await api(console, "STREAM.CREATE.S", name="S", subjects=["s.*"], storage="file")
        for number in range(40):
            for _ in range(25):
                console.server.publish(f"s.{number}", bytes(2_500))
            await api(console, "STREAM.PURGE.S", filter="none")  # answered when all is on the disk
        await api(console, "STREAM.MSG.DELETE.S", seq=1, no_erase=True)
        disk.drop_pages()
        disk.cold_reads = 0
        disk.latency_s = 0.01
        yield console
        assert disk.cold_reads == 0

    async def test_messages_wait_for_the_disk_alone(self, cold: Page) -> None:
        for wanted in ({"seq": 1, "count": 50}, {"subject": "s.3"}, {"since": "2000-01-01"}):
            answer = await cold.act("messages", stream="S", **wanted)
            assert {len(one["text"]) for one in answer["messages"]} == {2_500}

    async def test_keys_wait_for_the_disk_alone(self, cold: Page) -> None:
        assert len((await cold.act("keys", stream="S", subject="s.*"))["keys"]) == 40

    async def test_streams_wait_for_the_disk_alone(self, cold: Page) -> None:
        (stream,) = (await cold.get("streams"))["streams"]
        assert stream["state"]["first_seq"] == 2

    async def test_jsz_waits_for_the_disk_alone(self, cold: Page) -> None:
        shown = await cold.get("../jsz?streams=1")
        (account,) = shown["account_details"]
        assert account["stream_detail"][0]["state"]["first_seq"] == 2


async def test_messages_are_searched_by_subject_sequence_and_time(console: Page) -> None:
    server = console.server
    await api(console, "STREAM.CREATE.ORDERS", name="ORDERS", subjects=["orders.>"])
    for number in range(1, 121):
        server.publish(f"orders.{number % 2}", json.dumps({"n": number}), headers={"N": "1"})

    async def found(**wanted: Any) -> tuple[list[int], int]:
        answer = await console.act("messages", stream="ORDERS", **wanted)
        assert "messages" in answer, answer
        return [message["seq"] for message in answer["messages"]], answer["next"]

    assert await found() == (list(range(71, 121)), 0)  # the newest
    assert await found(subject="orders.1", count=3) == ([115, 117, 119], 120)
    assert await found(seq=5, count=2) == ([5, 6], 7)
    assert await found(seq=118, subject="orders.0") == ([118, 120], 0)
    assert (await found(since="2000-01-01", count=1))[0] == [1]
    assert await found(since="2999-01-01T00:00:00+00:00") == ([], 0)
    assert await found(subject="orders.9") == ([], 0)
    answer = await console.act("messages", stream="ORDERS", since="yesterday")
    assert answer["error"].startswith("expected a time such as 2026-01-31T12:00:00")
    answer = await console.act("messages", stream="INVOICES")
    assert answer == {"error": "there is no stream 'INVOICES' in account '$G'"}
    one = (await console.act("messages", stream="ORDERS", seq=1, count=1))["messages"][0]
    assert (one["subject"], one["text"], one["headers"]) == ("orders.1", '{"n": 1}', {"N": ["1"]})


async def test_keys_of_a_bucket(console: Page) -> None:
    await api(
        console,
        "STREAM.CREATE.KV_shop",
        name="KV_shop",
        subjects=["$KV.shop.>"],
        max_msgs_per_subject=5,
    )
    for value in ("1", "2"):
        console.server.publish("$KV.shop.limit", value)
    console.server.publish("$KV.shop.color", "", {"KV-Operation": "DEL"})
    found = await console.act("keys", stream="KV_shop", subject="$KV.shop.>")
    assert found["total"] == 2
    color, limit = found["keys"]
    assert (color["subject"], color["headers"]) == ("$KV.shop.color", {"KV-Operation": ["DEL"]})
    assert (limit["text"], limit["seq"], limit["count"]) == ("2", 2, 2)
