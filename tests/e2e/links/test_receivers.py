"""The receivers of a message that crosses a link, with imports, mappings and deliver groups.

Each test runs for every kind of link. Each of them also passes with a nats-server in midge's place.
"""

from __future__ import annotations

from typing import Any

import pytest
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig

from tests.support.leafnodes import Inbox, settle, until
from tests.support.linked import LINKS, Linked, settle_both

LEAFS = ("leaf", "hub", "hub: true")

ACCOUNTS = """
accounts {
  A { users: [ { user: a, password: a } ]
      exports: [ { stream: "str.>" }, { stream: "deliver.>" }, { service: "svc.>" } ] }
  B { users: [ { user: b, password: b } ]
      imports: [ { stream: { account: A, subject: "str.>" } }
                 { stream: { account: A, subject: "deliver.>" }, to: "local.>" }
                 { service: { account: A, subject: "svc.x" } } ] }
}
"""
A: dict[str, Any] = {"user": "a", "password": "a"}
B: dict[str, Any] = {"user": "b", "password": "b"}

QUEUES = ("", "w")
"""The queue groups of a subscription; an empty name for none."""

nears = pytest.mark.parametrize("near", ["midge", pytest.param("real", marks=pytest.mark.full)])


def skip_unless_there(near: str, link: str, *, has_streams: bool = False) -> None:
    if near == "real" and link == "workers":
        pytest.skip("a nats-server has no workers")
    if near == "real" and link == "route" and has_streams:
        pytest.skip("the streams of a nats-server in a cluster need three servers")


async def answer(message: Msg) -> None:
    await message.respond(b"yes")


@nears
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("far", ["real", "midge"])
async def test_one_member_of_a_deliver_group_gets_each_message(
    link: str, far: str, near: str
) -> None:
    skip_unless_there(near, link)
    async with Linked(link, far, near=near) as places:
        more = await places.add_leaf('jetstream { store_dir: "@directory@/js", domain: J }\n')
        client = await places.client_of(more)
        clients = await places.clients()
        got: list[str] = []

        async def take(message: Msg) -> None:
            got.append(message.data.decode())
            assert message.subject == "s"
            await message.ack()

        for one in clients:
            await one.subscribe("deliver.g", "w", cb=take)
        await settle_both(*clients)
        for one in clients:
            await settle(one, client)
            await settle(client, one)
        stream = client.jetstream()
        await stream.add_stream(name="S", subjects=["s"])
        config = ConsumerConfig(
            durable_name="G",
            deliver_subject="deliver.g",
            deliver_group="w",
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=600,
        )
        await stream.add_consumer("S", config)
        count = 40
        for number in range(count):
            await stream.publish("s", b"%d" % number)
        await until(lambda: len(got) >= count)
        for one in clients:
            await settle(one, client)
        await settle_both(*clients)
        assert sorted(got, key=int) == [str(number) for number in range(count)]


@nears
@pytest.mark.parametrize("link", LINKS)
async def test_a_responder_behind_a_link_answers_an_imported_service(link: str, near: str) -> None:
    skip_unless_there(near, link)
    async with Linked(link, near=near, config=ACCOUNTS, accounts=("A",)) as places:
        near_a, far_a = await places.clients(**A)
        requester = await places.client_of(places.near, **B)
        for queue in QUEUES:
            responder = await far_a.subscribe("svc.x", queue, cb=answer)
            await settle_both(near_a, far_a)
            for _ in range(3):
                reply = await requester.request("svc.x", b"", timeout=10)
                assert reply.data == b"yes"
            await responder.unsubscribe()
            await settle_both(near_a, far_a)


@nears
@pytest.mark.parametrize("link", LINKS)
async def test_an_answer_goes_to_whoever_listens_behind_a_link(link: str, near: str) -> None:
    skip_unless_there(near, link)
    async with Linked(link, near=near, config=ACCOUNTS, accounts=("B",)) as places:
        responder = await places.client_of(places.near, **A)
        await responder.subscribe("svc.x", cb=answer)
        await responder.flush()
        near_b, far_b = await places.clients(**B)
        if link == "workers":
            near_b, far_b = far_b, near_b  # the third client is in the same worker as the first
        for queue in QUEUES:
            inbox = Inbox()
            reply = f"inbox.of.{queue or 'mine'}"
            await far_b.subscribe(reply, queue, cb=inbox.take)
            await settle_both(near_b, far_b)
            await near_b.publish("svc.x", b"", reply=reply)
            await near_b.flush()
            await inbox.has(b"yes")


@nears
@pytest.mark.parametrize("link", LINKS)
async def test_a_mapped_message_goes_to_the_queue_groups_of_its_new_subject(
    link: str, near: str
) -> None:
    skip_unless_there(near, link)
    accounts = ACCOUNTS.replace("A { users", 'A { mappings: { "in.*": "out.$1" }, users')
    is_leaf = link in LEAFS
    async with Linked(
        link,
        near=near,
        near_config=accounts,
        far_config=ACCOUNTS if is_leaf else accounts,
        accounts=("A",),
    ) as places:
        near_a, far_a = await places.clients(**A)
        plain, group = Inbox(), Inbox()
        await near_a.subscribe("out.1", cb=plain.take)
        await near_a.subscribe("out.1", "g", cb=group.take)
        await settle_both(near_a, far_a)
        for number in range(3):
            await far_a.publish("in.1", b"%d" % number)
        await far_a.flush()
        await plain.has(b"0", b"1", b"2")
        await near_a.flush()
        await group.has(b"0", b"1", b"2")


@nears
@pytest.mark.parametrize("link", ["route", "workers"])
async def test_a_service_gets_a_request_once_although_the_requesters_account_listens_to_it(
    link: str, near: str
) -> None:
    skip_unless_there(near, link)
    async with Linked(link, near=near, config=ACCOUNTS) as places:
        near_a, far_a = await places.clients(**A)
        near_b, far_b = await places.clients(**B)
        requests = Inbox()
        await near_a.subscribe("svc.x", cb=requests.take)
        await near_a.subscribe("svc.x", "w", cb=answer)
        await near_b.subscribe("svc.>")
        await settle_both(near_a, far_a)
        await settle_both(near_b, far_b)
        for number in range(3):
            await far_b.request("svc.x", b"%d" % number, timeout=10)
        await settle_both(near_a, far_a)
        await requests.has(b"0", b"1", b"2")


@nears
@pytest.mark.parametrize("link", LINKS)
async def test_interest_in_an_imported_subject_is_announced(link: str, near: str) -> None:
    skip_unless_there(near, link)
    async with Linked(link, near=near, config=ACCOUNTS, accounts=("B",)) as places:
        near_b, far_b = await places.clients(**B)
        for subject in ("svc.x", "svc.*", "str.x", "str.>"):
            inbox = Inbox()
            interest = await near_b.subscribe(subject, cb=inbox.take)
            await settle_both(near_b, far_b)
            literal = subject.replace("*", "x").replace(">", "x")
            await far_b.publish(literal, b"1")
            await far_b.flush()
            await inbox.has(b"1")
            await interest.unsubscribe()
            await settle_both(near_b, far_b)


@nears
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("far", ["real", "midge"])
async def test_a_delivery_through_an_imported_stream_crosses_a_link(
    far: str, link: str, near: str
) -> None:
    skip_unless_there(near, link, has_streams=True)
    streams = 'jetstream { store_dir: "@directory@/js" }\n'
    with_streams = streams + ACCOUNTS.replace("A { users", "A { jetstream: enabled, users")
    async with Linked(
        link, far, near=near, near_config=with_streams, far_config=ACCOUNTS, accounts=("B",)
    ) as places:
        near_b, far_b = await places.clients(**B)
        client = await places.client_of(places.near, **A)
        inboxes = Inbox(), Inbox()
        for queue, inbox in zip(QUEUES, inboxes, strict=True):
            await far_b.subscribe(f"local.d{queue}", queue, cb=inbox.take)
        await settle_both(near_b, far_b)
        stream = client.jetstream()
        await stream.add_stream(name="S", subjects=["s.*"])
        for queue in QUEUES:
            config = ConsumerConfig(
                durable_name=f"D{queue}",
                deliver_subject=f"deliver.d{queue}",
                deliver_group=queue or None,
                ack_policy=AckPolicy.NONE,
            )
            await stream.add_consumer("S", config)
        for number in range(3):
            await stream.publish(f"s.{number}", b"%d" % number)
        for inbox in inboxes:
            await inbox.has(b"0", b"1", b"2")
            assert [message.subject for message in inbox.messages] == ["s.0", "s.1", "s.2"]


@nears
@pytest.mark.parametrize("link", LINKS)
async def test_a_denied_subject_of_a_stream_does_not_block_a_consumer(link: str, near: str) -> None:
    skip_unless_there(near, link, has_streams=True)
    denied = 'permissions: { subscribe: { allow: ">", deny: "s.secret" } }'
    accounts = ACCOUNTS.replace(
        "A { users: [", f"A {{ users: [ {{user: d, password: d, {denied}}},"
    )
    streams = 'jetstream { store_dir: "@directory@/js" }\n'
    with_streams = streams + accounts.replace("A { users", "A { jetstream: enabled, users")
    async with Linked(
        link, near=near, near_config=with_streams, far_config=accounts, accounts=("A",)
    ) as places:
        client = await places.client_of(places.near, **A)
        restricted = await places.clients(user="d", password="d")
        inboxes = Inbox(), Inbox()
        for number, (one, inbox) in enumerate(zip(restricted, inboxes, strict=True)):
            await one.subscribe(f"deliver.{number}", cb=inbox.take)
        await settle_both(*restricted)
        stream = client.jetstream()
        await stream.add_stream(name="S", subjects=["s.*"])
        for number in range(2):
            config = ConsumerConfig(
                durable_name=f"D{number}",
                deliver_subject=f"deliver.{number}",
                ack_policy=AckPolicy.NONE,
            )
            await stream.add_consumer("S", config)
        for subject in ("s.secret", "s.open"):
            await stream.publish(subject, subject.encode())
        for inbox in inboxes:
            await inbox.has(b"s.secret", b"s.open")
        plain = Inbox()
        await restricted[0].subscribe("s.*", cb=plain.take)
        await restricted[0].flush()
        await client.publish("s.secret", b"")
        await client.publish("s.open", b"1")
        await client.flush()
        await plain.has(b"1")


@nears
@pytest.mark.parametrize("far", ["real", "midge"])
@pytest.mark.parametrize("link", LEAFS)
async def test_what_an_import_has_carried_does_not_return_to_the_hub(
    link: str, far: str, near: str
) -> None:
    async with Linked(link, far, near=near, config=ACCOUNTS, accounts=("A", "B")) as places:
        near_a, far_a = await places.clients(**A)
        near_b, far_b = await places.clients(**B)
        at_hub, at_leaf = (far_b, near_b) if link == "hub" else (near_b, far_b)
        inbox = Inbox()
        await at_hub.subscribe("str.>", cb=inbox.take)
        await at_leaf.subscribe("str.>")
        await settle_both(near_a, far_a)
        await settle_both(near_b, far_b)
        publisher = far_a if link == "hub" else near_a
        for number in range(3):
            await publisher.publish("str.x", b"%d" % number)
        await publisher.flush()
        await settle_both(near_a, far_a)
        await settle_both(near_b, far_b)
        await inbox.has(b"0", b"1", b"2")


# Each member of a cluster of leafs has a link of its own to the hub: no "member" behind "hub".
REQUESTERS = [
    (requester, link)
    for link in LEAFS
    for requester in ("near", "far", "member", "worker")
    if (requester, link) != ("member", "hub")
]


@pytest.mark.parametrize(("requester", "link"), REQUESTERS)
async def test_a_request_through_the_imports_of_two_servers_is_served_once(
    requester: str, link: str
) -> None:
    # nats-server serves it once more for each link of the requester's account.
    options: dict[str, Any] = {"far": "midge", "config": ACCOUNTS, "accounts": ("A", "B")}
    if requester == "member":
        options["near_config"] = 'cluster { name: C1, listen: "127.0.0.1:-1" }\n'
    if requester == "worker":
        options["flags"] = ("--workers", "2")
    async with Linked(link, **options) as places:
        responders = await places.clients(**A)
        got: list[str] = []

        async def serve(message: Msg) -> None:
            got.append(message.data.decode())
            await message.respond(b"yes")

        both = await places.clients(**B)
        server = places.far if requester == "far" else places.near
        if requester == "member":
            server = await places.add_member(ACCOUNTS)
            member = await places.client_of(server, **A)
            for one in responders:
                await settle(one, member)
        clients = [await places.client_of(server, **B) for _ in range(2)]  # one for each worker
        for queue in QUEUES:
            serving = [await one.subscribe("svc.x", queue, cb=serve) for one in responders]
            for pair in (responders, both, *((client, one) for client in clients for one in both)):
                await settle_both(*pair)
            sent = [f"{number} {queue}" for number in range(6)]
            for number, text in enumerate(sent):
                await clients[number % 2].request("svc.x", text.encode(), timeout=10)
            for client in clients:
                for one in both:
                    await settle(one, client)
            await settle_both(*responders)
            assert sorted(got) == (sent if queue else sorted(sent * 2))
            got.clear()
            for subscription in serving:
                await subscription.unsubscribe()


@pytest.mark.parametrize("far", ["real", "midge"])
@pytest.mark.parametrize("link", LINKS)
async def test_a_request_that_an_import_takes_reaches_listeners_behind_a_link_once(
    link: str, far: str
) -> None:
    async with Linked(link, far, config=ACCOUNTS, accounts=("A", "B")) as places:
        responders = await places.clients(**A)
        for one in responders:
            await one.subscribe("svc.x", "w", cb=answer)
        near_b, far_b = await places.clients(**B)
        await settle_both(*responders)
        for queue in QUEUES:
            listener = Inbox()
            interest = await far_b.subscribe("svc.>", queue, cb=listener.take)
            await settle_both(near_b, far_b)
            for number in range(3):
                await near_b.request("svc.x", b"%d" % number, timeout=10)
            await settle_both(near_b, far_b)
            await listener.has(b"0", b"1", b"2")
            await interest.unsubscribe()
            await settle_both(near_b, far_b)
