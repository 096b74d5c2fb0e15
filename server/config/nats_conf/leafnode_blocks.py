"""The `leafnodes` block of a nats-server configuration."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from midge.protocol.errors import quote
from midge.server.config.nats_conf.sections import (
    Handler,
    Key,
    Missing,
    Section,
    read_map,
    timed,
    timeout,
)
from midge.server.config.nats_conf.security_blocks import read_tls
from midge.server.config.nats_conf.values import (
    address,
    boolean,
    fail,
    integer,
    items,
    secret,
    show,
    text,
    texts,
)

if TYPE_CHECKING:
    from midge.server.config.nats_conf.parser import Node

_BAD_ESCAPE = r"%(?![0-9A-Fa-f]{2})|\s"
_PUBLIC_KEY = r"U[A-Z2-7]{55}"
_SEED = r"SU[A-Z2-7]{56}"
_COMPRESSION_OFF = {"off", "disabled", "accept", "auto", "s2_auto"}


def _urls(section: Section, node: Node) -> None:
    """Read the URL, or the URLs, of a remote."""
    if not isinstance(node.value, str | list):
        fail(node, f"Expected remote leafnode url to be an array or string, got {node.value}")
    urls = texts(node)
    for url in urls:
        if re.search(_BAD_ESCAPE, url):
            fail(node, f"error parsing leafnode url [{quote(url.encode())}]")
    section.put("urls", urls, node)


def _seed(section: Section, node: Node) -> None:
    """Read a user's seed."""
    seed = secret(node)
    if not re.fullmatch(_SEED, seed):
        fail(node, "Remote leafnode nkey is not a valid seed")
    if "credentials" in section.values:
        fail(node, "Remote leafnode can not have both creds and nkey defined")
    section.put("nkey_seed", seed, node)


def _credentials(section: Section, node: Node) -> None:
    """Read the path of a credentials file."""
    if "nkey_seed" in section.values:
        fail(node, "Remote leafnode can not have both creds and nkey defined")
    section.put("credentials", text(node), node)


def read_compression(_: Section, node: Node) -> None:
    """Accept what comes to no compression of a link."""
    value = node.value
    mode = value.get("mode") if isinstance(value, dict) else node
    word = mode.value if mode is not None else "off"
    if isinstance(word, str):
        word = word.lower()
    if word not in _COMPRESSION_OFF and not isinstance(word, bool):
        fail(node, f'field "compression": midge does not support {show(node)}, links are not S2')


def _remote_tls(section: Section, node: Node) -> None:
    """Read the `tls` block of a remote, which is for a client."""
    tls = section.table("tls", node)
    tls.put("required", True, node)
    read_map(node, tls, REMOTE_TLS)


def _handshake_first(section: Section, node: Node) -> None:
    section.put("handshake_first", boolean(node), node)


def _verify(_: Section, node: Node) -> None:
    """Accept what only means something to a listener."""
    boolean(node)


REMOTE_TLS: dict[str, Handler] = {
    "cert_file": Key("cert_file", text),
    "key_file": Key("key_file", text),
    "ca_file": Key("ca_file", text),
    "insecure": Key("insecure", boolean),
    "timeout": timeout("timeout_s"),
    "handshake_first": _handshake_first,
    "first": _handshake_first,
    "immediate": _handshake_first,
    "verify": _verify,
}

REMOTE: dict[str, Handler] = {
    "no_randomize": Key("no_randomize", boolean),
    "dont_randomize": Key("no_randomize", boolean),
    "url": _urls,
    "urls": _urls,
    "account": Key("account", text),
    "local": Key("account", text),
    "creds": _credentials,
    "credentials": _credentials,
    "nkey": _seed,
    "seed": _seed,
    "tls": _remote_tls,
    "hub": Key("hub", boolean),
    "deny_imports": Key("deny_imports", texts),
    "deny_import": Key("deny_imports", texts),
    "deny_exports": Key("deny_exports", texts),
    "deny_export": Key("deny_exports", texts),
    "ws_compress": Key("ws_compression", boolean),
    "ws_compression": Key("ws_compression", boolean),
    "websocket_compress": Key("ws_compression", boolean),
    "websocket_compression": Key("ws_compression", boolean),
    "ws_no_masking": Key("ws_no_masking", boolean),
    "websocket_no_masking": Key("ws_no_masking", boolean),
    "jetstream_cluster_migrate": Missing("replicated streams"),
    "js_cluster_migrate": Missing("replicated streams"),
    "isolate_leafnode_interest": Missing("isolated interest"),
    "isolate": Missing("isolated interest"),
    "request_isolation": Missing("isolated interest"),
    "compression": read_compression,
    "first_info_timeout": timed("first_info_timeout_s", "first_info_timeout"),
    "dial_timeout": timed("dial_timeout_s", "dial_timeout"),
    "ignore_discovered_servers": Key("ignore_discovered_servers", boolean),
    "disabled": Key("disabled", boolean),
    "proxy": Missing("HTTP proxies"),
}


def _listen(section: Section, node: Node) -> None:
    host, number = address(node)
    if host is not None:
        section.put("host", host, node)
    section.put("port", number, node)


def _public_nkey(section: Section, node: Node) -> None:
    """Read the public key of the only user."""
    if not re.fullmatch(_PUBLIC_KEY, text(node)):
        fail(node, "Not a valid public nkey for leafnode authorization")
    section.put("nkey", text(node), node)


def _users(section: Section, node: Node) -> None:
    """Read the users, one map each."""
    if "user" in section.values:
        fail(node, "can not have a single user/pass and a users array")
    for entry in items(node):
        read_map(entry, section.append("users", entry), LEAF_USER)


def _authorization(section: Section, node: Node) -> None:
    """Read who may connect as a leaf node."""
    read_map(node, section.table("authorization", node), LEAF_AUTHORIZATION)


def _remotes(section: Section, node: Node) -> None:
    """Read the remotes, one map each."""
    if not isinstance(node.value, list):
        fail(node, f"Expected remotes field to be an array, got {show(node)}")
    for entry in items(node):
        if not isinstance(entry.value, dict):
            fail(entry, "Expected remote leafnode entry to be a map/struct")
        read_map(entry, section.append("remotes", entry), REMOTE)


LEAF_USER: dict[str, Handler] = {
    "user": Key("user", text),
    "username": Key("user", text),
    "pass": Key("password", secret),
    "password": Key("password", secret),
    "account": Key("account", text),
    "proxy_required": Missing("trusted proxies"),
}

LEAF_AUTHORIZATION: dict[str, Handler] = {
    "user": Key("user", text),
    "username": Key("user", text),
    "pass": Key("password", secret),
    "password": Key("password", secret),
    "nkey": _public_nkey,
    "account": Key("account", text),
    "users": _users,
    "timeout": timeout("timeout_s", warns=True),
    "proxy_required": Missing("trusted proxies"),
}

LEAFNODES: dict[str, Handler] = {
    "listen": _listen,
    "port": Key("port", integer),
    "host": Key("host", text),
    "net": Key("host", text),
    "authorization": _authorization,
    "tls": read_tls,
    "advertise": Key("advertise", text),
    "no_advertise": Key("no_advertise", boolean),
    "min_version": Key("min_version", text),
    "isolate_leafnode_interest": Key("isolate_interest", boolean),
    "isolate": Key("isolate_interest", boolean),
    "write_deadline": Missing("a write deadline of links alone"),
    "write_timeout": Missing("a write deadline of links alone"),
    **dict.fromkeys(
        ("reconnect", "reconnect_delay", "reconnect_interval"), timed("reconnect_s", "reconnect")
    ),
    "compression": read_compression,
    "remotes": _remotes,
}


def read_leafnodes(section: Section, node: Node) -> None:
    """Read the block."""
    if not isinstance(node.value, dict):
        fail(node, f"Expected map to define a leafnode, got {show(node)}")
    read_map(node, section.table("leafnodes", node), LEAFNODES)
