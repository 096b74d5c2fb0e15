"""Servers of a cluster within the test's own process."""

from __future__ import annotations

from typing import Any

from midge.server.config.options import Cluster, Limits, Listen, Options, SubjectPermissions
from midge.server.peers.link import Link
from midge.server.server import Server


def options(server: str, limits: Limits | None = None, **cluster: Any) -> Options:
    table = Cluster(**{"name": "C1", "port": -1, "connect_retries": 50, **cluster})
    listen = Listen(port=-1)
    return Options(server_name=server, listen=listen, cluster=table, limits=limits or Limits())


def only(*allow: str) -> SubjectPermissions:
    return SubjectPermissions(allow=allow)


def url(server: Server, login: str = "") -> str:
    (known,) = server.urls()["cluster"]
    return known.replace("://", f"://{login}")


def routes(server: Server) -> dict[str, Link]:
    """The routes that are up, by the name of the other server."""
    service = server._cluster
    assert service is not None
    return {link.name: link for link in service.routes.values()}


def told(server: Server, other: str) -> set[bytes]:
    """What interest in the global account `server` knows of from `other`."""
    branch = routes(server)[other].commands.branches.get(b"$G")
    known = () if branch is None else branch.interest
    return {one.subject for one in known if not one.subject.startswith(b"$")}
