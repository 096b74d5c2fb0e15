"""The pages of features that midge does not have."""

from typing import TYPE_CHECKING, Any

from midge.server.monitoring import go_format
from midge.server.monitoring.arguments import Arguments

if TYPE_CHECKING:
    from midge.server.monitoring.state import State


def gatewayz(state: "State", arguments: Arguments) -> dict[str, Any]:
    """Return the page without gateways."""
    arguments.flag("accs")
    return {**_head(state), "outbound_gateways": {}, "inbound_gateways": {}}


def _head(state: "State") -> dict[str, Any]:
    return {
        "server_id": state.broker.keys.server_id,
        "now": go_format.timestamp(state.broker.clock.wall()),
    }
