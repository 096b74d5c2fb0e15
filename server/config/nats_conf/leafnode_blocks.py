"""The `leafnodes` block of a nats-server configuration."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from midge.protocol.errors import quote
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
from midge.server.config.nats_conf.tls_block import CLIENT_TLS, read_tls
from midge.server.config.nats_conf.values import (
    boolean,
    duration,
    entries,
    fail,
    integer,
    items,
    secret,
    show,
    text,
    texts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.config.nats_conf.parser import ConfNode

_BAD_ESCAPE = r"%(?![0-9A-Fa-f]{2})|\s"
_PUBLIC_KEY = r"U[A-Z2-7]{55}"
_SEED = r"SU[A-Z2-7]{56}"
_ON = ("on", "enabled", "true")
_MODES = {
    **dict.fromkeys(("", "off", "disabled", "false", "not supported", "not_supported"), "off"),
    "accept": "accept",
    **dict.fromkeys(("auto", "s2_auto"), "s2_auto"),
    **dict.fromkeys(("fast", "s2_fast"), "s2_fast"),
    **dict.fromkeys(("better", "s2_better"), "s2_better"),
    **dict.fromkeys(("best", "s2_best"), "s2_best"),
}


def _urls(section: Section, node: ConfNode) -> None:
    """Read the URL, or the URLs, of a remote."""
    if not isinstance(node.value, str | list):
        fail(node, f"Expected remote leafnode url to be an array or string, got {node.value}")
    urls = texts(node)
    for url in urls:
        if re.search(_BAD_ESCAPE, url):
            fail(node, f"error parsing leafnode url [{quote(url.encode())}]")
    section.put("urls", urls, node)


def _seed(section: Section, node: ConfNode) -> None:
    """Read a user's seed."""
    seed = secret(node)
    if not re.fullmatch(_SEED, seed):
        fail(node, "Remote leafnode nkey is not a valid seed")
    if "credentials" in section.values:
        fail(node, "Remote leafnode can not have both creds and nkey defined")
    section.put("nkey_seed", seed, node)


def _credentials(section: Section, node: ConfNode) -> None:
    """Read the path of a credentials file."""
    if "nkey_seed" in section.values:
        fail(node, "Remote leafnode can not have both creds and nkey defined")
    section.put("credentials", text(node), node)


def read_compression(default: str) -> Callable[[Section, ConfNode], None]:
    """Return the handler of the compression of links.

    `default` is what nats-server does for `true` and `on`.
    """

    def handle(section: Section, node: ConfNode) -> None:
        word: object = node.value
        round_trips: list[float] = []
        if isinstance(word, dict):
            word = ""
            for name, entry in entries(node).items():
                if name.lower() == "mode":
                    word = text(entry)
                elif name.lower() in ("rtt_thresholds", "thresholds", "rtts", "rtt"):
                    round_trips = [max(duration(one, text(one)), 0.0) for one in items(entry)]
                elif not entry.is_used:
                    fail(entry, f'unknown field "{name}"')
        elif not isinstance(word, str | bool):
            fail(node, f"expected a boolean or a structure, got {show(node)}")
        word = default if word is True or str(word).lower() in _ON else str(word).lower()
        if word not in _MODES:
            fail(node, f'unsupported compression mode "{word}"')
        section.put("compression", _MODES[word], node)
        while round_trips and not round_trips[-1]:
            round_trips.pop()
        if round_trips:
            section.put("compression_rtt_s", round_trips, node)

    return handle


def _remote_tls(section: Section, node: ConfNode) -> None:
    """Read the `tls` block of a remote, which is for a client."""
    tls = section.table("tls", node)
    tls.put("required", True, node)
    read_map(node, tls, REMOTE_TLS, "error parsing tls config, unknown field {}")


def _handshake_first(section: Section, node: ConfNode) -> None:
    """Read whether TLS begins before INFO; a client has nothing to wait for."""
    if isinstance(node.value, str):
        word = node.value.lower()
        if word not in ("true", "on", "false", "off", "auto", "auto_fallback"):
            duration(node, node.value)
        section.put("handshake_first", word not in ("false", "off"), node)
    else:
        section.put("handshake_first", boolean(node), node)


REMOTE_TLS: dict[str, Handler] = {
    **CLIENT_TLS,
    "timeout": timeout("timeout_s"),
    "handshake_first": _handshake_first,
    "first": _handshake_first,
    "immediate": _handshake_first,
}

_REPLICAS = "midge has no replicated streams"


def _migrate(node: ConfNode) -> bool:
    if not isinstance(node.value, bool | dict):
        fail(node, f"Expected boolean or map for jetstream_cluster_migrate, got {show(node)}")
    return node.value is not False


PROXY: dict[str, Handler] = {
    "url": Key("url", text),
    "username": Key("username", text),
    "password": Key("password", secret),
    "timeout": timed("timeout_s", "proxy timeout"),
}


def _proxy(section: Section, node: ConfNode) -> None:
    """Read the HTTP proxy on the way to a remote."""
    read_map(node, section.table("proxy", node), PROXY)


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
    "jetstream_cluster_migrate": IgnoredKey(_REPLICAS, _migrate),
    "js_cluster_migrate": IgnoredKey(_REPLICAS, _migrate),
    "isolate_leafnode_interest": Key("isolate_interest", boolean),
    "isolate": Key("isolate_interest", boolean),
    "request_isolation": Key("request_isolation", boolean),
    "compression": read_compression("s2_auto"),
    "first_info_timeout": timed("first_info_timeout_s", "first_info_timeout"),
    "dial_timeout": timed("dial_timeout_s", "dial_timeout"),
    "ignore_discovered_servers": Key("ignore_discovered_servers", boolean),
    "disabled": Key("disabled", boolean),
    "proxy": _proxy,
}


def _public_nkey(section: Section, node: ConfNode) -> None:
    """Read the public key of the only user."""
    if not re.fullmatch(_PUBLIC_KEY, text(node)):
        fail(node, "Not a valid public nkey for leafnode authorization")
    section.put("nkey", text(node), node)


def _users(section: Section, node: ConfNode) -> None:
    """Read the users, one map each."""
    if "user" in section.values:
        fail(node, "can not have a single user/pass and a users array")
    for entry in items(node):
        read_map(entry, section.append("users", entry), LEAF_USER)


def _authorization(section: Section, node: ConfNode) -> None:
    """Read the users that leaf nodes may connect as."""
    read_map(node, section.table("authorization", node), LEAF_AUTHORIZATION)


def _remotes(section: Section, node: ConfNode) -> None:
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
    "proxy_required": Key("proxy_required", boolean),
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
    "proxy_required": Key("proxy_required", boolean),
}

LEAFNODES: dict[str, Handler] = {
    "listen": read_listen,
    "port": Key("port", integer),
    "host": Key("host", text),
    "net": Key("host", text),
    "authorization": _authorization,
    "tls": read_tls,
    "advertise": Key("advertise", text),
    "leafnode_advertise": Key("advertise", text),
    "no_advertise": Key("no_advertise", boolean),
    "proxy_protocol": Key("proxy_protocol", boolean),  # midge's own, here
    "min_version": Key("min_version", text),
    "minimum_version": Key("min_version", text),
    "isolate_leafnode_interest": Key("isolate_interest", boolean),
    "isolate": Key("isolate_interest", boolean),
    "write_deadline": timed("write_deadline_s", "write_deadline"),
    "write_timeout": Key("write_timeout_policy", write_timeout),
    "dial_timeout": timed("dial_timeout_s", "dial_timeout"),
    **dict.fromkeys(
        ("reconnect", "reconnect_delay", "reconnect_interval"), timed("reconnect_s", "reconnect")
    ),
    "compression": read_compression("s2_auto"),
    "remotes": _remotes,
}


def read_leafnodes(section: Section, node: ConfNode) -> None:
    """Read the block."""
    if not isinstance(node.value, dict):
        fail(node, f"Expected map to define a leafnode, got {show(node)}")
    table = section.table("leafnodes", node)
    read_map(node, table, LEAFNODES)
    # It is for remotes without one of their own.
    if dial_timeout_s := table.values.pop("dial_timeout_s", 0.0):
        for remote in table.values.get("remotes", ()):
            remote.setdefault("dial_timeout_s", dial_timeout_s)
