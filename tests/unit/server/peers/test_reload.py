"""What a reload changes of leaf nodes, and what it leaves alone."""

from __future__ import annotations

import pytest
from msgspec import structs

from midge.server.config.options import (
    Account,
    LeafAuthorization,
    LeafNodes,
    LeafRemote,
    LeafUser,
    Listen,
    Options,
    Permissions,
    SubjectPermissions,
)
from midge.server.errors import ConfigError
from midge.server.peers.link import Link
from midge.server.routing.subscription import RoutedSubscription
from midge.server.server import Server
from tests.support.leafnodes import until
from tests.support.served import serving

ACCOUNTS = (Account(name="A"), Account(name="B"))


def users(*names: str, allowed: str = "") -> LeafAuthorization:
    permissions = None
    if allowed:
        subjects = SubjectPermissions(allow=(allowed,))
        permissions = Permissions(publish=subjects, subscribe=subjects)
    return LeafAuthorization(
        users=tuple(
            LeafUser(user=name, password="pw", account="A", permissions=permissions)
            for name in names
        )
    )


def options(**leafnodes: object) -> Options:
    return Options(
        listen=Listen(port=-1),
        accounts=ACCOUNTS,
        leafnodes=LeafNodes(reconnect_s=0.02, **leafnodes),
    )


def remote(hub: Server, user: str = "u", account: str = "A", **keys: object) -> LeafRemote:
    (url,) = hub.urls()["leafnodes"]
    return LeafRemote(urls=(url,), user=user, password="pw", account=account, **keys)


def links_of(server: Server) -> dict[str, Link]:
    """The links that are up, by account."""
    service = server._leafnodes
    return {} if service is None else {one.account.name: one for one in service.links.values()}


async def test_remotes_come_and_go_and_the_others_stay() -> None:
    async with serving(options(port=-1, authorization=users("u", "v")), options()) as (hub, leaf):
        first, second = remote(hub), remote(hub, "v", "B")
        await leaf.reload(options(remotes=(first,)))
        await until(lambda: "A" in links_of(leaf))
        link = links_of(leaf)["A"]
        await leaf.reload(options(remotes=(second, first)))
        await until(lambda: "B" in links_of(leaf))
        assert links_of(leaf)["A"] is link
        await leaf.reload(options(remotes=(structs.replace(second, disabled=True), first)))
        await until(lambda: list(links_of(leaf)) == ["A"])
        assert links_of(leaf)["A"] is link
        await leaf.reload(options(remotes=(structs.replace(first, deny_imports=("x",)),)))
        await until(lambda: links_of(leaf).get("A", link) is not link)
        await leaf.reload(options())
        await until(lambda: not links_of(leaf))
        await until(lambda: not links_of(hub))


async def test_another_certificate_is_for_the_next_connection() -> None:
    async with serving(options(port=-1, authorization=users("u")), options()) as (hub, leaf):
        await leaf.reload(options(remotes=(remote(hub),)))
        await until(lambda: links_of(leaf))
        link = links_of(leaf)["A"]
        tls = structs.replace(remote(hub).tls, insecure=True)
        await leaf.reload(options(remotes=(remote(hub, tls=tls),)))
        assert links_of(leaf)["A"] is link
        wrong = structs.replace(tls, ca_file="/nowhere")
        with pytest.raises(ConfigError, match=r"remotes\[0\]\.tls\.ca_file"):
            await leaf.reload(options(remotes=(remote(hub, tls=wrong),)))
        with pytest.raises(ConfigError, match=r"remotes\[0\]\.urls"):
            await leaf.reload(options(remotes=(LeafRemote(urls=("http://x",)),)))
        assert links_of(leaf)["A"] is link


async def test_a_user_that_is_gone_loses_its_link() -> None:
    async with serving(options(port=-1, authorization=users("u", "v")), options()) as (hub, leaf):
        await leaf.reload(options(remotes=(remote(hub), remote(hub, "v", "B"))))
        await until(lambda: len(links_of(leaf)) == 2)
        link = links_of(leaf)["B"]
        await hub.reload(options(port=-1, authorization=users("v")))
        await until(lambda: list(links_of(leaf)) == ["B"])
        assert links_of(leaf)["B"] is link
        await hub.reload(options(port=-1, authorization=users("u", "v")))
        await until(lambda: len(links_of(leaf)) == 2)


async def test_permissions_change_under_a_link() -> None:
    async with serving(options(port=-1, authorization=users("u")), options()) as (hub, leaf):
        await leaf.reload(options(remotes=(remote(hub),)))
        await until(lambda: links_of(leaf))
        link = links_of(leaf)["A"]
        account = leaf.broker.account("A")
        kept, lost = (RoutedSubscription(subject) for subject in (b"in.x", b"out.x"))
        account.add(kept)
        account.add(lost)

        def told() -> set[bytes]:
            (known,) = links_of(hub).values()
            return {
                one.subject for one in known.list_interest(100) if not one.subject.startswith(b"$")
            }

        await until(lambda: told() == {b"in.x", b"out.x"})
        await hub.reload(options(port=-1, authorization=users("u", allowed="in.>")))
        await until(lambda: told() == {b"in.x"})
        await hub.reload(options(port=-1, authorization=users("u", allowed=">")))
        await until(lambda: told() == {b"in.x", b"out.x"})
        assert links_of(leaf)["A"] is link


async def test_the_port_stays_where_it_is() -> None:
    async with serving(options(port=-1)) as (hub,):
        for other in (options(port=0), options(port=7422), options(port=-1, host="0.0.0.0")):
            with pytest.raises(ConfigError, match=r"leafnodes\."):
                await hub.reload(other)
        await hub.reload(options(port=-1, isolate_interest=True, min_version="2.10.0"))
