"""What a reload changes of routes, and what it leaves alone."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from midge.protocol.route_messages import RouteInfo
from midge.server.config.options import (
    ClusterAuthorization,
    ClusterPermissions,
    Limits,
)
from midge.server.errors import ConfigError
from midge.server.peers import dialler
from midge.server.routing.subscription import RoutedSubscription
from tests.support.cluster_servers import only, options, routes, told, url
from tests.support.clusters import Peer
from tests.support.leafnodes import until
from tests.support.served import serving


async def test_routes_come_and_go_and_the_others_stay() -> None:
    async with serving(options("A"), options("B"), options("C")) as (first, second, third):
        await first.reload(options("A", routes=(url(second),)))
        await until(lambda: list(routes(first)) == ["B"])
        link = routes(first)["B"]
        await first.reload(options("A", routes=(url(third), url(second))))
        await until(lambda: set(routes(first)) == {"B", "C"})
        await until(lambda: set(routes(second)) == {"A", "C"})
        assert routes(first)["B"] is link
        await first.reload(options("A", routes=(url(second),)))
        await until(lambda: "C" not in routes(first))
        assert routes(first)["B"] is link
        with pytest.raises(ConfigError, match=r"cluster\.routes\[0\]"):
            await first.reload(options("A", routes=("http://x",)))
        assert routes(first)["B"] is link


async def test_a_removed_route_is_ended_even_if_the_other_server_has_opened_it() -> None:
    async with serving(options("A"), options("B")) as (first, second):
        await first.reload(options("A", routes=(url(second),)))
        await until(lambda: "B" in routes(first) and "A" in routes(second))
        await second.reload(options("B", routes=(url(first),)))
        service = second._cluster
        assert service is not None
        await until(lambda: any(one.server_id == first.server_id for one in service.diallers))
        await second.reload(options("B"))
        await until(lambda: not service.diallers)
        assert not routes(second)


async def test_another_password_ends_the_routes_of_those_who_connected_with_the_old_one() -> None:
    old, new = (ClusterAuthorization(user="u", password=word) for word in ("old", "new"))
    dialling = options("B", routes=("nats-route://127.0.0.1:1",), authorization=old)
    async with serving(options("A", authorization=old), dialling) as (first, second):
        await second.reload(options("B", routes=(url(first),), authorization=old))
        await until(lambda: "B" in routes(first) and "A" in routes(second))
        link = routes(first)["B"]
        await first.reload(options("A", authorization=old, ping_interval_s=7.0))
        assert routes(first)["B"] is link
        assert link.channel.keepalive.interval_s == 7.0
        await second.reload(options("B", routes=(url(first),), authorization=new))
        assert routes(first)["B"] is link, "who has connected is not asked"
        await first.reload(options("A", authorization=new))
        await until(lambda: link.reason is not None)
        await until(lambda: "B" in routes(first))


async def test_permissions_change_under_a_route() -> None:
    async with serving(options("A"), options("B")) as (first, second):
        await second.reload(options("B", routes=(url(first),)))
        await until(lambda: "B" in routes(first) and "A" in routes(second))
        link = routes(first)["B"]
        for server, kept in ((first, b"in.x"), (second, b"out.x")):
            for subject in (kept, b"other." + kept):
                server.broker.account("$G").add(RoutedSubscription(subject))
        await until(lambda: told(second, "A") == {b"in.x", b"other.in.x"})
        await until(lambda: told(first, "B") == {b"out.x", b"other.out.x"})
        narrow = ClusterPermissions(imports=only("in.>"), exports=only("out.>"))
        await first.reload(options("A", permissions=narrow))
        assert told(first, "B") == {b"out.x"}
        await until(lambda: told(second, "A") == {b"in.x"})
        second.broker.account("$G").add(RoutedSubscription(b"other.late"))
        await first.reload(options("A"))
        await until(lambda: told(first, "B") == {b"out.x", b"other.out.x", b"other.late"})
        await until(lambda: told(second, "A") == {b"in.x", b"other.in.x"})
        assert routes(first)["B"] is link


async def test_what_other_servers_take_is_told_and_what_is_no_subject_ends_a_route() -> None:
    rules = ClusterPermissions(imports=only("in.>"), exports=only("out.>"))
    async with serving(options("A", permissions=rules)) as (server,):
        peer = await Peer.dial(int(url(server).rpartition(":")[2]))
        try:
            assert peer.info["import"] == {"allow": ["in.>"]}
            assert peer.info["export"] == {"allow": ["out.>"]}
            peer.connect()
            peer.introduce(export={"allow": ["in.x"]})
            await peer.settle()
            account = server.broker.account("$G")
            for subject in (b"in.x", b"in.y", b"z"):
                account.add(RoutedSubscription(subject))
            server.broker.router.flush()
            assert await peer.settle() == ["RS+ $G in.x"]
            peer.introduce(export={"allow": ["in.>"]})
            assert await peer.settle() == ["RS+ $G in.y"]
            peer.introduce(export={"allow": ["in..x"]})
            await peer.rest()
        finally:
            await peer.close()


async def test_the_name_and_the_limits_are_new_for_what_comes() -> None:
    async with serving(options("A"), options("B")) as (first, second):
        await second.reload(options("B", routes=(url(first),)))
        await until(lambda: "B" in routes(first))
        link = routes(first)["B"]
        service = first._cluster
        assert service is not None
        limited = Limits(max_subscriptions=7, max_payload_bytes=100)
        await first.reload(options("A", limited, name="D1"))
        assert (service.name, service.is_dynamic) == ("D1", False)
        assert routes(first)["B"] is link
        assert (link.announced.max_size, link.parser.max_payload) == (7, 100)
        await first.reload(options("A", name=""))
        assert (service.name, service.is_dynamic) == ("D1", True)


@pytest.mark.parametrize("is_told_again", [False, True])
async def test_a_server_that_is_told_of_before_it_is_there_is_tried_again(
    is_told_again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialler, "RECONNECT_S", 0.05)
    if is_told_again:
        monkeypatch.setattr(dialler, "GOSSIPED_RETRIES_MIN", 0)
    dial, failed = dialler.dial, asyncio.Event()

    async def noting(*where: Any) -> socket.socket:
        try:
            return await dial(*where)
        except OSError:
            if is_told_again and not failed.is_set():
                service.discovered(told_of)
            failed.set()
            raise

    monkeypatch.setattr(dialler, "dial", noting)
    async with serving(options("A", connect_retries=0)) as (first,):
        service = first._cluster
        assert service is not None
        with socket.socket() as place:
            place.bind(("127.0.0.1", 0))
            port = place.getsockname()[1]
            told_of = RouteInfo(server_id="NB", ip=f"nats-route://127.0.0.1:{port}/")
            service.discovered(told_of)
            await failed.wait()
        async with serving(options("B", port=port)):
            await until(lambda: "B" in routes(first))


async def test_a_server_that_is_never_there_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialler, "RECONNECT_S", 0.0)
    monkeypatch.setattr(dialler, "RECONNECT_SPREAD_S", 0.0)
    async with serving(options("A", connect_retries=0)) as (first,):
        service = first._cluster
        assert service is not None
        service.discovered(RouteInfo(server_id="NB", ip="nats-route://127.0.0.1:1/"))
        await until(lambda: not list(service.live_diallers()))
