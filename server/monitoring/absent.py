"""The pages of what one midge does not have, and whether it is well."""

from typing import TYPE_CHECKING, Any

from midge.server.monitoring import go_format
from midge.server.monitoring.arguments import Arguments

if TYPE_CHECKING:
    from midge.server.monitoring.state import State


def routez(state: "State", arguments: Arguments) -> dict[str, Any]:
    """Say that there are no routes."""
    arguments.subscriptions()
    return {
        "server_id": state.broker.keys.server_id,
        "server_name": state.server_name,
        "now": go_format.timestamp(state.broker.clock.wall()),
        "num_routes": 0,
        "routes": [],
    }


def leafz(state: "State", arguments: Arguments) -> dict[str, Any]:
    """Say that there are no leaf nodes."""
    arguments.flag("subs")
    return {**_head(state), "leafnodes": 0, "leafs": []}


def gatewayz(state: "State", arguments: Arguments) -> dict[str, Any]:
    """Say that there are no gateways."""
    arguments.flag("accs")
    return {**_head(state), "outbound_gateways": {}, "inbound_gateways": {}}


_JSZ_FLAGS = (
    "accounts",
    "streams",
    "consumers",
    "direct-consumers",
    "config",
    "leader-only",
    "stream-leader-only",
    "raft",
)


def jsz(state: "State", arguments: Arguments) -> dict[str, Any]:
    """Say that there is no JetStream."""
    for flag in _JSZ_FLAGS:
        arguments.flag(flag)
    arguments.page()
    return {
        "memory": 0,
        "storage": 0,
        "reserved_memory": 0,
        "reserved_storage": 0,
        "accounts": 0,
        "ha_assets": 0,
        "api": {"level": 0, "total": 0, "errors": 0},
        **_head(state),
        "disabled": True,
        "config": {"max_memory": 0, "max_storage": 0},
        "streams": 0,
        "consumers": 0,
        "messages": 0,
        "bytes": 0,
        "total": 0,
    }


def healthz(state: "State", arguments: Arguments) -> tuple[int, dict[str, Any]]:
    """Give the HTTP status and the document."""
    for flag in ("js-enabled-only", "js-server-only", "js-enabled", "js-meta-only", "details"):
        arguments.flag(flag)
    account, stream = arguments.text("account"), arguments.text("stream")
    if stream and not account:
        return 400, _unwell("error", '"account" must not be empty when checking stream health')
    if arguments.text("consumer") and not stream:
        return 400, _unwell("error", '"stream" must not be empty when checking consumer health')
    if state.broker.lame_duck:
        return 503, _unwell("unavailable", "server is in lame duck mode")
    return 200, {"status": "ok"}


def _unwell(status: str, error: str) -> dict[str, Any]:
    return {"status": status, "error": error}


def _head(state: "State") -> dict[str, Any]:
    return {
        "server_id": state.broker.keys.server_id,
        "now": go_format.timestamp(state.broker.clock.wall()),
    }
