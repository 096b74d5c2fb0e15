"""Clients of different workers, which must not notice that there are any."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import TYPE_CHECKING

import nats.errors
import pytest

from midge.testing import SettlingClient
from tests.support.raw import Raw

if TYPE_CHECKING:
    from nats.aio.msg import Msg

    from tests.support.processes import Server

TIMEOUT_S = 60
Four = list[SettlingClient]


async def flush_all(clients: Four) -> None:
    for client in clients:
        await client.flush()


async def settled(found: list[bytes], count: int) -> None:
    """Wait for `count` messages; the following assertion finds one too many."""
    async with asyncio.timeout(TIMEOUT_S):
        while len(found) < count:
            await asyncio.sleep(0.005)


async def until_nobody_answers(client: SettlingClient, subject: str) -> None:
    """Send requests until one finds no interest: its end crosses to other workers unasked."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                await client.request(subject, b"", timeout=0.1)
            except nats.errors.NoRespondersError:
                return
            except nats.errors.TimeoutError:
                continue


def info_of(client: SettlingClient) -> dict[str, object]:
    info: dict[str, object] = client._server_info
    return info


async def test_it_is_one_server_with_one_row_of_client_ids(four: Four) -> None:
    assert len({info_of(client)["server_id"] for client in four}) == 1
    ids = [client.client_id for client in four]
    assert ids == list(range(ids[0], ids[0] + 4))


async def test_every_plain_subscription_gets_a_message_once(four: Four) -> None:
    found: list[bytes] = []

    async def take(message: Msg) -> None:
        found.append(message.data)

    for client in four:
        await client.subscribe("plain.one", cb=take)
        await client.subscribe("plain.*", cb=take)
    await flush_all(four)
    for i, client in enumerate(four):
        await client.publish("plain.one", b"%d" % i, headers={"Its": "header"})
    await flush_all(four)
    await settled(found, 32)
    await flush_all(four)
    assert Counter(found) == {b"%d" % i: 8 for i in range(4)}


async def test_a_queue_group_gets_a_message_once_and_all_members_as_many(four: Four) -> None:
    found: list[bytes] = []
    shares = Counter[int]()
    for i, client in enumerate(four):

        async def take(message: Msg, i: int = i) -> None:
            shares[i] += 1
            found.append(message.data)

        await client.subscribe("queue.>", "group", cb=take)
    await flush_all(four)
    sent = [b"%d" % i for i in range(400)]
    for i, payload in enumerate(sent):
        await four[i % 4].publish("queue.it", payload)
    await flush_all(four)
    await settled(found, 400)
    await flush_all(four)
    assert sorted(found) == sorted(sent)
    assert [shares[i] for i in range(4)] == [100, 100, 100, 100]


async def test_order_is_kept_between_workers(four: Four) -> None:
    found: list[bytes] = []

    async def take(message: Msg) -> None:
        found.append(message.data)

    await four[0].subscribe("order", cb=take)
    await flush_all(four)
    for i in range(2000):
        await four[1].publish("order", b"%d" % i)
    await four[1].flush()
    await settled(found, 2000)
    assert found == [b"%d" % i for i in range(2000)]


async def test_requests_find_their_responder_or_that_there_is_none(four: Four) -> None:
    async def answer(message: Msg) -> None:
        await message.respond(message.data * 2)

    for server in four:
        responder = await server.subscribe("ask", cb=answer)
        await server.flush()
        for client in four:
            answered = await client.request("ask", b"ab", timeout=TIMEOUT_S)
            assert answered.data == b"abab"
        await responder.unsubscribe()
        await server.flush()
        for client in four:
            with pytest.raises(nats.errors.NoRespondersError):
                await client.request("ask", b"", timeout=TIMEOUT_S)


async def test_a_subscription_ends_after_so_many_messages_from_anywhere(four: Four) -> None:
    found: list[bytes] = []

    async def take(message: Msg) -> None:
        found.append(message.data)

    subscription = await four[0].subscribe("few", cb=take)
    await subscription.unsubscribe(limit=3)
    await four[0].flush()
    for i in range(6):
        await four[i % 4].publish("few", b"%d" % i)
        await four[i % 4].flush()
    await settled(found, 3)
    await until_nobody_answers(four[1], "few")
    assert len(found) == 3


async def test_pong_says_that_all_workers_know_the_subscription(server: Server) -> None:
    one, other = await Raw.open(server.url), await Raw.open(server.url)
    await one.connect()
    await other.connect()
    for i in range(300):
        assert await one.ask(b"SUB round.%d 1" % i) == b""
        assert await other.ask(b"PUB round.%d 1\r\nx" % i) == b""
        assert await one.until(b"x") == b"MSG round.%d 1 1\r\nx\r\n" % i
        assert await one.ask(b"UNSUB 1") == b""
    await one.close()
    await other.close()


async def test_pong_covers_what_nats_py_sends_behind_its_ping(server: Server) -> None:
    one, other = await Raw.open(server.url), await Raw.open(server.url)
    await one.connect(lang="python3")
    await other.connect()
    for i in range(100):
        one.send(b"PING", b"SUB behind.%d 1" % i)
        assert await one.until_pong() == b""
        assert await other.ask(b"PUB behind.%d 1\r\nx" % i) == b""
        assert await one.until(b"x") == b"MSG behind.%d 1 1\r\nx\r\n" % i
        one.send(b"PING", b"UNSUB 1")
        assert await one.until_pong() == b""
    await one.close()
    await other.close()


async def test_ok_says_it_too(server: Server) -> None:
    one, other = await Raw.open(server.url), await Raw.open(server.url)
    await one.connect(verbose=True)
    await other.connect()
    for i in range(100):
        assert await one.ask(b"SUB ok.%d 1" % i) == b"+OK\r\n"
        assert await other.ask(b"PUB ok.%d 1\r\nx" % i) == b""
        assert await one.until(b"x") == b"MSG ok.%d 1 1\r\nx\r\n" % i
        answers = await one.ask(b"PUB elsewhere 1\r\ny", b"UNSUB 1")
        assert answers == b"+OK\r\n+OK\r\n"
    await one.close()
    await other.close()


async def test_imports_carry_a_message_once(server: Server, four: Four) -> None:
    there = [
        await SettlingClient.connected(server.url, user="there", password="there") for _ in range(2)
    ]
    found: list[bytes] = []
    asked = Counter[bytes]()

    async def take(message: Msg) -> None:
        found.append(message.data)

    async def answer(message: Msg) -> None:
        asked[message.data] += 1
        await message.respond(b"sum")

    for client in four:
        await client.subscribe("there.news.>", cb=take)
    for client in there:
        await client.subscribe("svc.add", "adders", cb=answer)
    await flush_all([*four, *there])
    for client in there:
        await client.publish("news.today", b"n")
    await flush_all(there)
    await settled(found, 8)
    for i, client in enumerate(four):
        assert (await client.request("svc.add", b"%d" % i, timeout=TIMEOUT_S)).data == b"sum"
    await flush_all([*four, *there])
    assert len(found) == 8
    assert asked == {b"%d" % i: 1 for i in range(4)}
    for client in there:
        await client.close()


async def test_importers_get_once_what_exporters_clients_elsewhere_get_too(
    server: Server, four: Four
) -> None:
    there = [
        await SettlingClient.connected(server.url, user="there", password="there") for _ in range(2)
    ]
    found: list[str] = []

    async def take(message: Msg) -> None:
        found.append(message.subject)

    for client in there:
        await client.subscribe("news.both", cb=take)
        await client.subscribe("svc.add", cb=take)
    for client in four[:2]:
        await client.subscribe("there.news.both", cb=take)
        await client.subscribe("svc.add", cb=take)
    await flush_all([*four, *there])
    await there[0].publish("news.both", b"")
    await four[2].publish("svc.add", b"")
    await flush_all([*four, *there])
    await settled(found, 8)
    await flush_all([*four, *there])
    assert Counter(found) == {"news.both": 2, "there.news.both": 2, "svc.add": 4}
    for client in there:
        await client.close()


async def test_a_mapping_applies_once(four: Four) -> None:
    found: list[str] = []

    async def take(message: Msg) -> None:
        found.append(message.subject)

    for client in four:
        await client.subscribe("new.*", cb=take)
    await flush_all(four)
    await four[0].publish("old.x", b"")
    await four[1].publish("old.y", b"")
    await flush_all(four)
    async with asyncio.timeout(TIMEOUT_S):
        while len(found) < 8:
            await asyncio.sleep(0.005)
    await flush_all(four)
    assert Counter(found) == {"new.x": 4, "new.y": 4}


async def test_streams_serve_the_clients_of_all_workers(four: Four) -> None:
    contexts = [client.jetstream(timeout=TIMEOUT_S) for client in four]
    await contexts[1].add_stream(name="S", subjects=["s.>"])
    for i in range(40):
        acknowledged = await contexts[i % 4].publish(f"s.{i}", b"%d" % i)
        assert acknowledged.seq == i + 1
    for i, context in enumerate(contexts):
        pulled = await context.pull_subscribe("s.>", durable=f"pull{i}")
        messages = await pulled.fetch(40, timeout=TIMEOUT_S)
        assert [message.subject for message in messages] == [f"s.{i}" for i in range(40)]
        for message in messages:
            await message.ack_sync(timeout=TIMEOUT_S)
        pushed = await context.subscribe("s.>", ordered_consumer=True)
        for k in range(40):
            assert (await pushed.next_msg(timeout=TIMEOUT_S)).subject == f"s.{k}"
        await pushed.unsubscribe()
    store = await contexts[2].create_key_value(bucket="B")
    await store.put("key", b"value")
    assert (await (await contexts[3].key_value("B")).get("key")).value == b"value"


async def test_a_push_consumers_group_has_members_in_all_workers(four: Four) -> None:
    streams = [client.jetstream(timeout=TIMEOUT_S) for client in four]
    await streams[0].add_stream(name="GROUP", subjects=["group"])
    found: Counter[int] = Counter()
    for number, stream in enumerate(streams):

        async def take(message: Msg, number: int = number) -> None:
            found[number] += 1

        await stream.subscribe("group", queue="members", durable="members", cb=take)
    await flush_all(four)
    for i in range(80):
        await streams[i % 4].publish("group", b"")
    async with asyncio.timeout(TIMEOUT_S):
        while found.total() < 80:
            await asyncio.sleep(0.005)
    assert found == dict.fromkeys(range(4), 20)


async def answered_once(client: SettlingClient) -> object:
    """Ask all servers for statistics; return the connections that the only answer counts."""
    answers: list[dict[str, object]] = []

    async def take(message: Msg) -> None:
        answers.append(json.loads(message.data))

    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox, cb=take)
    await client.publish("$SYS.REQ.SERVER.PING", b"", reply=inbox)
    async with asyncio.timeout(TIMEOUT_S):
        while not answers:
            await asyncio.sleep(0.005)
    await client.flush()
    await subscription.unsubscribe()
    assert len(answers) == 1
    statistics = answers[0]["statsz"]
    assert isinstance(statistics, dict)
    return statistics["connections"]


async def test_the_system_account_is_answered_once(server: Server, four: Four) -> None:
    system = [
        await SettlingClient.connected(server.url, user="sys", password="sys") for _ in range(2)
    ]
    for client in system:
        async with asyncio.timeout(TIMEOUT_S):  # clients of the test before may still be counted
            while await answered_once(client) != 6:
                continue
    for i, client in enumerate([*four, *system]):
        info = await client.request("$SYS.REQ.USER.INFO", b"", timeout=TIMEOUT_S)
        assert json.loads(info.data)["data"]["user"] == ("guest" if i < 4 else "sys")
    for client in system:
        await client.close()


async def test_clients_of_all_workers_are_told_of_and_ended(server: Server, four: Four) -> None:
    system = await SettlingClient.connected(server.url, user="sys", password="sys")
    events = await system.subscribe("$SYS.ACCOUNT.HERE.DISCONNECT")
    await system.flush()
    server_id = info_of(system)["server_id"]
    for cid in [client.client_id for client in four]:
        asked = json.dumps({"cid": cid}).encode()
        answered = await system.request(
            f"$SYS.REQ.SERVER.{server_id}.KICK", asked, timeout=TIMEOUT_S
        )
        assert "error" not in json.loads(answered.data)
        event = json.loads((await events.next_msg(timeout=TIMEOUT_S)).data)
        assert event["server"]["id"] == server_id
        assert event["client"]["id"] == cid
    await system.close()


async def test_a_trace_goes_on_in_the_other_worker(four: Four) -> None:
    traces: list[bytes] = []

    async def take(message: Msg) -> None:
        traces.append(message.data)

    async def ignore(_: Msg) -> None:
        """Ignore the payload: the test reads the trace."""

    await four[2].subscribe("told", cb=take)
    await four[0].subscribe("traced", cb=ignore)
    await four[1].subscribe("traced", cb=ignore)
    await flush_all(four)
    await four[0].publish("traced", b"x", headers={"Nats-Trace-Dest": "told"})
    await four[0].flush()
    await settled(traces, 2)
    await flush_all(four)
    first, second = sorted(map(json.loads, traces), key=lambda one: len(one["request"]["header"]))
    assert {one["server"]["id"] for one in (first, second)} == {info_of(four[0])["server_id"]}
    assert second["request"]["header"]["Nats-Trace-Hop"] == ["1"]
    cids = [client.client_id for client in four]
    shown = [
        [(event["type"], event["kind"], event.get("hop")) for event in one["events"]]
        for one in (first, second)
    ]
    assert shown == [
        [("in", 0, None), ("eg", 0, None), ("eg", 1, "1")],
        [("in", 1, None), ("eg", 0, None)],
    ]
    assert [one["events"][1]["cid"] for one in (first, second)] == cids[:2]
