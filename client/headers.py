"""Header blocks of deliveries, with the status that a server's own answers carry."""

from typing import NamedTuple

from midge.client.errors import ServerError
from midge.protocol.headers import VERSION, read_headers


class Headers(NamedTuple):
    """A header block taken apart. `status` is 0 unless the server itself answers."""

    status: int
    description: str
    fields: dict[str, list[str]]


def parse_headers(raw: bytes) -> Headers:
    r"""Parse a header block; bytes that are not UTF-8 become `\xNN`.

    Raises:
        ServerError: the block does not begin with `NATS/1.0`.

    """
    if not raw.startswith(VERSION):
        shown = raw[:40].partition(b"\r\n")[0].decode(errors="backslashreplace")
        raise ServerError(f"headers begin with {shown!r}, expected {VERSION.decode()!r}")
    code, description, fields = read_headers(raw, "backslashreplace")
    status = int(code) if len(code) == 3 and code.isdecimal() and code.isascii() else 0
    return Headers(status, description, fields)
