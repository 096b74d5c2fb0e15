"""The effect of a reload on connected clients."""

from pathlib import Path

import pytest

from midge.server.config.options import Account, Keepalive, Limits, Listen, Options, Tls, WebSocket
from midge.server.errors import ConfigError
from midge.server.monitoring.accounts import known_accounts
from midge.server.server import Server
from midge.testing import SettlingClient
from tests.support.keys import Authority, pem


async def test_an_account_that_a_reload_removes_is_no_longer_listed() -> None:
    one, other = Account(name="A"), Account(name="B")
    server = Server(Options(listen=Listen(port=-1), accounts=(one, other)))
    await server.start()
    try:
        for name in ("A", "B"):
            server.broker.account(name)
        assert sorted(known_accounts(server.broker)) == ["$G", "$SYS", "A", "B"]
        await server.reload(Options(listen=Listen(port=-1), accounts=(one,)))
        assert sorted(known_accounts(server.broker)) == ["$G", "$SYS", "A"]
        await server.reload(Options(listen=Listen(port=-1), accounts=(one, other)))
        assert sorted(known_accounts(server.broker)) == ["$G", "$SYS", "A", "B"]
    finally:
        await server.stop()


async def test_limits_hold_for_those_who_are_there() -> None:
    server = Server(Options(listen=Listen(port=-1)))
    await server.start()
    url = server.urls()["nats"][0]
    closed = []

    async def note() -> None:
        closed.append(True)

    async def ignore(error: Exception) -> None:
        """The client logs it otherwise."""

    first = await SettlingClient.connected(url, allow_reconnect=False)
    second = await SettlingClient.connected(
        url, allow_reconnect=False, closed_cb=note, error_cb=ignore
    )
    try:
        await server.reload(
            Options(
                listen=Listen(port=-1),
                limits=Limits(max_connections=1, max_payload_bytes=100, max_closed_clients=7),
                keepalive=Keepalive(ping_interval_s=7, ping_max=9),
            )
        )
        (left,) = server.connections()
        assert left.cid == first._client_id
        assert left.parser.max_payload == 100
        assert (left.channel.keepalive.interval_s, left.channel.keepalive.ping_max) == (7, 9)
        assert server.broker.closed.max_count == 7
        (closed_client,) = server.broker.closed
        assert closed_client.reason == "Maximum Connections Exceeded"
        await first.flush()
    finally:
        await first.close()
        await second.close()
        await server.stop()
    assert closed


async def test_what_must_stay_is_refused_and_nothing_changes() -> None:
    server = Server(Options(listen=Listen(port=-1)))
    await server.start()
    try:
        with pytest.raises(ConfigError, match=r"listen\.port"):
            await server.reload(Options(listen=Listen(port=4999), limits=Limits(max_connections=1)))
        assert server.options.limits.max_connections == 65536
    finally:
        await server.stop()


async def test_no_listener_takes_new_certificates_when_those_of_another_are_bad(
    tmp_path: Path,
) -> None:
    certificate, key = Authority().issue("CN=server")
    (tmp_path / "cert.pem").write_bytes(pem(certificate))
    (tmp_path / "key.pem").write_bytes(key)
    good = Tls(cert_file=str(tmp_path / "cert.pem"), key_file=str(tmp_path / "key.pem"))
    bad = Tls(cert_file=str(tmp_path / "none.pem"), key_file=good.key_file)
    listen = Listen(port=-1)
    server = Server(Options(listen=listen, tls=good, websocket=WebSocket(port=-1, tls=good)))
    await server.start()
    try:
        assert server._tls is not None
        before = server._tls.context
        with pytest.raises(ConfigError, match=r"none\.pem"):
            await server.reload(
                Options(listen=listen, tls=good, websocket=WebSocket(port=-1, tls=bad))
            )
        assert server._tls.context is before
        await server.reload(server.options)
        assert server._tls.context is not before
    finally:
        await server.stop()
