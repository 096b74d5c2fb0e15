"""The keys of security: authorization, accounts, mappings, operator mode, TLS."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from midge.protocol.nkeys import ACCOUNT_PREFIX, CURVE_PREFIX, is_public_nkey
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.config.nats_conf.errors import ConfError
from midge.server.config.nats_conf.jetstream_blocks import read_account_jetstream
from midge.server.config.nats_conf.sections import (
    Handler,
    Key,
    Missing,
    Section,
    read_map,
    timeout,
)
from midge.server.config.nats_conf.values import (
    boolean,
    choice,
    duration,
    entries,
    fail,
    integer,
    items,
    limit,
    seconds,
    secret,
    show,
    text,
    texts,
)
from midge.sublist.subjects import is_valid_publish_subject

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.config.nats_conf.parser import Node


def _nested(name: str, read: Callable[[Section, Node], None]) -> Callable[[Section, Node], None]:
    """Return a handler that reads a map into the table `name`."""
    return lambda section, node: read(section.table(name, node), node)


def _each(name: str, read: Callable[[Section, Node], None]) -> Callable[[Section, Node], None]:
    """Return a handler that reads an array of maps into the list `name`."""

    def handle(section: Section, node: Node) -> None:
        section.values.setdefault(name, [])
        for item in items(node):
            read(section.append(name, item), item)

    return handle


# Permissions.

_UNKNOWN_PERMISSION = "Unknown field {} parsing permissions"


def read_subjects(name: str, section: Section, node: Node) -> None:
    """Read one direction: a subject, a list of them, or a map of `allow` and `deny`."""
    inner = section.table(name, node)
    if not isinstance(node.value, dict):
        inner.put("allow", texts(node), node)
        return
    for key, entry in entries(node).items():
        if key.lower() not in ("allow", "deny"):
            text_ = f'Unknown field name "{key}" parsing subject permissions, '
            raise ConfError(f"{text_}only 'allow' or 'deny' are permitted", where=entry.where)
        inner.put(key.lower(), texts(entry), entry)


def _allow_responses(section: Section, node: Node) -> None:
    if isinstance(node.value, bool):
        if node.value:
            section.table("allow_responses", node)
        return
    read_map(node, section.table("allow_responses", node), RESPONSES, _UNKNOWN_PERMISSION)


RESPONSES: dict[str, Handler] = {
    "max": Key("max", integer),
    "max_msgs": Key("max", integer),
    "max_messages": Key("max", integer),
    "max_responses": Key("max", integer),
    "expires": Key("expires_s", seconds),
    "expiration": Key("expires_s", seconds),
    "ttl": Key("expires_s", seconds),
}

PERMISSIONS: dict[str, Handler] = {
    **dict.fromkeys(("publish", "pub", "import"), partial(read_subjects, "publish")),
    **dict.fromkeys(("subscribe", "sub", "export"), partial(read_subjects, "subscribe")),
    "allow_responses": _allow_responses,
    "publish_allow_responses": _allow_responses,
}


def _permissions(section: Section, node: Node) -> None:
    read_map(node, section, PERMISSIONS, _UNKNOWN_PERMISSION)


# Users and authorization.


def _connection_types(node: Node) -> list[str]:
    return [word.upper() for word in texts(node)]


USER: dict[str, Handler] = {
    "user": Key("user", text),
    "username": Key("user", text),
    "pass": Key("password", secret),
    "password": Key("password", secret),
    "nkey": Key("nkey", text),
    **dict.fromkeys(
        ("permissions", "permission", "authorization"), _nested("permissions", _permissions)
    ),
    **dict.fromkeys(
        ("allowed_connection_types", "connection_types", "clients"),
        Key("allowed_connection_types", _connection_types),
    ),
    "proxy_required": Missing("the PROXY protocol"),
}


def _user(section: Section, node: Node) -> None:
    read_map(node, section, USER)


def _account_key(node: Node) -> str:
    key = text(node)
    if not is_public_nkey(ACCOUNT_PREFIX, key):
        fail(node, f'Expected callout user to be a valid public account nkey, got "{key}"')
    return key


def _curve_key(node: Node) -> str:
    key = text(node)
    if not is_public_nkey(CURVE_PREFIX, key):
        fail(node, f'Expected callout xkey to be a valid public xkey, got "{key}"')
    return key


AUTH_CALLOUT: dict[str, Handler] = {
    "issuer": Key("issuer", _account_key),
    "account": Key("account", text),
    "acc": Key("account", text),
    "auth_users": Key("auth_users", texts),
    "users": Key("auth_users", texts),
    "xkey": Key("xkey", _curve_key),
    "key": Key("xkey", _curve_key),
    "allowed_accounts": Key("allowed_accounts", texts),
}


def _auth_callout(section: Section, node: Node) -> None:
    table, errors = section.table("auth_callout", node), len(section.result.errors)
    read_map(node, table, AUTH_CALLOUT, "Unknown field {} parsing authorization callout")
    if len(section.result.errors) > errors:
        return
    last = [node, *entries(node).values()][-1]  # where nats-server is when it finds that out
    if not table.values.get("issuer"):
        fail(last, "Authorization callouts require an issuer to be specified")
    if not table.values.get("auth_users"):
        fail(last, "Authorization callouts require authorized users to be specified")


AUTHORIZATION: dict[str, Handler] = {
    "user": Key("user", text),
    "username": Key("user", text),
    "pass": Key("password", secret),
    "password": Key("password", secret),
    "token": Key("token", secret),
    "timeout": timeout("timeout_s", warns=True),
    "users": _each("users", _user),
    "default_permission": _nested("default_permissions", _permissions),
    "default_permissions": _nested("default_permissions", _permissions),
    "permissions": _nested("default_permissions", _permissions),
    "auth_callout": _auth_callout,
    "auth_hook": _auth_callout,
    "proxy_required": Missing("the PROXY protocol"),
}


def read_authorization(section: Section, node: Node) -> None:
    """Read the map `authorization`."""
    read_map(node, section.table("authorization", node), AUTHORIZATION)


# Mappings.


def _weight(node: Node) -> int:
    written = node.value
    if isinstance(written, str) and written.endswith("%") and written[:-1].isdecimal():
        written = int(written[:-1][:9])
    if isinstance(written, bool) or not isinstance(written, int):
        fail(node, f"Invalid weight {node.value!r} for mapping destination")
    if not 0 <= written <= 100:
        fail(node, f"Invalid weight {written} for mapping destination")
    return written


DESTINATION: dict[str, Handler] = {
    "dest": Key("destination", text),
    "destination": Key("destination", text),
    "weight": Key("weight_percent", _weight),
    "cluster": Missing("clustering"),
}


def read_mappings(section: Section, node: Node) -> None:
    """Read the map `mappings`: source subjects with one or more destinations."""
    for source, entry in entries(node).items():
        mapping = section.append("mappings", entry)
        mapping.put("source", source, entry)
        if isinstance(entry.value, str):
            mapping.append("destinations", entry).put("destination", entry.value, entry)
            continue
        if not isinstance(entry.value, dict | list):
            fail(entry, "Expected an entry for the mapping destination")
        for item in entry.value if isinstance(entry.value, list) else [entry]:
            destination = mapping.append("destinations", item)
            errors = len(section.result.errors)
            read_map(item, destination, DESTINATION, "Unknown field {} for mapping destination")
            is_read = errors == len(section.result.errors)
            if is_read and "weight_percent" not in destination.values:
                name = destination.values.get("destination", "")
                fail(item, f'Missing weight for mapping destination "{name}"')


# Accounts.


def _exchanged(kind: str, section: Section, node: Node) -> None:
    """Read the subject of an export; refuse a second kind in the same entry."""
    other = "service" if kind == "stream" else "stream"
    if other in section.values:
        fail(node, f'Detected {kind} "{node.value}" but already saw a {other}')
    section.put(kind, text(node), node)


def _import_source(kind: str, section: Section, node: Node) -> None:
    other = "service" if kind == "stream" else "stream"
    if other in section.values:
        fail(node, f"Detected {kind} but already saw a {other}")
    source = section.table(kind, node)
    read_map(node, source, {"account": Key("account", text), "subject": Key("subject", text)})


_RESPONSE_TIME = Key("response_threshold_s", seconds)

EXPORT: dict[str, Handler] = {
    "stream": partial(_exchanged, "stream"),
    "service": partial(_exchanged, "service"),
    "accounts": Key("accounts", texts),
    "response": Key("response_type", choice("singleton", "single", "stream", "chunked")),
    "response_type": Key("response_type", choice("singleton", "single", "stream", "chunked")),
    **dict.fromkeys(
        ("threshold", "response_threshold", "response_max_time", "response_time"), _RESPONSE_TIME
    ),
    "account_token_position": Key("account_token_position", integer),
    "latency": Missing("latency tracking"),
    "allow_trace": Missing("message traces that leave their account"),
}

IMPORT: dict[str, Handler] = {
    "stream": partial(_import_source, "stream"),
    "service": partial(_import_source, "service"),
    "prefix": Key("prefix", text),
    "to": Key("to", text),
    "share": Key("share", boolean),
    "allow_trace": Missing("message traces that leave their account"),
}


def _export(section: Section, node: Node) -> None:
    read_map(node, section, EXPORT)
    if section.values.get("response_type") == "single":
        section.values["response_type"] = "singleton"


def _import(section: Section, node: Node) -> None:
    read_map(node, section, IMPORT)


ACCOUNT_LIMITS: dict[str, Handler] = {
    "max_connections": Key("max_connections", integer),
    "max_conn": Key("max_connections", integer),
    "max_subscriptions": Key("max_subscriptions", integer),
    "max_subs": Key("max_subscriptions", integer),
    "max_payload": Key("max_payload_bytes", integer),
    "max_pay": Key("max_payload_bytes", integer),
    "max_leafnodes": Key("max_leafnodes", integer),
    "max_leafs": Key("max_leafnodes", integer),
}


def _account_limits(section: Section, node: Node) -> None:
    read_map(node, section, ACCOUNT_LIMITS, "Unknown field {} parsing account limits")


def _trace_destination(node: Node) -> str:
    subject = text(node)
    if not is_valid_publish_subject(subject.encode()):
        fail(node, f'Trace destination "{subject}" is not valid')
    return subject


def _trace_sampling(node: Node) -> int:
    written = node.value
    if isinstance(written, str) and written.removesuffix("%").isdecimal():
        written = int(written.removesuffix("%")[:9])
    if isinstance(written, bool) or not isinstance(written, int) or not 1 <= written <= 100:
        fail(node, f"expected a sampling of 1 to 100 per cent, got {show(node)}")
    return written


MESSAGE_TRACE: dict[str, Handler] = {
    "dest": Key("destination", _trace_destination),
    "sampling": Key("sampling_percent", _trace_sampling),
}


def _message_trace(section: Section, node: Node) -> None:
    """Read where an account's traces go: a subject, or a map."""
    table = section.table("msg_trace", node)
    if isinstance(node.value, str):
        table.put("destination", _trace_destination(node), node)
        return
    read_map(
        node, table, MESSAGE_TRACE, "Unknown field {} parsing account message trace map/struct"
    )
    if "destination" not in table.values and table.values:
        table.values.clear()
        section.warn(node, "Trace destination sampling ignored since no destination was set")


ACCOUNT: dict[str, Handler] = {
    "nkey": Key("nkey", text),
    "users": _each("users", _user),
    "exports": _each("exports", _export),
    "imports": _each("imports", _import),
    "mappings": read_mappings,
    "maps": read_mappings,
    "limits": _nested("limits", _account_limits),
    "default_permissions": _nested("default_permissions", _permissions),
    "jetstream": read_account_jetstream,
    "msg_trace": _message_trace,
    "trace_dest": _message_trace,
}


def read_accounts(section: Section, node: Node) -> None:
    """Read `accounts`: a map of accounts, or a list of names."""
    section.values.setdefault("accounts", [])
    if isinstance(node.value, list):
        for item in node.value:
            section.append("accounts", item).put("name", _account_name(text(item), item), item)
        return
    for name, entry in entries(node).items():
        account = section.append("accounts", entry)
        account.put("name", _account_name(name, entry), entry)
        read_map(entry, account, ACCOUNT)


def _account_name(name: str, node: Node) -> str:
    if name == GLOBAL_ACCOUNT:
        fail(node, f'"{name}" is a Reserved Account')
    return name


# Operator mode.

_MEMORY = ("MEM", "MEMORY")


def _resolver(section: Section, node: Node) -> None:
    if isinstance(node.value, dict):
        read_map(node, section.table("operator", node), RESOLVER)
        return
    word = text(node)
    if word.upper() in _MEMORY:
        section.put("operator.resolver", "memory", node)
    elif word.upper().startswith("URL"):
        fail(node, 'field "resolver": midge does not support the URL resolver')
    else:
        fail(node, "error parsing account resolver, should be MEM or a map with dir and type")


def _resolver_type(node: Node) -> str:
    if text(node).upper() == "CACHE":
        fail(node, 'field "type": midge does not support the cache resolver')
    if text(node).upper() in _MEMORY:
        return "memory"
    if text(node).upper() != "FULL":
        fail(node, "expected 'full' or 'mem'")
    return "directory"


def _resolver_timeout(_section: Section, node: Node) -> None:
    """Check the resolver's time-out for other servers; a single server has no use for it."""
    seconds(node)


_DELETION = Missing("the deletion of account JWTs by request")

RESOLVER: dict[str, Handler] = {
    "type": Key("resolver", _resolver_type),
    "dir": Key("resolver_directory", text),
    "allow_delete": _DELETION,
    "hard_delete": _DELETION,
    "interval": Key("resolver_interval_s", seconds),
    "limit": Missing("a limit on account JWTs"),
    "timeout": _resolver_timeout,
}


def _preload(node: Node) -> dict[str, str]:
    return {name: text(entry) for name, entry in entries(node).items()}


OPERATOR: dict[str, Handler] = {
    **dict.fromkeys(
        ("operator", "operators", "root", "roots", "root_operator", "root_operators"),
        Key("operator.jwts", texts),
    ),
    **dict.fromkeys(("resolver", "account_resolver", "accounts_resolver"), _resolver),
    "resolver_preload": Key("operator.resolver_preload", _preload),
    "resolver_tls": Missing("the URL resolver"),
    "resolver_pinned_accounts": Key("operator.resolver_pinned_accounts", texts),
    "trusted": Key("operator.trusted_keys", texts),
    "trusted_keys": Key("operator.trusted_keys", texts),
}
"""Top-level keys of operator mode."""


# TLS.


def _handshake_first(section: Section, node: Node) -> None:
    """Read true, false, "auto", or the time that "auto" waits."""
    if isinstance(node.value, bool):
        section.put("handshake_first", "on" if node.value else "off", node)
        return
    word = text(node)
    if word.lower() in ("true", "on", "false", "off"):
        section.put("handshake_first", "on" if word.lower() in ("true", "on") else "off", node)
        return
    if word.lower() in ("auto", "auto_fallback"):
        section.put("handshake_first", "auto", node)
    elif (fallback_s := duration(node, word)) > 0:
        section.put("handshake_first", "auto", node)
        section.put("handshake_first_fallback_s", fallback_s, node)
    else:
        section.put("handshake_first", "on", node)


def _min_version(node: Node) -> str:
    if text(node) not in ("1.2", "1.3"):
        fail(node, f"unsupported TLS minimum version {node.value!r}, expected '1.2' or '1.3'")
    return text(node)


_STORE = Missing("certificate stores")

TLS: dict[str, Handler] = {
    "cert_file": Key("cert_file", text),
    "key_file": Key("key_file", text),
    "ca_file": Key("ca_file", text),
    "verify": Key("verify", boolean),
    "verify_and_map": Key("verify_and_map", boolean),
    "timeout": timeout("timeout_s"),
    "cipher_suites": Key("cipher_suites", texts),
    "min_version": Key("min_version", _min_version),
    "handshake_first": _handshake_first,
    "first": _handshake_first,
    "immediate": _handshake_first,
    "connection_rate_limit": Key("connection_rate_limit", limit),
    "pinned_certs": Key("pinned_certs", texts),
    "verify_cert_and_check_known_urls": Missing("certificate checks against known URLs"),
    "curve_preferences": Missing("a choice of curves"),
    "insecure": Missing("insecure TLS"),
    "certs": Missing("several certificates"),
    "certificates": Missing("several certificates"),
    "allow_insecure_cipher_suites": Missing("insecure cipher suites"),
    "ocsp_peer": Missing("OCSP"),
    **dict.fromkeys(
        ("cert_store", "cert_match", "cert_match_by", "cert_match_skip_invalid", "ca_certs_match"),
        _STORE,
    ),
}


def read_tls(section: Section, node: Node) -> None:
    """Read a map `tls`.

    nats-server takes one without a certificate, and no handshake succeeds then.
    """
    table, errors = section.table("tls", node), len(section.result.errors)
    read_map(node, table, TLS, "error parsing tls config, unknown field {}")
    if "cert_file" not in table.values and errors == len(section.result.errors):
        fail(node, "missing 'cert_file' in TLS configuration: no certificate, no handshake")
