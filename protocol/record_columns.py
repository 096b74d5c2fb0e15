"""The columns of the record format, as plain data. The recorder writes it, the pipeline reads it.

Both build their Arrow schemas from these tables, and the lake builds its first tables from them.
Nothing here needs pyarrow.
"""

from typing import Final, Literal, NamedTuple

Kind = Literal["time", "string", "binary", "headers", "int32", "int64", "bool"]
"""The type of a column. `time` is in microseconds UTC; `headers` are names as the client sent them,
each with its values in order; the others are Arrow's type names."""


class Column(NamedTuple):
    """One column: its name, its type, and whether every row has a value."""

    name: str
    kind: Kind
    is_required: bool = True


def _optional(name: str, kind: Kind) -> Column:
    return Column(name, kind, is_required=False)


_WHO = (
    Column("time", "time"),
    Column("server", "string"),
    Column("account", "string"),
    Column("cid", "int64"),
)

MESSAGES: Final = (
    *_WHO,
    Column("subject", "string"),
    _optional("reply", "string"),
    _optional("headers", "headers"),
    _optional("payload", "binary"),
    Column("size", "int64"),
    Column("plain_deliveries", "int32"),
    Column("queue_deliveries", "int32"),
    Column("no_interest", "bool"),
)
"""A row for each message that the server routed; `cid` published it, `size` counts headers too."""

INTEREST: Final = (
    *_WHO,
    Column("sid", "string"),
    Column("event", "string"),
    Column("subject", "string"),
    _optional("queue", "string"),
    Column("delivered", "int64"),
    _optional("client_name", "string"),
)
"""A row for each start and end of a subscription: `event` is `sub`, and then `unsub` for UNSUB,
`auto_unsub` when its maximum was reached, or `disconnect` when its client disconnected."""

CLIENTS: Final = (
    *_WHO,
    Column("event", "string"),
    _optional("client_name", "string"),
    _optional("lang", "string"),
    _optional("version", "string"),
    _optional("host", "string"),
    _optional("port", "int32"),
    _optional("reason", "string"),
    Column("in_msgs", "int64"),
    Column("out_msgs", "int64"),
    Column("in_bytes", "int64"),
    Column("out_bytes", "int64"),
)
"""A row for each `connect` and `disconnect`; `in_` is from the client; `reason` is null on connect.
"""

DATA_SETS: Final = {"messages": MESSAGES, "interest": INTEREST, "clients": CLIENTS}
"""The three data sets by the name of their directory under the record root."""
