"""JetStream during a reload of the configuration: limits, accounts, on and off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nats
import pytest
from nats.errors import NoRespondersError
from nats.js.errors import ServiceUnavailableError

from midge.server.config.options import (
    Account,
    AccountJetStream,
    Authorization,
    JetStream,
    JetStreamLimits,
    Listen,
    Options,
    User,
)
from midge.server.errors import ConfigError
from midge.server.server import Server

MIB = 1 << 20


def url(server: Server) -> str:
    return f"nats://127.0.0.1:{server.broker.port}"


def options(path: Path, account: AccountJetStream | None = None, **jetstream: Any) -> Options:
    table = JetStream(**{"enabled": True, "store_dir": str(path), **jetstream})
    own = AccountJetStream(enabled=True) if account is None else account
    user = User(user="a", password="a")
    return Options(
        listen=Listen(port=-1),
        jetstream=table,
        accounts=(Account(name="A", jetstream=own, users=(user,)),),
        authorization=Authorization(no_auth_user="a"),
    )


@pytest.fixture
async def server(tmp_path: Path) -> Any:
    server = Server(options(tmp_path, max_memory_bytes=MIB, max_file_bytes=MIB))
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def client(server: Server) -> Any:
    client = await nats.connect(url(server))
    yield client
    await client.close()


async def test_limits_may_be_raised(server: Server, client: Any, tmp_path: Path) -> None:
    js = client.jetstream()
    with pytest.raises(nats.js.errors.ServerError, match="insufficient storage"):
        await js.add_stream(name="S", max_bytes=2 * MIB)
    await server.reload(options(tmp_path, max_memory_bytes=MIB, max_file_bytes=4 * MIB))
    await js.add_stream(name="S", max_bytes=2 * MIB)
    limits = JetStreamLimits(max_ack_pending=5)
    await server.reload(
        options(tmp_path, max_memory_bytes=MIB, max_file_bytes=4 * MIB, limits=limits)
    )
    info = await js.add_consumer("S", durable_name="c", ack_policy="explicit")
    assert info.config.max_ack_pending == 5


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"max_file_bytes": MIB // 2}, "decreasing jetstream max memory and store"),
        ({"max_file_bytes": -1}, "jetstream max memory and max store"),
        ({"store_dir": "/elsewhere"}, "jetstream.store_dir: "),
        ({"sync_interval": "1m"}, 'jetstream.sync_interval: old="always", new="1m"'),
        ({"encryption_key": "x"}, "jetstream.encryption_key: "),
        ({"domain": "D"}, "jetstream.domain: "),
    ],
)
async def test_what_is_refused_changes_nothing(
    server: Server, tmp_path: Path, changed: dict[str, Any], text: str
) -> None:
    table = {"max_memory_bytes": MIB, "max_file_bytes": MIB, **changed}
    with pytest.raises(ConfigError, match=f"config reload not supported for {text}"):
        await server.reload(options(tmp_path, **table))
    assert server.jetstream is not None
    assert server.jetstream.context.limits.max_storage == MIB


async def test_jetstream_off_and_on(server: Server, client: Any, tmp_path: Path) -> None:
    js = client.jetstream()
    await js.add_stream(name="S", subjects=["s"])
    await js.publish("s", b"1")
    await server.reload(options(tmp_path, enabled=False))
    with pytest.raises(NoRespondersError):
        await client.request("$JS.API.INFO", b"")
    await server.reload(options(tmp_path))
    await js.publish("s", b"2")
    assert (await js.stream_info("S")).state.messages == 2


async def test_jetstream_is_not_turned_on_where_it_cannot_be(
    server: Server, client: Any, tmp_path: Path
) -> None:
    """The whole reload is refused, so that a better one is taken."""
    await server.reload(options(tmp_path, enabled=False))
    file, newer = tmp_path / "file", tmp_path / "newer"
    file.touch()
    (newer / "jetstream").mkdir(parents=True)
    (newer / "jetstream" / "store.a").write_bytes(b"midge store\n9\nab\nd66ec337\n")
    for place, text in ((file, "storage directory is not a directory"), (newer, "of format 9")):
        with pytest.raises(ConfigError, match=f"jetstream.store_dir: .*{text}"):
            await server.reload(options(place))
        with pytest.raises(NoRespondersError):
            await client.request("$JS.API.INFO", b"")
        assert not server.options.jetstream.enabled
    await server.reload(options(tmp_path))
    await client.jetstream().add_stream(name="S", subjects=["s"])


async def test_an_account_without_jetstream_and_with_it_again(
    server: Server, client: Any, tmp_path: Path
) -> None:
    js = client.jetstream()
    limits = {"max_memory_bytes": MIB, "max_file_bytes": MIB}
    await js.add_stream(name="S", subjects=["s"], max_bytes=MIB)
    await js.publish("s", b"1")
    await js.add_consumer("S", durable_name="c", ack_policy="explicit")
    (message,) = await (await js.pull_subscribe_bind("c", "S")).fetch(1)
    await message.ack_sync()
    await server.reload(options(tmp_path, AccountJetStream(), **limits))
    with pytest.raises(ServiceUnavailableError, match="not enabled for account"):
        await js.account_info()
    with pytest.raises(nats.js.errors.NoStreamResponseError):
        await js.publish("s", b"2")
    await server.reload(options(tmp_path, AccountJetStream(enabled=True, max_streams=1), **limits))
    await js.publish("s", b"3")
    info = await js.stream_info("S")
    assert (info.state.messages, info.state.last_seq) == (2, 2)
    assert (await js.consumer_info("S", "c")).ack_floor.stream_seq == 1
    assert (await js.account_info()).limits.max_streams == 1
    assert server.jetstream is not None
    assert server.jetstream.context.limits.reserved_storage == MIB
    await js.delete_stream("S")
    assert server.jetstream.context.storage.used == 0


async def test_streams_of_an_account_without_jetstream_rest(
    server: Server, client: Any, tmp_path: Path
) -> None:
    """A start does not take them up, and they are there when the account may have them again."""
    await client.jetstream().add_stream(name="S", subjects=["s"])
    await client.jetstream().publish("s", b"1")
    await server.stop()
    for account, messages in ((AccountJetStream(), None), (AccountJetStream(enabled=True), 1)):
        again = Server(options(tmp_path, account))
        await again.start()
        other = await nats.connect(url(again))
        if messages is None:
            with pytest.raises(NoRespondersError):
                await other.request("s", b"2")
        else:
            assert (await other.jetstream().stream_info("S")).state.messages == messages
        await other.close()
        await again.stop()
