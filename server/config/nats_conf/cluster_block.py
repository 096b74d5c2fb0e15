"""The `cluster` block of a nats-server configuration."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from midge.protocol.errors import quote
from midge.server.config.nats_conf.leafnode_blocks import read_compression
from midge.server.config.nats_conf.sections import (
    Handler,
    IgnoredKey,
    Key,
    Section,
    read_listen,
    read_map,
    timed,
    timeout,
    write_timeout,
)
from midge.server.config.nats_conf.security_blocks import read_subjects
from midge.server.config.nats_conf.tls_block import read_tls
from midge.server.config.nats_conf.values import (
    boolean,
    entries,
    fail,
    integer,
    items,
    limit,
    secret,
    show,
    text,
    texts,
)

if TYPE_CHECKING:
    from midge.server.config.nats_conf.parser import ConfNode

PING_INTERVAL_MAX_S = 30.0
"""Longest time between PINGs on a route."""

_RESPONSES = ("allow_responses", "publish_allow_responses")
_BAD_ESCAPE = r"%(?![0-9A-Fa-f]{2})|\s"


def _name(section: Section, node: ConfNode) -> None:
    if any(character.isspace() for character in text(node)):
        fail(node, "cluster name cannot contain spaces")
    section.put("name", text(node), node)


def _routes(section: Section, node: ConfNode) -> None:
    """Read the URLs of other servers; one that is there twice is there once."""
    urls: dict[str, None] = {}
    for entry in items(node):
        url = text(entry)
        if re.search(_BAD_ESCAPE, url):
            fail(entry, f"error parsing route url [{quote(url.encode())}]")
        if url in urls:
            section.warn(entry, f'invalid use of field "{url}": Duplicate route entry detected')
        urls[url] = None
    section.put("routes", list(urls), node)


def _authorization(section: Section, node: ConfNode) -> None:
    """Read the credentials that other servers must present."""
    for name, entry in entries(node).items():
        if name.lower() == "users":
            fail(node, "Cluster authorization does not allow multiple users")
        if name.lower() == "token":
            fail(node, "Cluster authorization does not support tokens")
        if name.lower() in {"permissions", "default_permissions", "default_permission"}:
            section.warn(
                node,
                'invalid use of field "authorization": setting "permissions" within cluster'
                " authorization block is deprecated",
            )
            if "permissions" not in section.values:
                _permissions(section, entry)
    read_map(node, section.table("authorization", node), CLUSTER_AUTHORIZATION)


def _permissions(section: Section, node: ConfNode) -> None:
    """Read which interest crosses routes."""
    for name, entry in entries(node).items():
        if name.lower() in _RESPONSES and entry.value is not False:
            fail(node, "Cluster permissions do not support dynamic responses")
    read_map(node, section.table("permissions", node), CLUSTER_PERMISSIONS)


def _ignore(_section: Section, _node: ConfNode) -> None:
    """Leave it to the handler of the whole block."""


def _ping_interval(section: Section, node: ConfNode) -> None:
    timed("ping_interval_s", "ping_interval")(section, node)
    if section.values.get("ping_interval_s", 0) > PING_INTERVAL_MAX_S:
        section.warn(node, "Cluster 'ping_interval' will reset to 30s which is the max for routes")
        section.put("ping_interval_s", PING_INTERVAL_MAX_S, node)


CLUSTER_AUTHORIZATION: dict[str, Handler] = {
    "user": Key("user", text),
    "username": Key("user", text),
    "pass": Key("password", secret),
    "password": Key("password", secret),
    "timeout": timeout("timeout_s", warns=True),
    "permissions": _ignore,
    "default_permissions": _ignore,
    "default_permission": _ignore,
}

CLUSTER_PERMISSIONS: dict[str, Handler] = {
    **dict.fromkeys(("publish", "pub", "import"), partial(read_subjects, "imports")),
    **dict.fromkeys(("subscribe", "sub", "export"), partial(read_subjects, "exports")),
    **dict.fromkeys(_RESPONSES, _ignore),
}

CLUSTER: dict[str, Handler] = {
    "name": _name,
    "listen": read_listen,
    "port": Key("port", integer),
    "host": Key("host", text),
    "net": Key("host", text),
    "authorization": _authorization,
    "routes": _routes,
    "tls": read_tls,
    "cluster_advertise": Key("advertise", text),
    "advertise": Key("advertise", text),
    "no_advertise": Key("no_advertise", boolean),
    "connect_retries": Key("connect_retries", limit),
    "connect_backoff": Key("connect_backoff", boolean),
    "permissions": _permissions,
    "pool_size": Key("pool_size", integer),
    "accounts": Key("accounts", texts),
    "compression": read_compression("s2_fast"),
    "ping_interval": _ping_interval,
    "ping_max": IgnoredKey("keepalive.ping_max holds", integer, (0,)),
    "write_deadline": timed("write_deadline_s", "write_deadline"),
    "write_timeout": Key("write_timeout_policy", write_timeout),
}


def read_cluster(section: Section, node: ConfNode) -> None:
    """Read the block."""
    if not isinstance(node.value, dict):
        fail(node, f"Expected map to define cluster, got {show(node)}")
    read_map(node, section.table("cluster", node), CLUSTER)
