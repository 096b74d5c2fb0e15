"""What the tools around nats-server read from its monitoring pages, by page and field.

Each kind says how the tool takes the value: Go refuses a fraction for a whole number, a number for
a text, and a time or a duration that is not in its own form.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_FORMS = {
    "text": re.compile(r".*"),
    "time": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)"),
    "duration": re.compile(r"((\d+(\.\d+)?)(ns|µs|ms|s|m|h))+"),
    "uptime": re.compile(r"(\d+y)?(\d+d)?(\d+h)?(\d+m)?\d+s"),
    "id": re.compile(r"N[A-Z2-7]{55}"),
}


def _fields(**names_by_kind: str) -> dict[str, Any]:
    """Map the names under each kind to it."""
    return {name: kind for kind, names in names_by_kind.items() for name in names.split()}


_SERVER = _fields(id="server_id", text="server_name version")
_TRAFFIC = _fields(whole="in_msgs out_msgs in_bytes out_bytes")
_CLIENT = _TRAFFIC | _fields(
    whole="cid port pending_bytes subscriptions",
    text="kind type ip name lang version",
    time="start last_activity",
    duration="rtt",
    uptime="uptime idle",
)
_CLIENTS = _fields(whole="num_connections total offset limit") | {"connections": [_CLIENT]}
_COUNTS = _fields(whole="msgs bytes")
_ACCOUNT = _fields(
    text="acc name",
    whole="conns leafnodes total_conns num_subscriptions slow_consumers",
) | {"sent": _COUNTS, "received": _COUNTS}
_ACCOUNT_DETAIL = _fields(
    text="account_name name_tag",
    time="update_time",
    flag="expired complete jetstream_enabled",
    whole="leafnode_connections client_connections subscriptions",
)
_JETSTREAM = _fields(id="server_id", flag="disabled", whole="streams consumers messages bytes")
_JETSTREAM["config"] = _fields(whole="max_memory max_storage")

READ = {
    "nats-top": {
        "/varz": _SERVER
        | _TRAFFIC
        | _fields(time="now", uptime="uptime", number="cpu", whole="mem slow_consumers"),
        "/connz?limit=1024&sort=cid": _CLIENTS,
        "/connz?limit=2&sort=subs&subs=1": {
            "connections": [_CLIENT | {"subscriptions_list": ["text"]}]
        },
    },
    "prometheus-nats-exporter": {
        "/varz": _SERVER | _fields(time="start config_load_time"),
        "/connz": _CLIENTS,
        "/connz?auth=true": {"connections": [_CLIENT | _fields(text="account name_tag")]},
        "/subsz": _fields(whole="num_subscriptions", number="cache_hit_rate"),
        "/routez": _fields(whole="num_routes", text="server_name"),
        "/gatewayz": {"server_id": "id", "outbound_gateways": {}, "inbound_gateways": {}},
        "/leafz": {"leafnodes": "whole", "leafs": []},
        "/accstatz?unused=1": {"account_statz": [_ACCOUNT]},
        "/accountz": {"server_id": "id", "accounts": ["text"]},
        "/accountz?acc=A": {"account_detail": _ACCOUNT_DETAIL},
        "/healthz": {"status": "text"},
        "/healthz?js-enabled-only=true": {"status": "text"},
        "/healthz?js-server-only=true": {"status": "text"},
        "/jsz": _JETSTREAM,
        "/jsz?accounts=true": _JETSTREAM,
        "/jsz?streams=true": _JETSTREAM,
        "/jsz?consumers=true&config=true&raft=true": _JETSTREAM,
    },
}
"""By tool and page the fields and their kinds; of a list, what each of its elements is."""

WALKED = ("/varz", "/subsz", "/routez")
"""Pages of which prometheus-nats-exporter makes a metric of every number, and of some texts."""

LABELS = frozenset(
    {"server_id", "server_name", "version", "domain", "leader", "name", "start", "config_load_time"}
)
"""Names of texts of which it makes labels and times, at any depth."""

FRACTIONS = frozenset({"cpu", "cache_hit_rate", "avg_fanout", "auth_timeout", "tls_timeout"})
"""Names of the numbers that Go reads as floating; it refuses a point in any other."""


def unread(expected: Any, value: Any, place: str = "") -> Iterator[str]:
    """Yield what of `value` the tool could not take, as `field.of[].fields: what`."""
    if isinstance(expected, dict):
        for name, kind in expected.items():
            below = f"{place}.{name}" if place else name
            if not isinstance(value, dict) or name not in value:
                yield f"{below}: missing"
            else:
                yield from unread(kind, value[name], below)
    elif isinstance(expected, list):
        if not isinstance(value, list):
            yield f"{place}: expected a list, got {value!r}"
            return
        if expected and not value:
            yield f"{place}: expected elements"
        for one in value:
            yield from unread(expected[0], one, f"{place}[]")
    elif not _fits(expected, value):
        yield f"{place}: expected {expected}, got {value!r}"


def _fits(kind: str, value: Any) -> bool:
    if kind == "flag":
        return isinstance(value, bool)
    if kind in {"whole", "number"}:
        allowed = int if kind == "whole" else int | float
        return isinstance(value, allowed) and not isinstance(value, bool)
    return isinstance(value, str) and bool(_FORMS[kind].fullmatch(value))


def labels(value: Any, place: str = "") -> set[str]:
    """Return the places of the texts that become labels, within objects as the exporter walks."""
    if not isinstance(value, dict):
        return set()
    found = set()
    for name, one in value.items():
        if isinstance(one, str) and name in LABELS:
            found.add(f"{place}{name}")
        found |= labels(one, f"{place}{name}.")
    return found


def fractions(value: Any, name: str = "") -> set[str]:
    """Return the names of all numbers that are written with a point."""
    if isinstance(value, dict):
        return {found for key, one in value.items() for found in fractions(one, key)}
    if isinstance(value, list):
        return {found for one in value for found in fractions(one, name)}
    return {name} if isinstance(value, float) else set()
