"""What clients see of a cluster, whichever servers are in it."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import Counter
from ipaddress import ip_address
from typing import Any

import pytest
from cryptography import x509
from nats.aio.client import Client
from nats.errors import NoRespondersError

from tests.support.clusters import Cluster, settle
from tests.support.keys import Authority, pem
from tests.support.leafnodes import Inbox, until

MIXED = ("midge", "real", "midge")


@pytest.fixture(scope="module")
def certificates() -> dict[str, bytes]:
    """Certificate, key and authority of all servers."""
    authority = Authority()
    here = [x509.IPAddress(ip_address("127.0.0.1"))]
    certificate, key = authority.issue(alternatives=here)
    return {"server.pem": pem(certificate), "server.key": key, "ca.pem": authority.pem}


pytestmark = pytest.mark.parametrize("kinds", [MIXED, ("real", "midge")])


async def test_every_message_reaches_every_server_once(kinds: tuple[str, ...]) -> None:
    async with Cluster(*kinds) as cluster:
        clients = await cluster.clients()
        inboxes = []
        for client in clients:
            for subject in ("a.*", "a.>"):
                inboxes.append(Inbox())
                await client.subscribe(subject, cb=inboxes[-1].take)
        await settle(clients)
        sent: list[bytes] = []
        for i, client in enumerate(clients):
            for j in range(20):
                data = b"%d.%d" % (i, j) + b"x" * (j * 2000)
                sent.append(data)
                await client.publish("a.b", data, headers={"K": "v"} if j % 2 else None)
            await client.flush()
        await settle(clients)
        for inbox in inboxes:
            await until(lambda inbox=inbox: len(inbox.messages) >= len(sent))
            assert Counter(inbox.data) == Counter(sent)
            for i in range(len(clients)):
                prefix = b"%d." % i
                own = [data for data in inbox.data if data.startswith(prefix)]
                assert own == [data for data in sent if data.startswith(prefix)], "in order"


async def test_a_queue_group_gets_each_message_once_by_weight(kinds: tuple[str, ...]) -> None:
    async with Cluster(*kinds) as cluster:
        clients = await cluster.clients()
        members: list[tuple[int, Inbox]] = []
        for i, client in enumerate(clients):
            for _ in range(i + 1):
                members.append((i, Inbox()))
                await client.subscribe("work.*", "workers", cb=members[-1][1].take)
        await settle(clients)
        count = 600
        for client in clients:
            for j in range(count):
                await client.publish("work.a", b"%d" % j)
            await client.flush()
        total = count * len(clients)
        await until(lambda: sum(len(inbox.messages) for _, inbox in members) >= total)
        await settle(clients)
        got = Counter(data for _, inbox in members for data in inbox.data)
        assert got == Counter({b"%d" % j: len(clients) for j in range(count)})
        share = total / len(members)
        for _, inbox in members:
            assert 0.6 * share < len(inbox.messages) < 1.4 * share


async def test_requests_are_answered_from_anywhere(kinds: tuple[str, ...]) -> None:
    async with Cluster(*kinds) as cluster:
        clients = await cluster.clients()
        for i, client in enumerate(clients):

            async def answer(message: Any, by: int = i) -> None:
                await message.respond(b"%d" % by)

            await client.subscribe(f"svc.{i}", cb=answer)
        await settle(clients)
        for client in clients:
            for i in range(len(clients)):
                assert (await client.request(f"svc.{i}", b"", timeout=30)).data == b"%d" % i
            with pytest.raises(NoRespondersError):
                await client.request("nobody", b"", timeout=30)


async def test_interest_ends_with_an_unsubscribe_and_with_its_limit(kinds: tuple[str, ...]) -> None:
    async with Cluster(*kinds) as cluster:
        clients = await cluster.clients()
        first, last = clients[0], clients[-1]
        got, limited = Inbox(), Inbox()
        subscription = await first.subscribe("a", cb=got.take)
        capped = await first.subscribe("b", cb=limited.take)
        await capped.unsubscribe(3)
        await settle(clients)
        for i in range(5):
            await last.publish("a", b"%d" % i)
            await last.publish("b", b"%d" % i)
        await got.has(*(b"%d" % i for i in range(5)))
        await limited.has(b"0", b"1", b"2")
        await subscription.unsubscribe()
        await settle(clients)
        for subject in ("a", "b"):
            with pytest.raises(NoRespondersError):
                await last.request(subject, b"", timeout=30)


async def test_a_server_that_goes_takes_its_interest_along(kinds: tuple[str, ...]) -> None:
    async with Cluster(*kinds) as cluster:
        clients = await cluster.clients()
        await clients[-1].subscribe("svc")
        await settle(clients)
        before = len(clients[0].discovered_servers)
        await clients.pop().close()
        await asyncio.to_thread(cluster.servers[-1].stop)
        await refused(clients, "svc")
        await asyncio.to_thread(cluster.start, len(kinds) - 1)
        back = await cluster.client(len(kinds) - 1)
        got = Inbox()
        await back.subscribe("again", cb=got.take)
        await settle([*clients, back])
        for client in clients:
            await client.publish("again", b"x")
        await got.has(*[b"x"] * len(clients))
        assert before >= len(kinds) - 1


async def refused(clients: list[Client], subject: str) -> None:
    """Wait until requests to `subject` have no responder any more."""
    for client in clients:
        async with asyncio.timeout(15):
            while True:
                try:
                    await client.request(subject, b"", timeout=0.05)
                except NoRespondersError:
                    break
                except TimeoutError:
                    continue


async def test_accounts_do_not_mix(kinds: tuple[str, ...]) -> None:
    accounts = """
    accounts {
      A { users: [ {user: a, password: p} ], exports: [ {service: "svc.>"} ] }
      B { users: [ {user: b, password: p} ]
          imports: [ {service: {account: A, subject: "svc.x"}} ] }
    }
    """
    async with Cluster(*kinds, config=accounts) as cluster:
        of_a = await cluster.clients(user="a", password="p")
        of_b = await cluster.clients(user="b", password="p")
        got: list[Inbox] = []
        for client in (of_a[0], of_b[0]):
            got.append(Inbox())
            await client.subscribe("same", cb=got[-1].take)

        async def answer(message: Any) -> None:
            await message.respond(b"from A")

        await of_a[0].subscribe("svc.x", cb=answer)
        await settle(of_a)
        await settle(of_b)
        await of_a[-1].publish("same", b"a")
        await of_b[-1].publish("same", b"b")
        await got[0].has(b"a")
        await got[1].has(b"b")
        for client in of_b:
            answers = Inbox()
            inbox = client.new_inbox()
            await client.subscribe(inbox, cb=answers.take)
            await settle(of_b)
            await client.publish("svc.x", b"", reply=inbox)
            await client.flush()
            await answers.has(b"from A")
            await settle(of_a)
            await settle(of_b)
            assert answers.data == [b"from A"]


async def test_routes_speak_tls_and_need_a_certificate(
    kinds: tuple[str, ...], certificates: dict[str, bytes]
) -> None:
    tls = 'tls { cert_file: "@directory@/server.pem", key_file: "@directory@/server.key", '
    tls += 'ca_file: "@directory@/ca.pem", timeout: 5 }'
    async with Cluster(*kinds, cluster=tls, files=certificates) as cluster:
        clients = await cluster.clients()
        got = Inbox()
        await clients[0].subscribe("a", cb=got.take)
        await settle(clients)
        await clients[-1].publish("a", b"x")
        await got.has(b"x")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
            await certificateless(cluster.ports[-1], context)


async def certificateless(port: int, context: ssl.SSLContext) -> None:
    """Connect without a certificate, and read INFO."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        if not await asyncio.wait_for(reader.readline(), 10):
            raise EOFError
    finally:
        writer.close()


async def test_each_server_answers_for_itself(kinds: tuple[str, ...]) -> None:
    config = """
    accounts { $SYS { users: [ {user: sys, password: p} ] }
               A { users: [ {user: a, password: p} ] } }
    """
    async with Cluster(*kinds, config=config) as cluster:
        clients = await cluster.clients(user="sys", password="p")
        for client in clients:
            for subject in ("PING", "PING.VARZ", "PING.STATSZ", "PING.ROUTEZ"):
                answers = Inbox()
                inbox = client.new_inbox()
                await client.subscribe(inbox, cb=answers.take)
                await client.publish(f"$SYS.REQ.SERVER.{subject}", b"", reply=inbox)
                await until(lambda answers=answers: len(answers.messages) >= len(kinds))
                await settle(clients)
                names = sorted(json.loads(data)["server"]["name"] for data in answers.data)
                assert names == [f"S{i}" for i in range(len(kinds))]
