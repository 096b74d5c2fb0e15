"""`/jsz`, as far as it needs no JetStream: its arguments, and the page of a server without."""

from typing import TYPE_CHECKING, Any

from midge.server.monitoring import go_format
from midge.server.monitoring.arguments import Arguments

if TYPE_CHECKING:
    from midge.server.monitoring.state import State

_FLAGS = (
    "accounts",
    "streams",
    "consumers",
    "direct-consumers",
    "config",
    "leader-only",
    "stream-leader-only",
    "raft",
)


async def jsz(state: "State", arguments: Arguments) -> dict[str, Any]:
    """Return the page."""
    given = {flag: arguments.flag(flag) for flag in _FLAGS}
    offset, limit = arguments.page()
    engine = state.jetstream
    if engine is None:
        return _off(state)
    # It imports midge.jetstream, for which a server without JetStream should not pay.
    from midge.server.monitoring import jetstream_details  # noqa: PLC0415

    name = arguments.text("acc")
    return await jetstream_details.page(state, engine, given, name, offset, limit)


def _off(state: "State") -> dict[str, Any]:
    """Return the page without JetStream."""
    return {
        "memory": 0,
        "storage": 0,
        "reserved_memory": 0,
        "reserved_storage": 0,
        "accounts": 0,
        "ha_assets": 0,
        "api": {"level": 0, "total": 0, "errors": 0},
        "server_id": state.broker.keys.server_id,
        "now": go_format.timestamp(state.broker.clock.wall()),
        "disabled": True,
        "config": {"max_memory": 0, "max_storage": 0},
        "streams": 0,
        "consumers": 0,
        "messages": 0,
        "bytes": 0,
        "total": 0,
    }
