"""The states of a connection, and which of them may follow which.

```
CONNECTING ──> INTRODUCING <──> CONNECTED
    │  │            │               │
    │  └────────────┴──> CLOSING <──┘
    └──────────────────────> CLOSED
```

Halts of the parser, stops of reading and a half-closed stream are not states, because they may
occur in several states.
"""

from enum import IntEnum


class ChannelState(IntEnum):
    """ChannelState of a connection; `Channel.state` holds it as a C integer."""

    CONNECTING = 0
    """The transport is not made yet; a TLS handshake may be in progress."""

    INTRODUCING = 1
    """The client is not authenticated yet, or re-authenticates by another CONNECT."""

    CONNECTED = 2
    """Its CONNECT has been accepted."""

    CLOSING = 3
    """No input is handled any more; the last output is being written."""

    CLOSED = 4
    """The transport is gone or was never made, and all references are dropped."""


TRANSITIONS: dict[ChannelState, frozenset[ChannelState]] = {
    ChannelState.CONNECTING: frozenset(
        {ChannelState.INTRODUCING, ChannelState.CLOSING, ChannelState.CLOSED}
    ),
    ChannelState.INTRODUCING: frozenset({ChannelState.CONNECTED, ChannelState.CLOSING}),
    ChannelState.CONNECTED: frozenset({ChannelState.INTRODUCING, ChannelState.CLOSING}),
    ChannelState.CLOSING: frozenset({ChannelState.CLOSED}),
    ChannelState.CLOSED: frozenset(),
}
"""The states that may follow each state. Another CONNECT re-authenticates a client."""


_ALLOWED = frozenset(
    (int(before), int(after)) for before, allowed in TRANSITIONS.items() for after in allowed
)
"""The same as plain numbers: enum members would cost each connection 2 µs."""


def may_follow(before: int, after: int) -> bool:
    """Return whether a connection may go from one state to another."""
    return (before, after) in _ALLOWED
