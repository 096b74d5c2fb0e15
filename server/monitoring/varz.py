"""`/varz`: the server's identity, settings and counts."""

from typing import TYPE_CHECKING, Any

from midge.protocol import COMPATIBLE_VERSION
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.config.options import WebSocket
from midge.server.monitoring import go_format
from midge.server.monitoring.account_totals import server_totals
from midge.server.monitoring.leafz import links_of
from midge.server.monitoring.routez import routes_of
from midge.version import __version__

if TYPE_CHECKING:
    from midge.server.config.options import Options
    from midge.server.monitoring.state import State

_AUTH_TIMEOUT_S = 2.0
_NONE_OF_ALL = {"routes": 0, "gateways": 0, "leafs": 0}


def varz(state: "State") -> dict[str, Any]:
    """Return the page."""
    return {**_identity(state), **_settings(state), **_activity(state)}


def _identity(state: "State") -> dict[str, Any]:
    broker = state.broker
    return {
        "server_id": broker.keys.server_id,
        "server_name": state.server_name,
        "version": COMPATIBLE_VERSION,
        "midge_version": __version__,
        "proto": 1,
        "git_commit": "",
        "go": "python",
        "host": broker.host,
        "port": broker.port,
        **_encryption(state),
        **_client_urls(state),
        **state.labels,
    }


def _client_urls(state: "State") -> dict[str, Any]:
    """Return the addresses that clients are told; none without a cluster."""
    urls = [] if state.cluster is None else state.cluster.client_urls()
    return {"connect_urls": urls} if urls else {}


def _encryption(state: "State") -> dict[str, Any]:
    """Return the demands on clients; those that do not apply are absent."""
    broker = state.broker
    tls = broker.options.tls
    facts = {
        "auth_required": broker.admission.authenticator.is_required_by("STANDARD"),
        "tls_required": tls.enabled,
        "tls_verify": tls.verify,
    }
    return {name: True for name, holds in facts.items() if holds}


def _settings(state: "State") -> dict[str, Any]:
    options = state.broker.options
    limits = options.limits
    http = state.http_address
    return {
        "max_connections": limits.max_connections or -1,
        **({"max_subscriptions": limits.max_subscriptions} if limits.max_subscriptions else {}),
        "ping_interval": go_format.nanoseconds(options.keepalive.ping_interval_s),
        "ping_max": options.keepalive.ping_max,
        "http_host": http[0],
        "http_port": http[1],
        "http_base_path": options.monitoring.base_path,
        "https_port": state.https_port,
        "auth_timeout": go_format.number(_auth_timeout_s(options)),
        "max_control_line": limits.max_control_line_bytes,
        "max_payload": limits.max_payload_bytes,
        "max_pending": limits.max_pending_bytes,
        "cluster": _cluster(state),
        "gateway": {},
        "leaf": _leaf(options),
        "mqtt": {},
        "websocket": _websocket(state),
        "jetstream": _jetstream(state),
        "tls_timeout": go_format.number(options.tls.timeout_s),
        "write_deadline": go_format.nanoseconds(limits.write_deadline_s),
    }


def _auth_timeout_s(options: "Options") -> float:
    """Return the authentication time-out; by default the TLS handshake's plus a second."""
    return options.authorization.timeout_s or (
        options.tls.timeout_s + 1 if options.tls.enabled else _AUTH_TIMEOUT_S
    )


def _websocket(state: "State") -> dict[str, Any]:
    """Return the fields of the WebSocket listener; empty without one."""
    settings = state.broker.options.websocket
    if not settings.port:
        return {}
    facts: dict[str, Any] = {
        "host": settings.host,
        "port": state.websocket_port or settings.port,
        "advertise": settings.advertise,
        "no_auth_user": settings.authorization.no_auth_user,
        "jwt_cookie": settings.jwt_cookie,
        "handshake_timeout": _unless_default(settings.handshake_timeout_s),
        "auth_timeout": go_format.number(settings.authorization.timeout_s),
        "no_tls": settings.no_tls,
        "tls_verify": settings.tls.verify,
        "same_origin": settings.same_origin,
        "allowed_origins": list(settings.allowed_origins),
        "compression": settings.compression,
    }
    return {name: value for name, value in facts.items() if value}


def _unless_default(handshake_timeout_s: float) -> int:
    """Return the handshake time-out in nanoseconds, 0 if not set."""
    default = WebSocket().handshake_timeout_s
    return 0 if handshake_timeout_s == default else go_format.nanoseconds(handshake_timeout_s)


def _cluster(state: "State") -> dict[str, Any]:
    """Say which cluster this is, and where its other servers are; empty without one."""
    table = state.broker.options.cluster
    if state.cluster is None:
        return {}
    found: dict[str, Any] = {
        "name": state.cluster.name,
        "addr": table.host,
        "cluster_port": state.cluster.address[1],
        "auth_timeout": go_format.number(table.authorization.timeout_s or _AUTH_TIMEOUT_S),
        "urls": [url.rpartition("@")[2].rpartition("//")[2] for url in table.routes],
        "tls_timeout": go_format.number(table.tls.timeout_s),
        "tls_required": table.tls.enabled,
        "tls_verify": table.tls.enabled,
        "pool_size": -1,
    }
    return {name: value for name, value in found.items() if value}


def _leaf(options: "Options") -> dict[str, Any]:
    """Say where leaf nodes connect, and what this server connects to."""
    table = options.leafnodes
    found: dict[str, Any] = {}
    if table.port:
        found["host"] = table.host
        found["port"] = table.port
        found["auth_timeout"] = go_format.number(table.authorization.timeout_s or 2.0)
        found["tls_timeout"] = go_format.number(table.tls.timeout_s)
    if table.remotes:
        found["remotes"] = [
            {
                "local_account": remote.account or GLOBAL_ACCOUNT,
                "urls": [url.rpartition("@")[2].rpartition("//")[2] for url in remote.urls],
            }
            for remote in table.remotes
        ]
    return found


def _activity(state: "State") -> dict[str, Any]:
    broker = state.broker
    usage = state.usage
    totals = server_totals(broker)
    now = broker.clock.wall()
    return {
        "start": go_format.timestamp(state.started_at),
        "now": go_format.timestamp(now),
        "uptime": go_format.uptime(now - state.started_at),
        "mem": usage.memory_bytes(),
        "cores": usage.cores(),
        "gomaxprocs": 1,
        "cpu": usage.cpu_percent(),
        "connections": len(broker.clients),
        "total_connections": totals.connections,
        "routes": len(routes_of(state)),
        "remotes": len(routes_of(state)),
        "leafnodes": len(links_of(state)),
        "in_msgs": totals.in_messages,
        "in_bytes": totals.in_bytes,
        "in_client_msgs": totals.in_messages,
        "in_client_bytes": totals.in_bytes,
        "out_msgs": totals.out_messages,
        "out_bytes": totals.out_bytes,
        "out_client_msgs": totals.out_messages,
        "out_client_bytes": totals.out_bytes,
        "slow_consumers": totals.slow_consumers,
        "stale_connections": totals.stale_connections,
        "stalled_clients": broker.stalled_clients,
        "subscriptions": sum(len(account.sublist) for account in broker.accounts.values()),
        "http_req_stats": dict(sorted(state.requests.items())),
        "config_load_time": go_format.timestamp(state.configured_at),
        "config_digest": state.config_digest,
        "feature_flags": {},
        "system_account": broker.system_account.name,
        "slow_consumer_stats": {"clients": totals.slow_consumers, **_NONE_OF_ALL},
        "stale_connection_stats": {"clients": totals.stale_connections, **_NONE_OF_ALL},
        "disk_io_wait_stats": {"waiters": 0, "waits": 0, "wait_time": 0, "max_wait_time": 0},
    }


def _jetstream(state: "State") -> dict[str, Any]:
    """Return JetStream's fields; its modules are loaded only where it is on."""
    if state.jetstream is None:
        return {}
    # It imports midge.jetstream, for which a server without JetStream should not pay.
    from midge.server.monitoring import jetstream_details  # noqa: PLC0415

    return jetstream_details.section(state.jetstream)
