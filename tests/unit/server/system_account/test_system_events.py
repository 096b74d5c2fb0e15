"""Events and requests of the system account."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from typing import Any

import nats.errors
import pytest

from midge.server.config.options import (
    Account,
    AllowResponses,
    Cluster,
    JetStream,
    Listen,
    Options,
    Permissions,
    SubjectPermissions,
    User,
)
from midge.server.server import Server
from midge.testing import SettlingClient

ALLOWED = Permissions(
    publish=SubjectPermissions(allow=("x.>", "$SYS.>")), allow_responses=AllowResponses()
)
OPTIONS = Options(
    listen=Listen(port=-1),
    system_account="SYS",
    accounts=(
        Account(name="SYS", users=(User(user="sys", password="pw"),)),
        Account(name="A", users=(User(user="a", password="pw", permissions=ALLOWED),)),
    ),
)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server with a system account."""
    server = Server(OPTIONS)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def connect(server: Server) -> AsyncIterator[Any]:
    """Connect clients that are closed at the end."""
    clients = []

    async def one(user: str, **options: Any) -> Any:
        client = await SettlingClient.connected(
            f"nats://{user}:pw@127.0.0.1:{server.broker.port}", allow_reconnect=False, **options
        )
        clients.append(client)
        return client

    yield one
    for client in clients:
        await client.close()


async def ask(client: Any, subject: str, request: Any = None) -> Any:
    payload = b"" if request is None else json.dumps(request).encode()
    return json.loads((await client.request(subject, payload, timeout=60)).data)


async def test_ping_finds_the_server(server: Server, connect: Any) -> None:
    client = await connect("sys")
    answer = await ask(client, "$SYS.REQ.SERVER.PING")
    assert answer["server"]["id"] == server.server_id
    assert answer["statsz"]["connections"] == 1
    identity = await ask(client, "$SYS.REQ.SERVER.PING.IDZ")
    assert set(identity) == {"name", "host", "id"}


@pytest.mark.parametrize(
    ("page", "field"),
    [
        ("VARZ", "max_payload"),
        ("CONNZ", "connections"),
        ("SUBSZ", "num_subscriptions"),
        ("ROUTEZ", "routes"),
        ("GATEWAYZ", "outbound_gateways"),
        ("LEAFZ", "leafs"),
        ("ACCOUNTZ", "accounts"),
        ("JSZ", "disabled"),
        ("HEALTHZ", "status_code"),
        ("EXPVARZ", "memstats"),
        ("PROFILEZ", "error"),
    ],
)
async def test_every_page_can_be_asked_for(
    server: Server, connect: Any, page: str, field: str
) -> None:
    client = await connect("sys")
    for target in ("PING", server.server_id):
        answer = await ask(client, f"$SYS.REQ.SERVER.{target}.{page}")
        assert field in answer["data"]


@pytest.mark.parametrize(
    ("given", "is_meant"),
    [
        ({"cluster": "C"}, True),
        ({"cluster": "CC"}, False),
        ({"domain": "d"}, True),
        ({"domain": "dd"}, False),
        ({"tags": ["a"]}, True),
        ({"tags": ["a", "z"]}, False),
        ({"host": "127.0"}, True),
        ({"host": "127.0", "exact_match": True}, False),
        ({"server_name": "ne"}, True),
        ({"server_name": "two"}, False),
    ],
)
async def test_a_request_to_some_servers_is_answered_by_those(
    given: dict[str, Any], is_meant: bool
) -> None:
    options = Options(
        listen=Listen(port=-1),
        server_name="one",
        server_tags=("a", "b"),
        cluster=Cluster(name="C", port=-1),
        jetstream=JetStream(enabled=True, in_memory=True, domain="d"),
        accounts=(Account(name="$SYS", users=(User(user="s", password="s"),)),),
    )
    server = Server(options)
    await server.start()
    client = await SettlingClient.connected(server.urls()["nats"][0], user="s", password="s")
    try:
        inbox = client.new_inbox()
        answers = await client.subscribe(inbox)
        for request in (given, {}):
            subject = "$SYS.REQ.SERVER.PING.IDZ"
            await client.publish(subject, json.dumps(request).encode(), reply=inbox)
        found = [await answers.next_msg(timeout=60) for _ in range(2 if is_meant else 1)]
        assert answers.pending_msgs == 0
        statistics = await ask(client, "$SYS.REQ.SERVER.PING")
        assert (statistics["server"]["cluster"], statistics["server"]["domain"]) == ("C", "d")
        assert statistics["server"]["jetstream"]
        assert "config" in statistics["statsz"]["jetstream"]
        assert len(found) == 1 + is_meant
    finally:
        await client.close()
        await server.stop()


async def test_requests_take_options_and_refuse_wrong_ones(server: Server, connect: Any) -> None:
    client = await connect("sys")
    await connect("a", name="other")
    subject = f"$SYS.REQ.SERVER.{server.server_id}.CONNZ"
    data = (await ask(client, subject, {"acc": "A", "subscriptions": True, "state": 0}))["data"]
    assert [entry["name"] for entry in data["connections"]] == ["other"]
    assert (await ask(client, subject, {"sort": "bad"}))["error"]["code"] == 500
    for junk in (b"junk", b"[]", b"[" * 5000):
        answer = json.loads((await client.request(subject, junk, timeout=60)).data)
        assert answer["error"]["code"] == 400


@pytest.mark.parametrize("field", ["sort", "state", "filter_subject", "user", "server_name"])
async def test_what_cannot_be_encoded_is_no_trouble(
    connect: Any, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = await connect("a")
    inbox = client.new_inbox()
    answers = await client.subscribe(inbox)
    request = b'{"%b":"\\ud800","subscriptions":true}' % field.encode()
    await client.publish("$SYS.REQ.ACCOUNT.PING.CONNZ", request, reply=inbox)
    if field != "server_name":  # that is for another server
        await answers.next_msg(timeout=60)
    assert (await ask(client, "$SYS.REQ.USER.INFO"))["data"]["user"] == "a"
    gc.collect()
    assert "Traceback" not in caplog.text
    assert not [one for one in caplog.records if one.name == "asyncio"]


async def test_everybody_may_ask_who_they_are(connect: Any) -> None:
    client = await connect("a")
    data = (await ask(client, "$SYS.REQ.USER.INFO"))["data"]
    assert (data["user"], data["account"]) == ("a", "A")
    assert data["permissions"]["publish"]["allow"] == ["x.>", "$SYS.>"]
    (statistics,) = (await ask(client, "$SYS.REQ.ACCOUNT.PING.STATZ"))["data"]["account_statz"]
    assert (statistics["acc"], statistics["conns"]) == ("A", 1)
    with pytest.raises(nats.errors.NoRespondersError):
        await client.request("$SYS.REQ.SERVER.PING", b"", timeout=60)


async def test_an_account_is_asked_about_by_name(connect: Any) -> None:
    client = await connect("sys")
    await connect("a")
    assert (await ask(client, "$SYS.REQ.ACCOUNT.A.CONNS"))["conns"] == 1
    assert (await ask(client, "$SYS.REQ.ACCOUNT.A.INFO"))["data"]["account_name"] == "A"
    assert (await ask(client, "$SYS.REQ.ACCOUNT.A.CONNZ"))["data"]["num_connections"] == 1
    every = (await ask(client, "$SYS.REQ.ACCOUNT.PING.STATZ"))["data"]["account_statz"]
    assert [one["acc"] for one in every] == ["A", "SYS"]


@pytest.mark.parametrize("subject", ["$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.SERVER.PING.CONNZ"])
async def test_no_account_is_shown_the_connections_of_another(
    server: Server, connect: Any, subject: str
) -> None:
    asking, other, gone = await connect("a"), await connect("sys"), await connect("sys")
    await gone.close()
    while len(server.connections()) > 2:
        await asyncio.sleep(0)
    requests: list[dict[str, Any]] = [
        {"acc": "SYS"},
        {"account": "SYS"},
        {"acc": "A", "account": "SYS"},
        {"account": "SYS", "acc": "A"},
        {"cid": other.client_id},
        {"cid": gone.client_id},
    ]
    for request in requests:
        for state in ("open", "closed", "any"):
            wanted = {**request, "state": state, "auth": True}
            data = (await ask(asking, subject, wanted))["data"]
            assert {one["account"] for one in data["connections"]} <= {"A"}, wanted
            assert data["total"] <= 1, wanted
    (own,) = (await ask(asking, subject, {"cid": asking.client_id}))["data"]["connections"]
    assert own["cid"] == asking.client_id


async def test_only_names_of_accounts_are_asked_about(connect: Any) -> None:
    client = await connect("sys")
    request = {"accounts": [{}, [], 5, None, "nobody", "SYS"]}
    every = (await ask(client, "$SYS.REQ.ACCOUNT.PING.STATZ", request))["data"]["account_statz"]
    assert [one["acc"] for one in every] == ["SYS"]


async def test_clients_that_come_and_go_are_told_of(server: Server, connect: Any) -> None:
    client = await connect("sys")
    events: asyncio.Queue[Any] = asyncio.Queue()

    async def note(message: Any) -> None:
        await events.put((message.subject, json.loads(message.data)))

    await client.subscribe("$SYS.ACCOUNT.A.*", cb=note)
    await client.subscribe("$SYS.SERVER.*.CLIENT.AUTH.ERR", cb=note)
    await client.flush()
    other = await connect("a", name="other")
    subject, event = await events.get()
    assert subject == "$SYS.ACCOUNT.A.CONNECT"
    assert (event["client"]["name"], event["client"]["user"]) == ("other", "a")
    cid = other._client_id
    await ask(client, f"$SYS.REQ.SERVER.{server.server_id}.KICK", {"cid": cid})
    subject, event = await events.get()
    assert (subject, event["reason"]) == ("$SYS.ACCOUNT.A.DISCONNECT", "Kicked")
    gone = await ask(client, f"$SYS.REQ.SERVER.{server.server_id}.KICK", {"cid": cid})
    assert gone["error"]["description"] == "no such client or leafnode id"
    reader, writer = await asyncio.open_connection("127.0.0.1", server.broker.port)
    writer.write(b'CONNECT {"user":"a","pass":"no"}\r\n')
    await reader.read()
    writer.close()
    subject, event = await events.get()
    assert subject.endswith("CLIENT.AUTH.ERR")
    assert event["reason"] == "Authentication Failure"


async def test_one_client_can_be_asked_to_go(server: Server, connect: Any) -> None:
    client = await connect("sys")
    reader, writer = await asyncio.open_connection("127.0.0.1", server.broker.port)
    writer.write(b'CONNECT {"user":"a","pass":"pw","verbose":false,"protocol":1}\r\nPING\r\n')
    await reader.readuntil(b"PONG\r\n")
    info = json.loads((await reader.readuntil(b"\r\n"))[5:])
    request = {"cid": info["client_id"]}
    await ask(client, f"$SYS.REQ.SERVER.{server.server_id}.LDM", request)
    assert json.loads((await reader.readuntil(b"\r\n"))[5:])["ldm"] is True
    writer.close()


async def test_a_request_may_be_for_other_servers(server: Server, connect: Any) -> None:
    client = await connect("sys")
    name = server.server_id[:20]
    for wanted in ({"server_name": name}, {"host": "127.", "cluster": ""}, {"tags": []}):
        assert (await ask(client, "$SYS.REQ.SERVER.PING.IDZ", wanted))["id"] == server.server_id
    others: list[dict[str, Any]] = [{name: "other"} for name in ("server_name", "host", "cluster")]
    others += [{"host": "127.", "exact_match": True}, {"host": 5}, {"tags": ["x"]}, {"domain": "x"}]
    answers: list[Any] = []

    async def note(message: Any) -> None:
        answers.append(message)

    await client.subscribe("answers", cb=note)
    for wanted in others:
        await client.publish("$SYS.REQ.SERVER.PING.IDZ", json.dumps(wanted).encode(), "answers")
    await ask(client, "$SYS.REQ.SERVER.PING.IDZ")
    assert answers == []


async def test_the_server_tells_of_itself_until_its_end(server: Server, connect: Any) -> None:
    client = await connect("sys")
    events: asyncio.Queue[Any] = asyncio.Queue()

    async def note(message: Any) -> None:
        await events.put((message.subject.rpartition(".")[2], json.loads(message.data)))

    await client.subscribe(f"$SYS.SERVER.{server.server_id}.*", cb=note)
    await client.flush()
    name, event = await asyncio.wait_for(events.get(), 60)
    assert (name, event["statsz"]["connections"]) == ("STATSZ", 1)
    await server.stop()
    while name == "STATSZ":
        name, event = await asyncio.wait_for(events.get(), 60)
    assert (name, event["id"]) == ("SHUTDOWN", server.server_id)


async def test_what_a_client_sent_and_received_is_told_when_it_goes(connect: Any) -> None:
    client, other = await connect("sys"), await connect("a")
    subscription = await client.subscribe("$SYS.ACCOUNT.A.DISCONNECT")
    await client.flush()
    await other.subscribe("x.y")
    for _ in range(3):
        await other.publish("x.y", b"12345")
    await other.publish("x.z", b"1")
    await other.flush()
    await other.close()
    event = json.loads((await subscription.next_msg(timeout=30)).data)
    assert event["sent"] == {"msgs": 4, "bytes": 16}
    assert event["received"] == {"msgs": 3, "bytes": 15}
    assert (event["client"]["name_tag"], event["reason"]) == ("A", "Client Closed")


async def test_grants_of_replies_are_shown(connect: Any) -> None:
    client = await connect("a")
    permissions = (await ask(client, "$SYS.REQ.USER.INFO"))["data"]["permissions"]
    assert permissions["subscribe"] == {}
    assert permissions["responses"] == {"max": 1, "ttl": 120_000_000_000}
