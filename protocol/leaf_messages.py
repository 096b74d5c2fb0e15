"""The JSON documents of a leaf node link: INFO of the server that accepts, CONNECT of the other.

Unknown fields are ignored, and every known one may be missing: the link decides which of them a
peer must send, and refuses in nats-server's words.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from midge.protocol.errors import ProtocolError

LOOP_PREFIX = b"$LDS."
"""Prefix of loop detection subjects: a server that gets its own back from a peer is in a loop."""

LOOP_TEXT = "Loop detected for leafnode account"
"""Start of the -ERR text that reports a loop."""


class SubjectRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Subjects that a link may use, or must not.

    An empty list is left out, because nats-server reads an empty `allow` as nothing allowed.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class LeafInfo(msgspec.Struct, kw_only=True):
    """The INFO of the accepting server; an unset field is left out of the line.

    Only the INFO of a port for clients has `client_ip`. `connect_info` marks the second INFO, which
    answers CONNECT and has the fields that depend on the connecting server: it may subscribe to the
    subjects in `import_` and publish to those in `export`.
    """

    server_id: str = ""
    server_name: str = ""
    version: str = ""
    proto: int = 0
    git_commit: str | UnsetType = UNSET
    go: str | UnsetType = UNSET
    host: str = ""
    port: int = 0
    headers: bool | UnsetType = UNSET
    auth_required: bool | UnsetType = UNSET
    tls_required: bool | UnsetType = UNSET
    tls_verify: bool | UnsetType = UNSET
    max_payload: int = 0
    client_id: int | UnsetType = UNSET
    client_ip: str | UnsetType = UNSET
    jetstream: bool | UnsetType = UNSET
    domain: str | UnsetType = UNSET
    ip: str | UnsetType = UNSET
    nonce: str | UnsetType = UNSET
    cluster: str | UnsetType = UNSET
    connect_info: bool | UnsetType = UNSET
    info_on_connect: bool | UnsetType = UNSET
    remote_account: str | UnsetType = UNSET
    acc_is_sys: bool | UnsetType = UNSET
    compression: str | UnsetType = UNSET
    leafnode_urls: tuple[str, ...] | UnsetType | None = UNSET
    ws_connect_urls: tuple[str, ...] | UnsetType | None = UNSET
    import_: SubjectRules | UnsetType | None = msgspec.field(default=UNSET, name="import")
    export: SubjectRules | UnsetType | None = UNSET
    isolate_leafnode_interest: bool | UnsetType = UNSET
    ldm: bool | UnsetType = UNSET
    api_lvl: int | UnsetType = UNSET

    def line(self) -> bytes:
        """Return the whole INFO line, with a blank before the CR LF as nats-server's."""
        return b"INFO %b \r\n" % msgspec.json.encode(self)


class LeafConnect(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The CONNECT of the connecting server."""

    version: str = ""
    nkey: str = ""
    jwt: str = ""
    sig: str = ""
    user: str = ""
    password: str = msgspec.field(default="", name="pass")
    auth_token: str = ""
    server_id: str = ""
    domain: str = ""
    name: str = ""
    is_hub: bool = False
    cluster: str = ""
    headers: bool = False
    jetstream: bool = False
    deny_pub: tuple[str, ...] | None = None
    isolate: bool = False
    compress_mode: str = ""
    gateway: str = ""
    lang: str = ""
    remote_account: str = ""
    protocol: int = 0
    proxy_sig: str = ""

    def line(self) -> bytes:
        """Return the whole CONNECT line."""
        return b"CONNECT %b\r\n" % msgspec.json.encode(self)


_read_info = msgspec.json.Decoder(LeafInfo).decode
_read_connect = msgspec.json.Decoder(LeafConnect).decode


def parse_leaf_info(document: bytes) -> LeafInfo:
    """Read the JSON of an INFO line; see `read_document`, also for what it raises."""
    return read_document(_read_info, document, "INFO")


def parse_leaf_connect(document: bytes) -> LeafConnect:
    """Read the JSON of a CONNECT line; see `read_document`, also for what it raises."""
    return read_document(_read_connect, document, "CONNECT")


Document = TypeVar("Document")


def read_document(decode: Callable[[bytes], Document], document: bytes, verb: str) -> Document:
    """Decode the JSON behind `verb` with `decode`, a decoder of msgspec.

    Invalid UTF-8 is replaced, as Go's decoder does.

    Raises:
        ProtocolError: not a JSON object, or a known field has a value of the wrong type. The
            message is logged: it names the field and the types, but never the value, because it may
            be a password.
    """
    try:
        try:
            return decode(document)
        except UnicodeDecodeError:
            return decode(document.decode("utf-8", "replace").encode())
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(None, f"{verb}: {error}") from None
