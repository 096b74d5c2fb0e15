"""The record format's three data sets as Arrow schemas; `docs/recorder.md` says what they mean."""

import pyarrow as pa

TIME = pa.timestamp("us", tz="UTC")
HEADERS = pa.map_(pa.string(), pa.list_(pa.string()))


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


MESSAGES = pa.schema(
    [
        _required("time", TIME),
        _required("server", pa.string()),
        _required("account", pa.string()),
        _required("cid", pa.int64()),
        _required("subject", pa.string()),
        pa.field("reply", pa.string()),
        pa.field("headers", HEADERS),
        pa.field("payload", pa.binary()),
        _required("size", pa.int64()),
        _required("plain_deliveries", pa.int32()),
        _required("queue_deliveries", pa.int32()),
        _required("no_interest", pa.bool_()),
    ]
)

INTEREST = pa.schema(
    [
        _required("time", TIME),
        _required("server", pa.string()),
        _required("account", pa.string()),
        _required("cid", pa.int64()),
        _required("sid", pa.string()),
        _required("event", pa.string()),
        _required("subject", pa.string()),
        pa.field("queue", pa.string()),
        _required("delivered", pa.int64()),
        pa.field("client_name", pa.string()),
    ]
)

CLIENTS = pa.schema(
    [
        _required("time", TIME),
        _required("server", pa.string()),
        _required("account", pa.string()),
        _required("cid", pa.int64()),
        _required("event", pa.string()),
        pa.field("client_name", pa.string()),
        pa.field("lang", pa.string()),
        pa.field("version", pa.string()),
        pa.field("host", pa.string()),
        pa.field("port", pa.int32()),
        pa.field("reason", pa.string()),
        _required("in_msgs", pa.int64()),
        _required("out_msgs", pa.int64()),
        _required("in_bytes", pa.int64()),
        _required("out_bytes", pa.int64()),
    ]
)

SCHEMAS = {"messages": MESSAGES, "interest": INTEREST, "clients": CLIENTS}
"""The data sets by the name of their directory."""
