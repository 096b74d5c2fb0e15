"""Interceptors: what they see, change and refuse, and that nothing goes round them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

import midge
from midge.server.interceptor_calls import LOST_MAX
from midge.server.interceptors import Connect, Deliver, Publish, Refuse, Subscribe
from midge.server.options import (
    Account,
    Authorization,
    Export,
    Import,
    ImportSource,
    Mapping,
    MappingDestination,
    Permissions,
    SubjectPermissions,
    User,
)
from midge.testing import ManualClock
from tests.support.raw import Raw

Start = Callable[..., Any]
VIOLATION = b'-ERR \'Permissions Violation for Publish to "%b"'


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start servers, and stop them when the test ends."""
    servers: list[midge.Server] = []

    async def one(**settings: Any) -> midge.Server:
        server = await midge.Server(port=-1, **settings).start()
        servers.append(server)
        return server

    yield one
    while clients:
        await clients.pop().close()
    for server in servers:
        await server.stop()


clients: list[Raw] = []
"""The clients of the test at hand; `start` closes them."""


async def opened(server: midge.Server) -> Raw:
    clients.append(await Raw.open(server.url))
    return clients[-1]


async def connected(server: midge.Server, **options: Any) -> Raw:
    client = await opened(server)
    assert await client.connect(**options) == b""
    return client


def passes(event: Any) -> Any:
    return event


async def passes_later(event: Any) -> Any:
    await asyncio.sleep(0)
    return event


def refuses(event: Any) -> Any:
    return Refuse("not today")


async def refuses_later(event: Any) -> Any:
    await asyncio.sleep(0)
    return Refuse("not today")


def raises(event: Any) -> Any:
    raise RuntimeError("out of order")


async def raises_later(event: Any) -> Any:
    await asyncio.sleep(0)
    raise RuntimeError("out of order")


def exits(event: Any) -> Any:
    sys.exit("done")


async def exits_later(event: Any) -> Any:
    await asyncio.sleep(0)
    sys.exit("done")


def returns_nothing(event: Any) -> Any:
    return None


def returns_true(event: Any) -> Any:
    return True


async def returns_nothing_later(event: Any) -> Any:
    return None


REFUSING = (
    refuses,
    refuses_later,
    raises,
    raises_later,
    exits,
    exits_later,
    returns_nothing,
    returns_true,
    returns_nothing_later,
)
PASSING = (passes, passes_later)


class TestPublish:
    @pytest.mark.parametrize("function", PASSING)
    async def test_the_event_itself_passes_byte_by_byte(self, start: Start, function: Any) -> None:
        server = await start(interceptors={"publish": function})
        client = await connected(server)
        block = b"NATS/1.0 100 odd\r\n a:b \r\n\r\n"
        frame = b"HPUB a r %d %d\r\n%bhello" % (len(block), len(block) + 5, block)
        client.send(b"SUB > 1", frame)
        assert await client.ask() == b"HMSG a 1 r %d %d\r\n%bhello\r\n" % (
            len(block),
            len(block) + 5,
            block,
        )

    @pytest.mark.parametrize("function", REFUSING)
    async def test_anything_else_refuses(self, start: Start, function: Any) -> None:
        server = await start(interceptors={"publish": function})
        client = await connected(server)
        answer = await client.ask(b"SUB > 1", b"PUB a 2\r\nhi")
        assert answer.startswith(VIOLATION % b"a")
        assert (b"not today" in answer) == function.__name__.startswith("refuses")
        assert b"MSG" not in answer
        counts = server.hub.interception.calls
        assert counts.failed["publish"] + counts.refused["publish"] == 1

    @pytest.mark.parametrize("is_async", [False, True])
    async def test_a_changed_copy_passes(self, start: Start, is_async: bool) -> None:
        def change(event: Publish) -> Publish:
            changed = replace(event, subject="b", reply="r", payload=event.payload.upper())
            return changed.with_headers({"By": event.client.name if event.client else ""})

        async def change_later(event: Publish) -> Publish:
            return change(event)

        server = await start(interceptors={"publish": change_later if is_async else change})
        client = await connected(server, name="shop")
        answer = await client.ask(b"SUB > 1", b"PUB a 2\r\nhi")
        assert answer == b"HMSG b 1 r 22 24\r\nNATS/1.0\r\nBy: shop\r\n\r\nHI\r\n"

    @pytest.mark.parametrize(
        "change",
        [
            {"subject": "a b"},
            {"subject": "a\r\nPING"},
            {"subject": ">"},
            {"subject": ""},
            {"reply": "*"},
            {"payload": "text"},
            {"payload": None},
            {"header_block": b"no headers"},
            {"client": None},
            {"subject": None},
            {"subject": "\ud800"},
        ],
        ids=str,
    )
    async def test_a_copy_that_cannot_be_refuses(self, start: Start, change: Any) -> None:
        server = await start(interceptors={"publish": lambda event: replace(event, **change)})
        client = await connected(server)
        answer = await client.ask(b"SUB > 1", b"PUB a 2\r\nhi")
        assert answer.startswith(VIOLATION % b"a")
        assert b"MSG" not in answer

    async def test_a_copy_larger_than_the_limit_refuses(self, start: Start) -> None:
        server = await start(
            max_payload=10,
            interceptors={"publish": lambda event: replace(event, payload=b"x" * 11)},
        )
        client = await connected(server)
        assert (await client.ask(b"SUB > 1", b"PUB a 0\r\n")).startswith(VIOLATION % b"a")

    @pytest.mark.parametrize("is_async", [False, True])
    async def test_a_changed_subject_needs_the_permission(
        self, start: Start, is_async: bool
    ) -> None:
        def change(event: Publish) -> Publish:
            return replace(event, subject="secret")

        async def change_later(event: Publish) -> Publish:
            return change(event)

        rules = Permissions(publish=SubjectPermissions(deny=("secret",)))
        server = await start(
            authorization=Authorization(users=(User(user="u", password="p", permissions=rules),)),
            interceptors={"publish": change_later if is_async else change},
        )
        client = await connected(server, user="u", **{"pass": "p"})
        answer = await client.ask(b"SUB > 1", b"PUB open 2\r\nhi")
        assert answer.startswith(VIOLATION % b"secret")
        assert b"MSG" not in answer

    @pytest.mark.parametrize("change", [{"subject": "$NRG.x"}, {"reply": "_R_.x.y"}], ids=str)
    async def test_reserved_subjects_stay_reserved(self, start: Start, change: Any) -> None:
        server = await start(interceptors={"publish": lambda event: replace(event, **change)})
        client = await connected(server)
        answer = await client.ask(b"SUB > 1", b"PUB a 2\r\nhi")
        assert b"Permissions Violation for Publish" in answer
        assert b"MSG" not in answer

    async def test_what_permissions_forbid_is_never_shown(self, start: Start) -> None:
        seen: list[str] = []
        rules = Permissions(publish=SubjectPermissions(allow=("open",)))
        server = await start(
            authorization=Authorization(users=(User(user="u", password="p", permissions=rules),)),
            interceptors={"publish": lambda event: seen.append(event.subject) or event},
        )
        client = await connected(server, user="u", **{"pass": "p"})
        await client.ask(b"PUB closed 2\r\nhi", b"PUB open 2\r\nhi")
        assert seen == ["open"]

    async def test_verbose_clients_hear_ok_or_error_and_never_both(self, start: Start) -> None:
        def some(event: Publish) -> Any:
            return event if event.subject == "a" else Refuse()

        server = await start(interceptors={"publish": some})
        client = await opened(server)
        client.send(b'CONNECT {"verbose":true,"pedantic":false}', b"PUB a 0\r\n", b"PUB b 0\r\n")
        assert await client.ask() == b"+OK\r\n+OK\r\n" + VIOLATION % b"b" + b"'\r\n"

    async def test_a_reason_cannot_break_the_line(self, start: Start) -> None:
        server = await start(
            interceptors={"publish": lambda _: Refuse("it's\r\nPING\r\n" + "x" * 999)}
        )
        client = await connected(server)
        answer = await client.ask(b"PUB a 0\r\n")
        assert answer.count(b"\r\n") == 1
        assert len(answer) < 200


class TestOrder:
    async def test_messages_and_commands_of_a_client_stay_in_order(self, start: Start) -> None:
        """The later a message comes, the sooner its answer; yet nothing overtakes."""
        gates: dict[str, asyncio.Event] = {}

        async def gated(event: Publish) -> Publish:
            gates[event.subject] = asyncio.Event()
            await gates[event.subject].wait()
            return event

        server = await start(interceptors={"publish": gated})
        client = await connected(server)
        client.send(
            *(b"PUB a.%d 0\r\n" % number for number in range(3)),
            b"SUB a.* 1",
            *(b"PUB a.%d 0\r\n" % number for number in range(3, 6)),
            b"UNSUB 1",
            b"PUB a.6 0\r\n",
            b"PING",
        )
        while len(gates) < 7:
            await asyncio.sleep(0)
        for number in reversed(range(7)):
            gates[f"a.{number}"].set()
            await asyncio.sleep(0)
        answer = await client.until_pong()
        assert answer == b"".join(b"MSG a.%d 1 0\r\n\r\n" % number for number in (3, 4, 5))

    async def test_other_clients_go_on(self, start: Start) -> None:
        forever = asyncio.Event()

        async def hold(event: Publish) -> Publish:
            if event.subject == "slow":
                await forever.wait()
            return event

        server = await start(interceptors={"publish": hold})
        slow, quick = await connected(server), await connected(server)
        slow.send(b"PUB slow 0\r\n")
        assert await quick.ask(b"SUB quick 1", b"PUB quick 0\r\n") == b"MSG quick 1 0\r\n\r\n"
        forever.set()

    async def test_a_full_queue_stops_parsing_and_goes_on_later(self, start: Start) -> None:
        begun: list[bytes] = []
        gate = asyncio.Event()

        async def hold(event: Publish) -> Publish:
            begun.append(event.payload)
            await gate.wait()
            return event

        server = await start(interceptors={"publish": hold, "max_pending": 4, "timeout_s": 30})
        client = await connected(server)
        client.send(b"SUB > 1", *(b"PUB a 3\r\n%03d" % number for number in range(200)))
        other = await connected(server)
        while len(begun) < 4:
            await asyncio.sleep(0)
        await other.ask()
        assert len(begun) == 4
        gate.set()
        answer = await client.ask()
        assert answer == b"".join(b"MSG a 1 3\r\n%03d\r\n" % number for number in range(200))

    async def test_large_messages_stop_parsing_by_their_bytes(self, start: Start) -> None:
        begun: list[int] = []
        gate = asyncio.Event()

        async def hold(event: Publish) -> Publish:
            begun.append(len(event.payload))
            await gate.wait()
            return event

        server = await start(interceptors={"publish": hold, "timeout_s": 30})
        client = await connected(server)
        payload = b"x" * (600 * 1024)
        client.send(*[b"PUB a %d\r\n%b" % (len(payload), payload)] * 6)
        other = await connected(server)
        while len(begun) < 2:
            await asyncio.sleep(0.001)
        await other.ask()
        assert len(begun) == 2
        gate.set()
        assert await client.ask() == b""
        assert len(begun) == 6

    async def test_what_was_sent_before_the_end_is_still_routed(self, start: Start) -> None:
        server = await start(interceptors={"publish": passes_later})
        receiver, sender = await connected(server), await connected(server)
        await receiver.ask(b"SUB > 1")
        sender.send(*(b"PUB a 1\r\n%d" % number for number in range(9)))
        await sender.close()
        assert (await receiver.until(b"8")).count(b"MSG a 1 1") == 9

    async def test_a_connect_waits_for_what_came_before_it(self, start: Start) -> None:
        seen: list[str] = []

        async def note(event: Publish) -> Publish:
            await asyncio.sleep(0)
            assert event.client is not None
            seen.append(event.client.name)
            return event

        server = await start(interceptors={"publish": note})
        client = await connected(server, name="before")
        client.send(b"PUB a 0\r\n", b'CONNECT {"verbose":false,"name":"after"}', b"PUB a 0\r\n")
        assert await client.ask() == b""
        assert seen == ["before", "after"]


class TestTime:
    async def test_a_function_that_hangs_refuses_when_its_time_is_up(self, start: Start) -> None:
        begun = asyncio.Event()

        async def hang(event: Publish) -> Publish:
            begun.set()
            await asyncio.Event().wait()
            return event

        clock = ManualClock()
        server = await start(clock=clock, interceptors={"publish": hang, "timeout_s": 5})
        client = await connected(server)
        client.send(b"SUB > 1", b"PUB a 0\r\n", b"PING")
        await begun.wait()
        clock.advance(4.9)
        assert not server.hub.interception.calls.failed
        clock.advance(0.2)
        assert VIOLATION % b"a" in await client.until_pong()

    async def test_calls_that_never_end_are_bounded(self, start: Start) -> None:
        release = asyncio.Event()
        calls: list[int] = []

        async def stubborn(event: Publish) -> Publish:
            calls.append(1)
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            return event

        clock = ManualClock()
        server = await start(
            clock=clock, interceptors={"publish": stubborn, "timeout_s": 1, "max_pending": 500}
        )
        client = await connected(server)
        client.send(*[b"PUB a 0\r\n"] * LOST_MAX, b"PING")
        while len(calls) < LOST_MAX:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        clock.advance(2)
        assert (await client.until_pong()).count(b"-ERR") == LOST_MAX
        assert (await client.ask(b"PUB a 0\r\n")).startswith(VIOLATION % b"a")
        assert len(calls) == LOST_MAX
        release.set()

    async def test_failures_do_not_flood_the_log(
        self, start: Start, caplog: pytest.LogCaptureFixture
    ) -> None:
        server = await start(clock=ManualClock(), interceptors={"publish": raises})
        client = await connected(server)
        await client.ask(*[b"PUB a 0\r\n"] * 300)
        lines = [one for one in caplog.messages if "interceptor_failed" in one]
        assert len(lines) == 10
        assert "Traceback" not in caplog.text


class TestSubscribe:
    @pytest.mark.parametrize("function", REFUSING)
    async def test_anything_but_the_event_refuses(self, start: Start, function: Any) -> None:
        server = await start(interceptors={"subscribe": function})
        client = await connected(server)
        answer = await client.ask(b"SUB a q 1", b"PUB a 2\r\nhi")
        assert answer.startswith(
            b'-ERR \'Permissions Violation for Subscription to "a" using queue "q"'
        )
        assert b"MSG" not in answer
        assert not server.subscriptions

    @pytest.mark.parametrize("function", PASSING)
    async def test_the_event_passes(self, start: Start, function: Any) -> None:
        server = await start(interceptors={"subscribe": function})
        client = await connected(server)
        answer = await client.ask(b"SUB a 1", b"PUB a 2\r\nhi")
        assert answer == b"MSG a 1 2\r\nhi\r\n"

    async def test_a_changed_subscription_needs_the_permission(self, start: Start) -> None:
        def move(event: Subscribe) -> Subscribe:
            return replace(event, subject=f"{event.subject}.x", queue="q")

        rules = Permissions(subscribe=SubjectPermissions(deny=("b.x",)))
        server = await start(
            authorization=Authorization(users=(User(user="u", password="p", permissions=rules),)),
            interceptors={"subscribe": move},
        )
        client = await connected(server, user="u", **{"pass": "p"})
        answer = await client.ask(b"SUB a 1", b"SUB b 2")
        assert answer.count(b"-ERR") == 1
        assert b'"b.x" using queue "q"' in answer
        assert [(one.subject, one.queue) for one in server.subscriptions] == [("a.x", "q")]

    async def test_a_subject_that_cannot_be_refuses(self, start: Start) -> None:
        server = await start(interceptors={"subscribe": lambda one: replace(one, subject="a..b")})
        client = await connected(server)
        assert b"-ERR" in await client.ask(b"SUB a 1")


class TestConnect:
    @pytest.mark.parametrize("function", REFUSING)
    async def test_anything_but_the_event_refuses(self, start: Start, function: Any) -> None:
        server = await start(interceptors={"connect": function})
        client = await opened(server)
        client.send(b"CONNECT {}", b"SUB > 1", b"PUB a 0\r\n")
        assert await client.until_end() == b"-ERR 'Authorization Violation'\r\n"
        assert server.stats.in_messages == 0

    @pytest.mark.parametrize("function", PASSING)
    async def test_the_event_passes(self, start: Start, function: Any) -> None:
        server = await start(interceptors={"connect": function})
        client = await connected(server)
        assert await client.ask(b"SUB a 1", b"PUB a 0\r\n") == b"MSG a 1 0\r\n\r\n"

    async def test_nobody_goes_without_a_connect(self, start: Start) -> None:
        server = await start(interceptors={"connect": passes})
        client = await opened(server)
        client.send(b"PUB a 0\r\n")
        assert await client.until_end() == b"-ERR 'Authorization Violation'\r\n"

    async def test_it_sees_who_it_is_and_chooses_account_and_permissions(
        self, start: Start
    ) -> None:
        seen: list[Connect] = []

        def move(event: Connect) -> Connect:
            seen.append(event)
            rules = Permissions(publish=SubjectPermissions(deny=("secret",)))
            return replace(event, account="B", user="guest", permissions=rules)

        server = await start(
            accounts=(
                Account(name="A", users=(User(user="u", password="p"),)),
                Account(name="B"),
            ),
            interceptors={"connect": move},
        )
        client = await connected(server, user="u", name="shop", lang="c", **{"pass": "p"})
        assert (seen[0].client.user, seen[0].client.account, seen[0].client.name) == (
            "u",
            "A",
            "shop",
        )
        assert [(one.user, one.account) for one in server.connections] == [("guest", "B")]
        assert (await client.ask(b"PUB secret 0\r\n")).startswith(VIOLATION % b"secret")

    @pytest.mark.parametrize(
        "change",
        [
            {"account": "nowhere"},
            {"account": None},
            {"user": 7},
            {"permissions": {"publish": {}}},
            {"permissions": Permissions(publish=SubjectPermissions(allow=("a..b",)))},
        ],
        ids=str,
    )
    async def test_a_copy_that_cannot_be_refuses(self, start: Start, change: Any) -> None:
        server = await start(interceptors={"connect": lambda event: replace(event, **change)})
        client = await opened(server)
        client.send(b"CONNECT {}")
        assert b"Authorization Violation" in await client.until_end()

    async def test_a_wrong_password_is_not_shown(self, start: Start) -> None:
        seen: list[Connect] = []
        server = await start(
            user="u", password="p", interceptors={"connect": lambda one: seen.append(one) or one}
        )
        client = await opened(server)
        client.send(b'CONNECT {"user":"u","pass":"wrong"}')
        assert b"Authorization Violation" in await client.until_end()
        assert not seen

    async def test_a_reload_asks_again(self, start: Start) -> None:
        is_open = [True]
        server = await start(interceptors={"connect": lambda one: one if is_open[0] else Refuse()})
        client = await connected(server)
        is_open[0] = False
        await server.reload(max_payload=1000)
        assert b"Authorization Violation" in await client.until_end()


class TestDeliver:
    @pytest.mark.parametrize("function", REFUSING)
    async def test_anything_but_the_event_drops_the_delivery(
        self, start: Start, function: Any
    ) -> None:
        server = await start(interceptors={"deliver": function})
        client = await connected(server)
        assert await client.ask(b"SUB a 1", b"PUB a 2\r\nhi") == b""
        await asyncio.sleep(0.01)
        assert await client.ask() == b""
        assert server.stats.out_messages == 0

    @pytest.mark.parametrize("function", PASSING)
    async def test_deliveries_stay_in_order_and_complete(self, start: Start, function: Any) -> None:
        server = await start(interceptors={"deliver": function, "max_pending": 4})
        receiver, sender = await connected(server), await connected(server)
        await receiver.ask(b"SUB > 1")
        sender.send(*(b"PUB a 3\r\n%03d" % number for number in range(300)))
        answer = await receiver.until(b"299")
        assert answer == b"".join(b"MSG a 1 3\r\n%03d\r\n" % number for number in range(300))

    async def test_a_changed_subject_needs_the_receivers_permission(self, start: Start) -> None:
        rules = Permissions(subscribe=SubjectPermissions(allow=("a", "b")))
        server = await start(
            authorization=Authorization(users=(User(user="u", password="p", permissions=rules),)),
            interceptors={
                "deliver": lambda one: replace(one, subject=one.payload.decode(), payload=b"")
            },
        )
        client = await connected(server, user="u", **{"pass": "p"})
        answer = await client.ask(b"SUB a 1", b"PUB a 1\r\nc", b"PUB a 1\r\nb")
        assert answer == b"MSG b 1 0\r\n\r\n"

    async def test_a_queue_group_passes_a_refused_message_on(self, start: Start) -> None:
        def by_name(event: Deliver) -> Any:
            return event if event.client is not None and event.client.name == "good" else Refuse()

        server = await start(interceptors={"deliver": by_name})
        good, bad = await connected(server, name="good"), await connected(server, name="bad")
        await good.ask(b"SUB a q 1")
        await bad.ask(b"SUB a q 1")
        server_count = 10
        for _ in range(server_count):
            assert server.publish("a") == 1
        assert (await good.ask()).count(b"MSG") == server_count
        assert await bad.ask() == b""

    async def test_a_request_that_nobody_may_have_gets_no_responders(self, start: Start) -> None:
        server = await start(interceptors={"deliver": refuses})
        worker = await connected(server)
        client = await connected(server, no_responders=True)
        await worker.ask(b"SUB a 1")
        answer = await client.ask(b"SUB r 1", b"PUB a r 0\r\n")
        assert b"NATS/1.0 503" in answer

    async def test_a_limited_subscription_gets_as_many_as_it_asked_for(self, start: Start) -> None:
        server = await start(interceptors={"deliver": passes_later})
        client = await connected(server)
        client.send(b"SUB a 1", b"UNSUB 1 3", *[b"PUB a 0\r\n"] * 10, b"PUB end 0\r\n")
        await client.ask()
        await asyncio.sleep(0.01)
        await client.ask()
        assert client.received.count(b"MSG a 1") == 3
        assert not server.subscriptions

    async def test_a_denial_that_came_meanwhile_counts(self, start: Start) -> None:
        gate = asyncio.Event()

        async def hold(event: Deliver) -> Deliver:
            await gate.wait()
            return event

        def users(*deny: str) -> Authorization:
            rules = Permissions(subscribe=SubjectPermissions(deny=("never", *deny)))
            return Authorization(users=(User(user="u", password="p", permissions=rules),))

        server = await start(authorization=users(), interceptors={"deliver": hold})
        client = await connected(server, user="u", **{"pass": "p"})
        await client.ask(b"SUB > 1", b"PUB a 0\r\n", b"PUB b 0\r\n")
        await server.reload(authorization=users("a"))
        gate.set()
        await client.until(b"MSG b")
        assert b"MSG a" not in client.received

    async def test_publishers_are_let_go_when_the_receiver_leaves(self, start: Start) -> None:
        async def hang(event: Deliver) -> Deliver:
            await asyncio.Event().wait()
            return event

        server = await start(interceptors={"deliver": hang, "max_pending": 2, "timeout_s": 60})
        receiver, sender = await connected(server), await connected(server)
        await receiver.ask(b"SUB a 1")
        sender.send(*[b"PUB a 0\r\n"] * 100, b"PING")
        await receiver.ask()
        await receiver.close()
        assert await sender.until_pong() == b""


class TestWaysRound:
    """Each way that a message can take, and what interceptors see of it."""

    async def test_mappings_come_after(self, start: Start) -> None:
        seen: list[tuple[str, str]] = []
        server = await start(
            mappings=(Mapping(source="a", destinations=(MappingDestination(destination="b"),)),),
            interceptors={
                "publish": lambda one: seen.append(("publish", one.subject)) or one,
                "deliver": lambda one: seen.append(("deliver", one.subject)) or one,
            },
        )
        client = await connected(server)
        assert await client.ask(b"SUB b 1", b"PUB a 0\r\n") == b"MSG b 1 0\r\n\r\n"
        assert seen == [("publish", "a"), ("deliver", "b")]

    async def test_imports_are_published_once_and_every_delivery_is_seen(
        self, start: Start
    ) -> None:
        seen: list[tuple[str, str, str]] = []

        def publish(event: Publish) -> Publish:
            assert event.client is not None
            seen.append(("publish", event.client.account, event.subject))
            return event

        def deliver(event: Deliver) -> Deliver | Refuse:
            assert event.client is not None
            seen.append(("deliver", event.client.account, event.subject))
            return Refuse()

        server = await start(
            accounts=(
                Account(
                    name="A",
                    users=(User(user="a", password="p"),),
                    exports=(Export(stream="s"),),
                ),
                Account(
                    name="B",
                    users=(User(user="b", password="p"),),
                    imports=(Import(stream=ImportSource(account="A", subject="s"), to="t"),),
                ),
            ),
            interceptors={"publish": publish, "deliver": deliver},
        )
        a = await connected(server, user="a", **{"pass": "p"})
        b = await connected(server, user="b", **{"pass": "p"})
        await b.ask(b"SUB t 1")
        assert await a.ask(b"PUB s 0\r\n") == b""
        assert await b.ask() == b""
        assert seen == [("publish", "A", "s"), ("deliver", "B", "t")]

    async def test_the_process_itself_is_intercepted(self, start: Start) -> None:
        seen: list[Any] = []

        def some(event: Publish) -> Any:
            seen.append(event.client)
            return Refuse() if event.subject == "b" else replace(event, payload=b"changed")

        server = await start(interceptors={"publish": some})
        client = await connected(server)
        await client.ask(b"SUB > 1")
        assert server.publish("a") == 1
        assert server.publish("b") == 0
        assert await client.ask() == b"MSG a 1 7\r\nchanged\r\n"
        assert seen == [None, None]
        with pytest.raises(midge.NoRespondersError):
            await server.request("b")

    async def test_async_answers_keep_the_process_in_order(self, start: Start) -> None:
        server = await start(interceptors={"publish": passes_later})
        client = await connected(server)
        await client.ask(b"SUB > 1")
        for number in range(20):
            assert server.publish("a", b"%02d" % number) == 1
        answer = await client.until(b"19")
        assert answer == b"".join(b"MSG a 1 2\r\n%02d\r\n" % number for number in range(20))

    async def test_what_the_process_publishes_cannot_fill_the_memory(self, start: Start) -> None:
        async def hang(event: Publish) -> Publish:
            await asyncio.Event().wait()
            return event

        server = await start(interceptors={"publish": hang, "max_pending": 2})
        taken = [server.publish("a") for _ in range(100)]
        assert sum(taken) == 32
        assert taken[-1] == 0

    async def test_system_events_are_seen_when_delivered(self, start: Start) -> None:
        seen: list[str] = []
        server = await start(
            accounts=(Account(name="$SYS", users=(User(user="s", password="p"),)),),
            interceptors={"deliver": lambda one: seen.append(one.subject) or one},
        )
        watcher = await connected(server, user="s", **{"pass": "p"})
        await watcher.ask(b"SUB $SYS.> 1")
        await connected(server, user="s", **{"pass": "p"})
        assert any(subject.endswith(".CONNECT") for subject in seen)

    async def test_faults_act_on_what_interceptors_let_pass(self, start: Start) -> None:
        server = await start(
            interceptors={
                "publish": lambda one: Refuse() if one.subject == "no" else one,
                "deliver": lambda one: replace(one, payload=b"seen"),
            }
        )
        client = await connected(server)
        await client.ask(b"SUB > 1")
        with server.faults.duplicate("a") as fault:
            answer = await client.ask(b"PUB a 0\r\n", b"PUB no 0\r\n")
            assert fault.hits == 1
        assert answer.count(b"MSG a 1 4\r\nseen") == 2
        assert b"MSG no" not in answer
        assert await client.ask(b"PUB a 0\r\n") == b"MSG a 1 4\r\nseen\r\n"


class TestSettings:
    async def test_names_are_imported(self, start: Start) -> None:
        server = await start(
            interceptors={"publish": "tests.unit.server.test_interception:refuses"}
        )
        client = await connected(server)
        assert b"not today" in await client.ask(b"PUB a 0\r\n")

    def test_unknown_events_are_refused(self) -> None:
        with pytest.raises(midge.ConfigError, match=r"interceptors\.publsh"):
            midge.Server(port=-1, interceptors={"publsh": passes})

    async def test_missing_functions_are_refused(self) -> None:
        server = midge.Server(port=-1, interceptors={"publish": "no_such_module:function"})
        with pytest.raises(midge.ConfigError, match=r"interceptors\.publish"):
            await server.start()

    async def test_a_reload_changes_those_of_the_settings(self, start: Start) -> None:
        server = await start()
        client = await connected(server)
        name = "tests.unit.server.test_interception:refuses"
        await server.reload(interceptors={"publish": name})
        assert b"-ERR" in await client.ask(b"PUB a 0\r\n")
        with pytest.raises(midge.ConfigError, match=r"interceptors\.publish"):
            await server.reload(interceptors={"publish": "no_such_module:function"})
        assert b"-ERR" in await client.ask(b"PUB a 0\r\n")
        await server.reload(interceptors={"publish": ""})
        assert await client.ask(b"PUB a 0\r\n") == b""

    async def test_functions_can_be_changed_while_serving(self, start: Start) -> None:
        server = await start()
        client = await connected(server)
        server.intercept(publish=refuses)
        assert b"-ERR" in await client.ask(b"PUB a 0\r\n")
        server.intercept()
        assert await client.ask(b"PUB a 0\r\n") == b""

    async def test_without_interceptors_no_connection_is_screened(self, start: Start) -> None:
        server = await start()
        await connected(server)
        (connection,) = server.hub.clients.values()
        assert server.hub.interception is None
        assert connection.guard == 0
        assert connection.watch == 0
