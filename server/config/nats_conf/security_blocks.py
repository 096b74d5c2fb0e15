"""The keys of security: authorization, accounts, mappings, operator mode."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from midge.protocol.nkeys import ACCOUNT_PREFIX, CURVE_PREFIX, is_public_nkey
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.config.nats_conf.errors import ConfError
from midge.server.config.nats_conf.jetstream_blocks import read_account_jetstream
from midge.server.config.nats_conf.sections import (
    Handler,
    IgnoredKey,
    Key,
    Section,
    positive,
    read_map,
    timeout,
)
from midge.server.config.nats_conf.tls_block import RESOLVER_TLS
from midge.server.config.nats_conf.values import (
    boolean,
    choice,
    entries,
    fail,
    integer,
    items,
    limit,
    listed,
    secret,
    show,
    span,
    text,
    texts,
)
from midge.sublist.subjects import is_valid_publish_subject, is_valid_subject

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.config.nats_conf.parser import ConfNode


def _nested(
    name: str, read: Callable[[Section, ConfNode], None]
) -> Callable[[Section, ConfNode], None]:
    """Return a handler that reads a map into the table `name`."""
    return lambda section, node: read(section.table(name, node), node)


def _each(
    name: str, read: Callable[[Section, ConfNode], None]
) -> Callable[[Section, ConfNode], None]:
    """Return a handler that reads an array of maps into the list `name`."""

    def handle(section: Section, node: ConfNode) -> None:
        section.values.setdefault(name, [])
        for item in items(node):
            read(section.append(name, item), item)

    return handle


# Permissions.

_UNKNOWN_PERMISSION = "Unknown field {} parsing permissions"


def read_subjects(name: str, section: Section, node: ConfNode) -> None:
    """Read one direction: a subject, a list of them, or a map of `allow` and `deny`."""
    inner = section.table(name, node)
    given = entries(node) if isinstance(node.value, dict) else {"allow": node}
    for key, entry in given.items():
        if key.lower() not in ("allow", "deny"):
            text_ = f'Unknown field name "{key}" parsing subject permissions, '
            raise ConfError(f"{text_}only 'allow' or 'deny' are permitted", where=entry.where)
        for before in inner.values.get(key.lower(), ()):  # of another word for this direction
            if not all(is_valid_subject(part.encode()) for part in before.split()):
                fail(node, f'subject "{before}" is not a valid subject')
        inner.put(key.lower(), texts(entry), entry)


def _allow_responses(section: Section, node: ConfNode) -> None:
    if isinstance(node.value, bool):
        if node.value:
            section.table("allow_responses", node)
        return
    read_map(node, section.table("allow_responses", node), RESPONSES, _UNKNOWN_PERMISSION)


def _unless_zero(
    name: str, read: Callable[[ConfNode], float]
) -> Callable[[Section, ConfNode], None]:
    """Return the handler of a number of which 0 means the default, and a negative one no limit."""

    def handle(section: Section, node: ConfNode) -> None:
        if value := read(node):
            section.put(name, value, node)

    return handle


RESPONSES: dict[str, Handler] = {
    **dict.fromkeys(
        ("max", "max_msgs", "max_messages", "max_responses"), _unless_zero("max", integer)
    ),
    **dict.fromkeys(("expires", "expiration", "ttl"), _unless_zero("expires_s", span)),
}

PERMISSIONS: dict[str, Handler] = {
    **dict.fromkeys(("publish", "pub", "import"), partial(read_subjects, "publish")),
    **dict.fromkeys(("subscribe", "sub", "export"), partial(read_subjects, "subscribe")),
    "allow_responses": _allow_responses,
    "publish_allow_responses": _allow_responses,
}


def _permissions(section: Section, node: ConfNode) -> None:
    read_map(node, section, PERMISSIONS, _UNKNOWN_PERMISSION)


# Users and authorization.


def _connection_types(node: ConfNode) -> list[str]:
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
    "proxy_required": Key("proxy_required", boolean),
    "messages_per_s": Key("messages_per_s", limit),  # midge's own, as the next one is
    "bytes_per_s": Key("bytes_per_s", limit),
}


def _user(section: Section, node: ConfNode) -> None:
    read_map(node, section, USER)


def _account_key(node: ConfNode) -> str:
    key = text(node)
    if not is_public_nkey(ACCOUNT_PREFIX, key):
        fail(node, f'Expected callout user to be a valid public account nkey, got "{key}"')
    return key


def _curve_key(node: ConfNode) -> str:
    key = text(node)
    if not is_public_nkey(CURVE_PREFIX, key):
        fail(node, f'Expected callout xkey to be a valid public xkey, got "{key}"')
    return key


AUTH_CALLOUT: dict[str, Handler] = {
    "issuer": Key("issuer", _account_key),
    "account": Key("account", text),
    "acc": Key("account", text),
    "auth_users": Key("auth_users", listed),
    "users": Key("auth_users", listed),
    "xkey": Key("xkey", _curve_key),
    "key": Key("xkey", _curve_key),
    "allowed_accounts": Key("allowed_accounts", listed),
}


def _auth_callout(section: Section, node: ConfNode) -> None:
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
    "proxy_required": Key("proxy_required", boolean),
}


def read_authorization(section: Section, node: ConfNode) -> None:
    """Read the map `authorization`."""
    read_map(node, section.table("authorization", node), AUTHORIZATION)


# Mappings.


def _weight(node: ConfNode) -> int:
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
    "cluster": Key("cluster", text),
}


def read_mappings(section: Section, node: ConfNode) -> None:
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


def _exchanged(kind: str, section: Section, node: ConfNode) -> None:
    """Read the subject of an export; refuse a second kind in the same entry."""
    other = "service" if kind == "stream" else "stream"
    if other in section.values:
        fail(node, f'Detected {kind} "{node.value}" but already saw a {other}')
    section.put(kind, text(node), node)


def _import_source(kind: str, section: Section, node: ConfNode) -> None:
    other = "service" if kind == "stream" else "stream"
    if other in section.values:
        fail(node, f"Detected {kind} but already saw a {other}")
    source = section.table(kind, node)
    read_map(node, source, {"account": Key("account", text), "subject": Key("subject", text)})


def _threshold(section: Section, node: ConfNode) -> None:
    """Read the time for a response; 0 means the default, and so does a negative one."""
    if span(node) > 0:
        section.put("response_threshold_s", span(node), node)


def _latency(section: Section, node: ConfNode) -> None:
    """Read the subject for latencies, and how many requests are measured."""
    if isinstance(node.value, str):
        section.put("latency_subject", node.value, node)
        return
    given = entries(node)
    if "subject" not in given:
        fail(node, "Latency subject required, but missing")
    section.put("latency_subject", text(given["subject"]), node)
    sampling = given.get("sampling")
    if sampling is not None:
        by_headers = str(sampling.value).strip().lower() == "headers"
        percent = 0 if by_headers else _trace_sampling(sampling)
        section.put("latency_sampling_percent", percent, sampling)


_RESPONSES = {"single": "singleton", "chunk": "chunked"}
_RESPONSE_TYPES = ("response", "response_type")
_THRESHOLDS = ("threshold", "response_threshold", "response_max_time", "response_time")

EXPORT: dict[str, Handler] = {
    "stream": partial(_exchanged, "stream"),
    "service": partial(_exchanged, "service"),
    "accounts": Key("accounts", listed),
    **dict.fromkeys(
        _RESPONSE_TYPES,
        Key("response_type", choice("singleton", "single", "stream", "chunk", "chunked")),
    ),
    **dict.fromkeys(_THRESHOLDS, _threshold),
    "account_token_position": Key("account_token_position", integer),
    "latency": _latency,
    "allow_trace": Key("allow_trace", boolean),
}


IMPORT: dict[str, Handler] = {
    "stream": partial(_import_source, "stream"),
    "service": partial(_import_source, "service"),
    "prefix": Key("prefix", text),
    "to": Key("to", text),
    "share": Key("share", boolean),
    "allow_trace": Key("allow_trace", boolean),
}


def _export(section: Section, node: ConfNode) -> None:
    read_map(node, section, EXPORT)
    written = section.values.get("response_type")
    if written in _RESPONSES:
        section.values["response_type"] = _RESPONSES[written]
    given = {name.lower(): entry for name, entry in entries(node).items()}
    for names, what in ((_RESPONSE_TYPES, "response type"), (_THRESHOLDS, "response threshold")):
        twice = [given[name] for name in names if name in given]
        if len(twice) > 1:
            fail(twice[1], f"Duplicate {what} detected")
    if "stream" in section.values:
        for name in (*_RESPONSE_TYPES, *_THRESHOLDS, "latency", "allow_trace"):
            if name in given:
                fail(given[name], "Detected response directive on non-service")


def _exports(section: Section, node: ConfNode) -> None:
    """Read the exports; one of nothing is none, as on nats-server."""
    section.values.setdefault("exports", [])
    for item in items(node):
        if {"stream", "service"} & {name.lower() for name in entries(item)}:
            _export(section.append("exports", item), item)
        else:
            _export(Section(section.result, {}, section.path), item)
            section.note(item, "an export without a stream or service has no effect")


def _import(section: Section, node: ConfNode) -> None:
    read_map(node, section, IMPORT)
    if "service" not in section.values:
        return
    given = {name.lower(): entry for name, entry in entries(node).items()}
    if "allow_trace" in given:
        fail(given["allow_trace"], "Detected allow_trace directive on a non-stream")
    if section.values.pop("prefix", ""):
        section.note(node, 'field "prefix" has no effect: only an import of a stream has one')


ACCOUNT_LIMITS: dict[str, Handler] = {
    "max_connections": Key("max_connections", integer),
    "max_conn": Key("max_connections", integer),
    "max_subscriptions": Key("max_subscriptions", integer),
    "max_subs": Key("max_subscriptions", integer),
    "max_payload": Key("max_payload_bytes", integer),
    "max_pay": Key("max_payload_bytes", integer),
    "max_leafnodes": Key("max_leafnodes", integer),
    "max_leafs": Key("max_leafnodes", integer),
    "messages_per_s": Key("messages_per_s", limit),  # midge's own, as the next one is
    "bytes_per_s": Key("bytes_per_s", limit),
}


def _account_limits(section: Section, node: ConfNode) -> None:
    read_map(node, section, ACCOUNT_LIMITS, "Unknown field {} parsing account limits")


def _trace_destination(node: ConfNode) -> str:
    subject = text(node)
    if not is_valid_publish_subject(subject.encode()):
        fail(node, f'Trace destination "{subject}" is not valid')
    return subject


def _trace_sampling(node: ConfNode) -> int:
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


def _message_trace(section: Section, node: ConfNode) -> None:
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
    "exports": _exports,
    "imports": _each("imports", _import),
    "mappings": read_mappings,
    "maps": read_mappings,
    "limits": _nested("limits", _account_limits),
    "default_permissions": _nested("default_permissions", _permissions),
    "jetstream": read_account_jetstream,
    "msg_trace": _message_trace,
    "trace_dest": _message_trace,
}


def read_accounts(section: Section, node: ConfNode) -> None:
    """Read `accounts`: a map of accounts, or a list of names."""
    section.values.setdefault("accounts", [])
    if not isinstance(node.value, list | dict):
        section.note(node, 'field "accounts" has no effect: it is neither a map nor a list')
        return
    if isinstance(node.value, list):
        for item in node.value:
            section.append("accounts", item).put("name", _account_name(text(item), item), item)
        return
    for name, entry in entries(node).items():
        account = section.append("accounts", entry)
        account.put("name", _account_name(name, entry), entry)
        read_map(entry, account, ACCOUNT)


def _account_name(name: str, node: ConfNode) -> str:
    if name == GLOBAL_ACCOUNT:
        fail(node, f'"{name}" is a Reserved Account')
    return name


# Operator mode.

_URL = re.compile(r'URL\(\s*"?([^"\s]*)"?\s*\)', re.IGNORECASE)
_MEMORY = ("MEM", "MEMORY")


def _resolver(section: Section, node: ConfNode) -> None:
    if isinstance(node.value, dict):
        table = section.table("operator", node)
        table.values.pop("resolver_directory", None)
        read_map(node, table, RESOLVER)
        if table.values.get("resolver") == "directory" and not table.values.get(
            "resolver_directory"
        ):
            fail(node, "dir has no value and needs to point to a directory")
        deletes = table.values.get("resolver_allow_delete")
        if table.values.get("resolver_hard_delete") and not deletes:
            fail(node, "hard_delete has no effect without delete")
        return
    word = text(node)
    if word.upper() in _MEMORY:
        section.put("operator.resolver", "memory", node)
    elif found := _URL.fullmatch(word):
        section.put("operator.resolver", "url", node)
        section.put("operator.resolver_url", found[1], node)
    else:
        expected = 'MEM or URL("url") or a map with dir and type'
        fail(node, f"error parsing account resolver, should be {expected}")


def _resolver_type(node: ConfNode) -> str:
    if text(node).upper() in _MEMORY:
        return "memory"
    if text(node).upper() not in ("FULL", "CACHE"):
        fail(node, "expected 'full', 'cache' or 'mem'")
    return "directory"


RESOLVER: dict[str, Handler] = {
    "type": Key("resolver", _resolver_type),
    "dir": Key("resolver_directory", text),
    "allow_delete": Key("resolver_allow_delete", boolean),
    "hard_delete": Key("resolver_hard_delete", boolean),
    "interval": positive("resolver_interval_s", "interval", span),
    "limit": Key("resolver_max_accounts", limit),
    "ttl": IgnoredKey("account JWTs stay until they expire", span, (0.0,)),
    "timeout": IgnoredKey("other servers are not asked for account JWTs", span),
}


def _resolver_tls(section: Section, node: ConfNode) -> None:
    """Read the encryption of a URL resolver; keys that are for a listener are only checked."""
    table = section.table("operator", node).table("resolver_tls", node)
    read_map(node, table, RESOLVER_TLS, "error parsing tls config, unknown field {}")


def _preload(node: ConfNode) -> dict[str, str]:
    return {name: text(entry) for name, entry in entries(node).items()}


OPERATOR: dict[str, Handler] = {
    **dict.fromkeys(
        ("operator", "operators", "root", "roots", "root_operator", "root_operators"),
        Key("operator.jwts", texts),
    ),
    **dict.fromkeys(("resolver", "account_resolver", "accounts_resolver"), _resolver),
    "resolver_preload": Key("operator.resolver_preload", _preload),
    "resolver_tls": _resolver_tls,
    "resolver_pinned_accounts": Key("operator.resolver_pinned_accounts", texts),
    "trusted": Key("operator.trusted_keys", texts),
    "trusted_keys": Key("operator.trusted_keys", texts),
}
"""Top-level keys of operator mode."""
