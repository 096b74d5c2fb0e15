"""The server within the program: life, URLs, the direct way, several at once, in a thread."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvloop
from nats.aio.msg import Msg

import midge
from midge.server.clients.connection import Connection
from midge.testing import SettlingClient

if TYPE_CHECKING:
    from collections.abc import Callable


async def test_a_client_meets_the_process_itself() -> None:
    async with midge.Server(port=-1) as server:
        client = await SettlingClient.connected(server.url)
        subscription = await client.subscribe("a.*")
        await client.flush()
        assert server.publish("a.b", b"hi", {"k": ["1"]}, "r") == 1
        message = await subscription.next_msg(timeout=30)
        assert (message.data, message.headers, message.reply) == (b"hi", {"k": "1"}, "r")
        await client.close()


async def test_requests_both_ways() -> None:
    async with midge.Server(port=-1) as server:
        client = await SettlingClient.connected(server.url)

        async def answer(message: midge.Message) -> None:
            await asyncio.sleep(0)
            message.respond(b"direct " + message.payload)

        server.subscribe("direct", answer)
        assert (await client.request("direct", b"1", timeout=30)).data == b"direct 1"

        async def serve(message: Msg) -> None:
            await message.respond(b"client")

        await client.subscribe("client", cb=serve)
        await client.flush()
        assert (await server.request("client", timeout_s=60)).payload == b"client"
        with pytest.raises(midge.NoRespondersError):
            await server.request("nobody")
        await client.close()


async def test_queue_group_shares_between_client_and_process() -> None:
    async with midge.Server(port=-1) as server:
        client = await SettlingClient.connected(server.url)
        theirs: list[bytes] = []

        async def keep(message: Msg) -> None:
            theirs.append(message.data)

        await client.subscribe("job", queue="w", cb=keep)
        await client.flush()
        ours = server.subscribe("job", queue="w")
        assert [server.publish("job", b"%d" % i) for i in range(10)] == [1] * 10
        await asyncio.sleep(0)
        await client.flush()
        assert ours.pending() == len(theirs) == 5
        await client.close()


async def test_iterating_a_subscription_ends_with_it() -> None:
    async with midge.Server(port=-1) as server:
        subscription = server.subscribe("x.>")
        for i in range(3):
            server.publish(f"x.{i}", str(i))
        subscription.unsubscribe()
        assert [message.text async for message in subscription] == ["0", "1", "2"]
        assert server.publish("x.4") == 0


async def test_a_full_subscription_drops_and_counts() -> None:
    async with midge.Server(port=-1) as server:
        subscription = server.subscribe("x", pending_max=2)
        assert [server.publish("x") for _ in range(3)] == [1, 1, 0]
        assert (subscription.pending(), subscription.dropped) == (2, 1)


async def test_a_failing_callback_harms_nobody_else() -> None:
    faults: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    async with midge.Server(port=-1) as server:
        seen: list[str] = []

        def fail(message: midge.Message) -> None:
            raise RuntimeError(message.text)

        server.subscribe("x", fail)
        server.subscribe("x", lambda message: seen.append(message.text))
        server.publish("x", "1")
        server.publish("x", "2")
        await asyncio.sleep(0)
        assert seen == ["1", "2"]
        assert [str(fault["exception"]) for fault in faults] == ["1", "2"]


@pytest.mark.parametrize("subject", ["", "a b", "a\r\nPUB x 0", "a..b", "a.*", ">", "a\tb", ".a"])
async def test_nothing_can_be_injected_by_a_subject(subject: str) -> None:
    async with midge.Server(port=-1) as server:
        with pytest.raises(ValueError, match="subject"):
            server.publish(subject)
        with pytest.raises(ValueError, match="reply"):
            server.publish("ok", reply=subject)


async def test_limits_and_unknown_accounts_are_named() -> None:
    async with midge.Server(port=-1, max_payload=8) as server:
        with pytest.raises(ValueError, match="at most 8 bytes, got 9"):
            server.publish("a", bytes(9))
        with pytest.raises(ValueError, match=r"expected one of \$G, \$SYS, got 'x'"):
            server.publish("a", account="x")


async def test_options_are_a_structure_keywords_or_both() -> None:
    given = midge.Options(server_name="shop")
    async with midge.Server(given, port=-1, max_payload=9) as server:
        assert server.options.server_name == "shop"
        assert server.options.limits.max_payload_bytes == 9
        await server.reload(max_payload=7)
        with pytest.raises(ValueError, match="at most 7 bytes"):
            server.publish("a", bytes(8))


@pytest.mark.parametrize("loop_factory", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_publish_request_and_a_client_on_either_loop(loop_factory: object) -> None:
    async def run() -> bytes:
        async with midge.Server(port=-1) as server:
            client = await SettlingClient.connected(server.url)
            server.subscribe("svc", lambda message: message.respond(message.payload) and None)
            answer = await client.request("svc", b"hello", timeout=30)
            await client.close()
            return bytes(answer.data) + (await server.request("svc", b"!", timeout_s=60)).payload

    with asyncio.Runner(loop_factory=loop_factory) as runner:  # type: ignore[arg-type]
        assert runner.run(run()) == b"hello!"


async def test_a_request_times_out() -> None:
    async with midge.Server(port=-1) as server:
        server.subscribe("silent")
        with pytest.raises(TimeoutError):
            await server.request("silent", timeout_s=0.01)
        assert [view.subject for view in server.subscriptions] == ["silent"]


async def test_views() -> None:
    async with midge.Server(port=-1, user="shop", password="se!cret") as server:
        client = await SettlingClient.connected(server.client_url("shop"), name="till")
        await client.subscribe("a", queue="q")
        await client.publish("b", b"12345")
        await client.flush()
        (connection,) = server.connections
        assert (connection.name, connection.user, connection.in_bytes) == ("till", "shop", 5)
        (subscription,) = server.subscriptions
        assert (subscription.subject, subscription.queue) == ("a", "q")
        assert subscription.client_name == "till"
        assert (server.stats.connections, server.stats.in_messages) == (1, 1)
        with pytest.raises(ValueError, match="expected one of 'shop', got 'x'"):
            server.client_url("x")
        await client.close()


async def test_a_token_is_in_the_client_url() -> None:
    async with midge.Server(port=-1, token="s3cret") as server:
        client = await SettlingClient.connected(server.client_url())
        await client.close()


async def test_servers_in_one_loop_are_apart() -> None:
    async with midge.Server(port=-1) as one, midge.Server(port=-1) as other:
        heard = other.subscribe(">")
        assert one.publish("a") == 0
        assert one.port != other.port
        assert heard.pending() == 0


@pytest.mark.parametrize("loop_factory", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_stopping_leaves_nothing(loop_factory: object) -> None:
    async def run() -> set[asyncio.Task[object]]:
        async with midge.Server(port=-1) as server:
            reader, writer = await asyncio.open_connection(server.host, server.port)
            await reader.readline()
            server.subscribe("a", lambda _: asyncio.sleep(3600))
            server.publish("a")
            await asyncio.sleep(0)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]

    descriptors, threads = Path("/proc/self/fd"), set(threading.enumerate())
    with asyncio.Runner(loop_factory=loop_factory) as runner:  # type: ignore[arg-type]
        runner.run(run())  # a loop keeps some descriptors of its own
        before = len(list(descriptors.iterdir()))
        assert runner.run(run()) == set()
        assert len(list(descriptors.iterdir())) == before
    assert set(threading.enumerate()) <= threads


async def test_a_connection_that_has_gone_is_let_go() -> None:
    """The cache of recent subjects does not keep closed clients alive."""

    async def come_and_go(server: midge.Server, number: int) -> None:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        await reader.readline()
        writer.write(b"CONNECT {}\r\nSUB a.%d 1\r\n" % number)
        # Twice, with others in between, because a repeated subject is remembered.
        writer.write(b"PUB a.%d 0\r\n\r\nPUB b 0\r\n\r\n" % number * 3 + b"PING\r\n")
        while await reader.readline() != b"PONG\r\n":
            pass
        writer.close()
        await writer.wait_closed()

    async with midge.Server(port=-1) as server:
        for number in range(20):
            await come_and_go(server, number)
        while server.connections:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        gc.collect()
        own = [one for one in gc.get_objects() if type(one) is Connection]
        assert [one for one in own if one.broker is server.broker] == []


async def test_a_server_can_start_again_on_its_port() -> None:
    server = midge.Server(port=-1)
    with pytest.raises(midge.MidgeError, match="not running"):
        server.publish("a")
    async with server:
        port = server.port
        with pytest.raises(midge.MidgeError, match="started already"):
            await server.start()
    async with midge.Server(port=port) as second:
        assert second.port == port


async def test_a_taken_port_is_an_error_and_leaves_nothing() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            await midge.Server(port=taken.getsockname()[1]).start()


def test_a_thread_serves_programs_without_a_loop() -> None:
    with midge.run_in_thread(port=-1) as server:
        heard: list[str] = []
        subscription = server.subscribe("x", lambda message: heard.append(message.text))
        assert server.publish("x", "1") == 1
        server.subscribe("svc", lambda message: message.respond(b"ok"))
        assert server.request("svc").payload == b"ok"
        assert heard == ["1"]
        server.unsubscribe(subscription)
        assert server.stats.subscriptions == 1
    server.stop()
    with pytest.raises(midge.MidgeError, match="after stop"):
        server.publish("x")
    assert "midge-server" not in [thread.name for thread in threading.enumerate()]


def test_what_a_thread_subscribes_to_may_be_read_there() -> None:
    with midge.run_in_thread(port=-1, accounts=[{"name": "SHOP"}]) as server:
        with server.subscribe("x.*", queue="q", account="SHOP", pending_max=2) as subscription:
            assert repr(subscription) == "<midge.ThreadedSubscription 'x.*' queue='q'>"
            assert server.publish("x.0") == 0
            taken = [server.publish(f"x.{n}", str(n), account="SHOP") for n in range(3)]
            assert (taken, subscription.pending(), subscription.dropped) == ([1, 1, 0], 2, 1)
            assert (subscription.next(5).text, subscription.next(5).text) == ("0", "1")
            with pytest.raises(TimeoutError, match="no message came in time"):
                subscription.next(0.01)
            server.publish("x.3", "3", account="SHOP")
            server.unsubscribe(subscription)
            assert [message.text for message in subscription] == ["3"]
        server.subscribe("y", lambda message: message.respond(b"ok"), account="SHOP")
        assert server.request("y", account="SHOP", timeout_s=60).payload == b"ok"
        with pytest.raises(midge.NoRespondersError):
            server.request("y")
        last = server.subscribe("z")
    last.unsubscribe()  # no harm
    assert repr(server) == "<midge.ThreadedServer stopped>"


def test_a_callback_in_the_servers_thread_may_use_the_server() -> None:
    faults: list[str] = []
    with midge.run_in_thread(port=-1) as server:

        def pass_on(message: midge.Message) -> None:
            for wrong in (server.stop, lambda: server.request("b")):
                with pytest.raises(midge.MidgeError) as caught:
                    wrong()
                faults.append(str(caught.value))
            server.publish("b", message.payload)

        ends = server.subscribe("b")
        server.subscribe("a", pass_on)
        server.publish("a", "1")
        assert ends.next(5).text == "1"
    assert faults == [
        "a threaded server cannot be stopped in its own thread",
        "a threaded server cannot be waited for in its own thread",
    ]


def test_a_server_in_a_thread_is_changed_from_outside() -> None:
    with midge.run_in_thread(port=-1) as server:
        assert repr(server) == f"<midge.ThreadedServer {server.url}>"
        assert server.host == "127.0.0.1"
        server.reload(max_payload=7)
        assert server.options.limits.max_payload_bytes == 7
        server.intercept(publish=lambda event: replace(event, payload=b"changed"))
        heard = server.subscribe("a")
        server.publish("a", "1")
        assert heard.next(5).text == "changed"
        with pytest.raises(AttributeError, match="no fault is called 'dorp'"):
            server.faults.dorp()  # type: ignore[attr-defined]
        server.lame_duck()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a b",), "subject: expected literal tokens separated by dots, got 'a b'"),
        ((None,), "subject: expected str or bytes, got NoneType"),
        (("a", {"k": 1}), "payload: expected bytes or str, got dict"),
        (("a", b"", {"k": 1}), "header k: expected str, or several of them, got int"),
        (("a", b"", {"k": [b"1"]}), "header k: expected str, or several of them, got bytes"),
        (("a", b"", None, "r.*"), "reply: expected literal tokens separated by dots, got 'r.*'"),
    ],
)
async def test_what_cannot_be_published_is_named(arguments: Any, message: str) -> None:
    async with midge.Server(port=-1) as server:
        server.subscribe("a")
        with pytest.raises((TypeError, ValueError)) as caught:
            server.publish(*arguments)
        assert str(caught.value) == message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: midge.Server("nats.conf"), "options: expected midge.Options, such as"),  # type: ignore[arg-type]
        (lambda: midge.Server(clock=3), "clock: expected a clock such as midge.testing"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_setting_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(midge.ConfigError, match=message):
        make()


async def test_options_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "nats.conf"
    file.write_text("port: 4222, max_payload: 1KB")
    async with midge.Server(midge.load_options(file), port=-1) as server:
        assert server.options.limits.max_payload_bytes == 1024
        assert server.port != 4222
    with pytest.raises(midge.ConfigError, match="no such file"):
        midge.load_options(str(tmp_path / "none.toml"))


async def test_urls_are_for_those_who_are_known() -> None:
    async with midge.Server(port=-1) as server:
        with pytest.raises(ValueError, match="user: expected none, for none is configured"):
            server.client_url("shop")


def test_a_server_that_cannot_start_in_a_thread_says_why() -> None:
    with midge.run_in_thread(port=-1) as first, pytest.raises(OSError, match="in use"):
        midge.run_in_thread(port=first.port)


FOLDERS = ["server", "protocol", "sublist", "jetstream", "testing", "client", "pipeline"]
"""The packages of midge, which lie at the top of its checkout."""


@pytest.mark.parametrize("name", [*FOLDERS, "tests", "bench"])
def test_a_package_of_the_users_own_is_left_alone(tmp_path: Path, root: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("MINE = 1\n")
    program = tmp_path / "program.py"
    lines = [f"import asyncio, {name} as own, midge", "async def main():"]
    lines += ["    async with midge.Server(port=-1) as s:"]
    lines += ["        assert own.MINE and s.url.startswith('nats://')"]
    if name in FOLDERS:
        lines.insert(1, f"import midge.{name}")
        lines += [f"        assert own is not midge.{name} and not hasattr(midge.{name}, 'MINE')"]
    program.write_text("\n".join([*lines, "asyncio.run(main())\n"]))
    environment = os.environ | {"PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, program], env=environment, timeout=50, check=False)
    assert done.returncode == 0


def test_packages_of_the_users_own_beside_the_plugin(tmp_path: Path, root: Path) -> None:
    for name in FOLDERS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("MINE = 1\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "__init__.py").touch()
    (tmp_path / "tests" / "test_it.py").write_text(
        f"import {', '.join(FOLDERS)}\n"
        "def test_it(nats_server, nats_capture):\n"
        "    nats_server.faults.duplicate('a')\n"
        "    nats_server.publish('a')\n"
        "    nats_capture.assert_published('a', count=2)\n"
        f"    assert all(one.MINE for one in ({', '.join(FOLDERS)}))\n"
    )
    plugin = ["-p", "no:midge", "-p", "midge.testing.plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, "-W", "ignore"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_importing_midge_imports_no_server() -> None:
    code = "import sys, midge; print([m for m in sys.modules if m.startswith('midge.')])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True
    )
    assert done.stdout.strip() == "[]"
    assert {"Server", "run_in_thread"} <= set(dir(midge))
    with pytest.raises(AttributeError, match="no attribute 'Servre'"):
        midge.Servre  # noqa: B018
