"""The top-level keys of a nats-server configuration, and the keys of its WebSocket block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.protocol.nkeys import is_any_public_nkey
from midge.server.config.nats_conf.cluster_block import read_cluster
from midge.server.config.nats_conf.jetstream_blocks import (
    read_feature_flags,
    read_jetstream,
    read_store_dir,
)
from midge.server.config.nats_conf.leafnode_blocks import read_leafnodes
from midge.server.config.nats_conf.sections import (
    Handler,
    IgnoredKey,
    Key,
    Section,
    UnsupportedKey,
    positive,
    read_listen,
    read_map,
    timed,
    timeout,
    write_timeout,
)
from midge.server.config.nats_conf.security_blocks import (
    OPERATOR,
    read_accounts,
    read_authorization,
    read_mappings,
)
from midge.server.config.nats_conf.tls_block import read_tls
from midge.server.config.nats_conf.values import (
    DEFAULT_PORT,
    address,
    boolean,
    bounded,
    duration,
    entries,
    fail,
    integer,
    inverted,
    items,
    limit,
    port,
    seconds,
    secret,
    text,
    texts,
)
from midge.server.config.options import Limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.config.nats_conf.parser import ConfNode

INT32_MAX = (1 << 31) - 1
LAME_DUCK_MIN_S = 30


def _listen(section: Section, node: ConfNode) -> None:
    host, number = address(node)
    if host is not None:
        section.put("listen.host", host, node)
    section.put("listen.port", number or DEFAULT_PORT, node)


def _monitor(name: str) -> Callable[[Section, ConfNode], None]:
    """Return the handler of `http` and `https`: a port, or host and port."""

    def handle(section: Section, node: ConfNode) -> None:
        host, number = address(node)
        if host:
            section.put("monitoring.host", host, node)
        section.put(f"monitoring.{name}", number, node)

    return handle


def _lame_duck_duration(section: Section, node: ConfNode) -> None:
    value = duration(node, text(node), "error parsing lame_duck_duration: ")
    if value < LAME_DUCK_MIN_S:
        fail(node, f"invalid lame_duck_duration of {node.value}, minimum is 30 seconds")
    section.put("shutdown.lame_duck_duration_s", value, node)


def _lame_duck_grace_period(section: Section, node: ConfNode) -> None:
    value = duration(node, text(node), "error parsing lame_duck_grace_period: ")
    if value < 0:
        fail(node, "invalid lame_duck_grace_period, needs to be positive")
    if value:
        section.put("shutdown.lame_duck_grace_period_s", value, node)


def _max_payload(node: ConfNode) -> int:
    return max(bounded("max_payload", INT32_MAX)(node), -1)


def _max_pending(node: ConfNode) -> int:
    return integer(node) or Limits().max_pending_bytes


def _max_closed_clients(section: Section, node: ConfNode) -> None:
    if integer(node):
        section.put("limits.max_closed_clients", limit(node), node)


def _tokens(node: ConfNode) -> int:
    if bounded("max_sub_tokens", 255)(node) <= 0:
        fail(node, "max_sub_tokens value can not be negative")
    return integer(node)


def _disable_cache(section: Section, node: ConfNode) -> None:
    if boolean(node):
        section.put("routing.cache_max", 0, node)
        section.put("routing.cache_sweep_to", 0, node)


def _server_name(node: ConfNode) -> str:
    if any(character.isspace() for character in text(node)):
        fail(node, "server name cannot contain spaces")
    return text(node)


def _trace_headers(section: Section, node: ConfNode) -> None:
    section.put("logging.trace", boolean(node), node)
    if node.value:
        section.note(node, 'field "trace_headers" traces whole messages')


def _trace_verbose(section: Section, node: ConfNode) -> None:
    section.put("logging.trace_verbose", boolean(node), node)
    section.put("logging.trace", boolean(node), node)


def _texts_by_name(node: ConfNode) -> dict[str, str]:
    return {name: text(entry) for name, entry in entries(node).items()}


def _compression(section: Section, node: ConfNode) -> None:
    section.put("compression", boolean(node), node)


def _websocket_authorization(section: Section, node: ConfNode) -> None:
    read_map(node, section.table("authorization", node), WEBSOCKET_AUTHORIZATION)


WEBSOCKET_AUTHORIZATION: dict[str, Handler] = {
    "user": Key("user", text),
    "username": Key("user", text),
    "pass": Key("password", secret),
    "password": Key("password", secret),
    "token": Key("token", secret),
    "timeout": timeout("timeout_s"),
}

WEBSOCKET: dict[str, Handler] = {
    "listen": read_listen,
    "host": Key("host", text),
    "net": Key("host", text),
    "port": Key("port", integer),
    "advertise": Key("advertise", text),
    "proxy_protocol": Key("proxy_protocol", boolean),  # midge's own, here
    "tls": read_tls,
    "no_tls": Key("no_tls", boolean),
    "same_origin": Key("same_origin", boolean),
    "allowed_origins": Key("allowed_origins", texts),
    "allowed_origin": Key("allowed_origins", texts),
    "allow_origins": Key("allowed_origins", texts),
    "allow_origin": Key("allowed_origins", texts),
    "origins": Key("allowed_origins", texts),
    "origin": Key("allowed_origins", texts),
    "handshake_timeout": positive("handshake_timeout_s", "handshake_timeout", seconds),
    "compression": _compression,
    "compress": _compression,
    "authorization": _websocket_authorization,
    "authentication": _websocket_authorization,
    "no_auth_user": Key("authorization.no_auth_user", text),
    "jwt_cookie": Key("jwt_cookie", text),
    "user_cookie": Key("user_cookie", text),
    "pass_cookie": Key("pass_cookie", text),
    "token_cookie": Key("token_cookie", text),
    "headers": Key("headers", _texts_by_name),
    "ping_interval": timed("ping_interval_s", "ping_interval"),
}


def _websocket(section: Section, node: ConfNode) -> None:
    read_map(node, section.table("websocket", node), WEBSOCKET)


def _trusted(section: Section, node: ConfNode) -> None:
    """Read the proxies' keys: a list of maps, each with a `key`."""
    if not isinstance(node.value, list):
        fail(node, "expected proxies' trusted field to be an array")
    keys = []
    for one in node.value:
        if not isinstance(one.value, dict):
            fail(one, "expected proxies' trusted entry to be a map/struct")
        for name, entry in entries(one).items():
            if name.lower() != "key":
                fail(entry, f'unknown field "{name}"')
            if not is_any_public_nkey(text(entry)):
                fail(entry, f'invalid proxy key "{text(entry)}"')
            keys.append(text(entry))
    section.put("trusted", keys, node)


# `addresses` is midge's own: nats-server takes headers from each peer.
PROXIES: dict[str, Handler] = {
    "trusted": _trusted,
    "addresses": Key("addresses", texts),
}


def _proxies(section: Section, node: ConfNode) -> None:
    read_map(node, section.table("proxies", node), PROXIES)


# All of it is midge's own.
TABLE: dict[str, Handler] = {
    "name": Key("name", text),
    "account": Key("account", text),
    "stream": Key("stream", text),
    "url": Key("url", text),
    "subject": Key("subject", text),
    "columns": Key("columns", _texts_by_name),
    "infer": Key("infer", boolean),
    "partition_by": Key("partition_by", texts),
    "every": Key("every_s", seconds),
    "compact_commits": Key("compact_commits", limit),
    "keep": Key("keep_hours", lambda node: seconds(node) / 3600),
}


def _tables(section: Section, node: ConfNode) -> None:
    """Read the tables of streams, one map each."""
    section.values.setdefault("tables", [])
    for entry in items(node):
        read_map(entry, section.append("tables", entry), TABLE)


_OCSP = UnsupportedKey("OCSP")
_PROFILER = "there is no profiler of Go"
_SYSTEM = "midge always has a system account"

SERVER: dict[str, Handler] = {
    # The server itself.
    "server_name": Key("server_name", _server_name),
    "listen": _listen,
    "host": Key("listen.host", text),
    "net": Key("listen.host", text),
    "port": Key("listen.port", port),
    "client_advertise": Key("listen.client_advertise", text),
    "proxy_protocol": Key("listen.proxy_protocol", boolean),
    "proxies": _proxies,
    "pid_file": Key("process.pid_file", text),
    "pidfile": Key("process.pid_file", text),
    "ports_file_dir": Key("process.ports_file_dir", text),
    # Monitoring.
    "http": _monitor("http_port"),
    "https": _monitor("https_port"),
    "http_port": Key("monitoring.http_port", integer),
    "monitor_port": Key("monitoring.http_port", integer),
    "https_port": Key("monitoring.https_port", integer),
    "http_base_path": Key("monitoring.base_path", text),
    # Logging.
    "debug": Key("logging.debug", boolean),
    "trace": Key("logging.trace", boolean),
    "trace_verbose": _trace_verbose,
    "logtime": Key("logging.logtime", boolean),
    "logtime_utc": Key("logging.logtime_utc", boolean),
    "log_file": Key("logging.file", text),
    "logfile": Key("logging.file", text),
    "logfile_size_limit": Key("logging.file_size_limit_bytes", limit),
    "log_size_limit": Key("logging.file_size_limit_bytes", limit),
    "logfile_max_num": Key("logging.file_max_count", limit),
    "log_max_num": Key("logging.file_max_count", limit),
    "max_traced_msg_len": Key("logging.max_traced_message_bytes", limit),
    "connect_error_reports": Key("logging.connect_error_reports", integer),
    "reconnect_error_reports": Key("logging.reconnect_error_reports", integer),
    "trace_headers": _trace_headers,
    "syslog": Key("logging.syslog", boolean),
    "remote_syslog": Key("logging.remote_syslog", text),
    # Limits.
    "max_connections": Key("limits.max_connections", limit),
    "max_conn": Key("limits.max_connections", limit),
    "max_control_line": positive(
        "limits.max_control_line_bytes", "max_control_line", bounded("max_control_line", INT32_MAX)
    ),
    "max_payload": Key("limits.max_payload_bytes", _max_payload),
    "max_pending": Key("limits.max_pending_bytes", _max_pending),
    "max_subscriptions": Key("limits.max_subscriptions", limit),
    "max_subs": Key("limits.max_subscriptions", limit),
    "max_sub_tokens": Key("limits.max_subscription_tokens", _tokens),
    "max_subscription_tokens": Key("limits.max_subscription_tokens", _tokens),
    "max_closed_clients": _max_closed_clients,
    "ping_interval": timed("keepalive.ping_interval_s", "ping_interval"),
    "ping_max": positive("keepalive.ping_max", "ping_max"),
    "write_deadline": timed("limits.write_deadline_s", "write_deadline"),
    "write_timeout": Key("limits.write_timeout_policy", write_timeout),
    "no_fast_producer_stall": Key("limits.stall_producers", inverted),
    "disable_sublist_cache": _disable_cache,
    "no_sublist_cache": _disable_cache,
    "no_header_support": Key("limits.header_support", inverted),
    "lame_duck_duration": _lame_duck_duration,
    "lame_duck_grace_period": _lame_duck_grace_period,
    # Users and permissions.
    "authorization": read_authorization,
    "no_auth_user": Key("authorization.no_auth_user", text),
    "accounts": read_accounts,
    "system_account": Key("system_account", text),
    "system": Key("system_account", text),
    "no_system_account": IgnoredKey(_SYSTEM, boolean),
    "no_system": IgnoredKey(_SYSTEM, boolean),
    "no_sys_acc": IgnoredKey(_SYSTEM, boolean),
    "mappings": read_mappings,
    "maps": read_mappings,
    **OPERATOR,
    "tls": read_tls,
    "allow_non_tls": Key("tls.allow_non_tls", boolean),
    # Listeners of other kinds.
    "websocket": _websocket,
    "ws": _websocket,
    "jetstream": read_jetstream,
    "tables": _tables,
    "cluster": read_cluster,
    "leaf": read_leafnodes,
    "leafnodes": read_leafnodes,
    # What midge does not have.
    "gateway": UnsupportedKey("gateways", is_switch=False),
    "mqtt": UnsupportedKey("MQTT", is_switch=False),
    "prof_port": IgnoredKey(_PROFILER, integer, (0,)),
    "prof_block_rate": IgnoredKey(_PROFILER, integer, (0,)),
    "default_js_domain": IgnoredKey(
        "clients of all accounts use one domain", _texts_by_name, ({},)
    ),
    "store_dir": read_store_dir,
    "storedir": read_store_dir,
    "default_sentinel": Key("operator.default_sentinel", text),
    "feature_flags": read_feature_flags,
    "server_tags": Key("server_tags", texts),
    "server_metadata": Key("server_metadata", _texts_by_name),
    "ocsp": _OCSP,
    "ocsp_cache": _OCSP,
}
"""Every key that nats-server has at the top of a file, in small letters."""
