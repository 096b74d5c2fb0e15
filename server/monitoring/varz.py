"""`/varz`: the server's identity, settings and counts."""

import functools
from typing import TYPE_CHECKING, Any

from midge.protocol import COMPATIBLE_VERSION
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.config.options import WebSocket
from midge.server.monitoring import go_format
from midge.server.monitoring.accounts import claims_in
from midge.server.monitoring.routez import links_of, routes_of
from midge.server.monitoring.state import server_totals_in_turns
from midge.version import __version__, is_compiled

if TYPE_CHECKING:
    from midge.server.broker.totals import Totals
    from midge.server.config.options import LeafRemote, Options, Tls
    from midge.server.monitoring.state import State

_AUTH_TIMEOUT_S = 2.0


async def varz(state: "State") -> dict[str, Any]:
    """Return the page."""
    totals = await server_totals_in_turns(state.broker)
    return {**_identity(state), **_settings(state), **_activity(state, totals)}


def _identity(state: "State") -> dict[str, Any]:
    broker = state.broker
    return {
        "server_id": broker.keys.server_id,
        "server_name": state.server_name,
        "version": COMPATIBLE_VERSION,
        "midge_version": __version__,
        "midge_build": "compiled" if is_compiled() else "pure",
        "proto": 1,
        "git_commit": "",
        "go": "python",
        "host": broker.host,
        "port": broker.port,
        **_encryption(state),
        **_operators(state),
        **_client_urls(state),
        **state.labels,
    }


def _operators(state: "State") -> dict[str, Any]:
    """Return the operators' tokens, in operator mode, encoded and decoded."""
    mode = state.broker.admission.authenticator.operator
    if mode is None or not mode.tokens:
        return {}
    return {
        "trusted_operators_jwt": list(mode.tokens),
        "trusted_operators_claim": [claims_in(token) for token in mode.tokens],
    }


def _client_urls(state: "State") -> dict[str, Any]:
    """Return the addresses in INFO for clients; none without a route, as on nats-server."""
    cluster = state.cluster
    urls = cluster.urls("connect_urls") if cluster is not None and cluster.routes else []
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
    demands = {name: True for name, holds in facts.items() if holds}
    return {**demands, **_certificate_end(state, tls)}


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
        "leaf": _leaf(state),
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
    facts |= _certificate_end(state, settings.tls)
    return {name: value for name, value in facts.items() if value}


def _unless_default(handshake_timeout_s: float) -> int:
    """Return the handshake time-out in nanoseconds, 0 if not set."""
    default = WebSocket().handshake_timeout_s
    return 0 if handshake_timeout_s == default else go_format.nanoseconds(handshake_timeout_s)


def _cluster(state: "State") -> dict[str, Any]:
    """Return the cluster's name and the addresses of its other servers; empty without one."""
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
        "pool_size": state.cluster.own_pool_size() or -1,
        **_certificate_end(state, table.tls),
    }
    return {name: value for name, value in found.items() if value}


def _leaf(state: "State") -> dict[str, Any]:
    """Return where leaf nodes connect, and the servers that this one connects to."""
    table = state.broker.options.leafnodes
    found: dict[str, Any] = {}
    if table.port:
        found["host"] = table.host
        found["port"] = state.leafnode_port or table.port
        found["auth_timeout"] = go_format.number(table.authorization.timeout_s or 2.0)
        found["tls_timeout"] = go_format.number(table.tls.timeout_s)
        found |= {"tls_required": True} if table.tls.enabled else {}
        found |= {"tls_verify": True} if table.tls.verify else {}
        found |= _certificate_end(state, table.tls)
    if table.remotes:
        found["remotes"] = [_remote(remote) for remote in table.remotes]
    return found


def _remote(remote: "LeafRemote") -> dict[str, Any]:
    """Return the configuration of a server that this one connects to."""
    found: dict[str, Any] = {"local_account": remote.account or GLOBAL_ACCOUNT}
    if remote.tls.required:
        found["tls_timeout"] = go_format.number(remote.tls.timeout_s)
    found["urls"] = [url.rpartition("@")[2].rpartition("//")[2] for url in remote.urls]
    denied = {"exports": list(remote.deny_exports), "imports": list(remote.deny_imports)}
    if any(denied.values()):
        found["deny"] = {name: subjects for name, subjects in denied.items() if subjects}
    return found


def _certificate_end(state: "State", tls: "Tls") -> dict[str, str]:
    """Return when the first certificate of a listener expires; nothing without TLS."""
    if not tls.enabled:
        return {}
    end = _read_certificate_end(tls.pairs[0].cert_file, state.configured_at)
    return {"tls_cert_not_after": end} if end else {}


@functools.lru_cache(maxsize=16)
def _read_certificate_end(file: str, _configured_at: float) -> str:
    """Return the end of a certificate, read once for each configuration."""
    from pathlib import Path  # noqa: PLC0415 - only TLS needs it

    from cryptography import x509  # noqa: PLC0415 - only TLS needs it

    try:
        certificate = x509.load_pem_x509_certificate(Path(file).read_bytes())
    except (OSError, ValueError):
        return ""
    return f"{certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"


def feature_flags(options: "Options") -> dict[str, bool]:
    """Return nats-server's feature flags, of which midge has one."""
    return {
        "js_ack_fc_v2": options.jetstream.ack_format == "v2",
        "js_api_reply_v2": False,
        "js_raft_delete_range": True,
        "js_snapshot_sources": False,
    }


def _activity(state: "State", totals: "Totals") -> dict[str, Any]:
    broker = state.broker
    usage = state.usage
    now = broker.clock.wall()
    slow = by_kind(totals.slow_consumers, totals.slow_routes, totals.slow_leafs)
    stale = by_kind(totals.stale_connections, totals.stale_routes, totals.stale_leafs)
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
        "slow_consumers": sum(slow.values()),
        "stale_connections": sum(stale.values()),
        "stalled_clients": broker.stalled_clients,
        "subscriptions": sum(len(account.sublist) for account in broker.accounts.values()),
        "http_req_stats": dict(sorted(state.requests.items())),
        "config_load_time": go_format.timestamp(state.configured_at),
        "config_digest": state.config_digest,
        "feature_flags": feature_flags(broker.options),
        **_proxies(broker.options.proxies.trusted),
        "system_account": broker.system_account.name,
        "slow_consumer_stats": slow,
        "stale_connection_stats": stale,
        "disk_io_wait_stats": {"waiters": 0, "waits": 0, "wait_time": 0, "max_wait_time": 0},
    }


def by_kind(clients: int, routes: int, leafs: int) -> dict[str, int]:
    """Return counts of connections as pages show them."""
    return {"clients": clients, "routes": routes, "gateways": 0, "leafs": leafs}


def _proxies(trusted: tuple[str, ...]) -> dict[str, Any]:
    """Return the field of trusted proxies, which is left out without any."""
    return {"proxies": {"trusted": [{"key": key} for key in trusted]}} if trusted else {}


def _jetstream(state: "State") -> dict[str, Any]:
    """Return JetStream's fields; its modules are loaded only where it is on."""
    if state.jetstream is None:
        return {}
    # It imports midge.jetstream, for which a server without JetStream should not pay.
    from midge.server.monitoring import jetstream_details  # noqa: PLC0415

    return jetstream_details.section(state.jetstream)
