"""The two JSON documents of the protocol: CONNECT from the client and INFO to it."""

import functools
import re
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType, structs

from midge.protocol.errors import ProtocolError


class ConnectOptions(msgspec.Struct, kw_only=True):
    """The fields of CONNECT.

    The defaults are nats-server's, for absent fields and for clients that send no CONNECT.
    """

    verbose: bool = True
    pedantic: bool = True
    echo: bool = True
    protocol: int = 0
    headers: bool = False
    no_responders: bool = False
    lang: str = ""
    version: str = ""
    name: str = ""
    user: str = ""
    password: str = msgspec.field(default="", name="pass")
    auth_token: str = ""
    jwt: str = ""
    nkey: str = ""
    sig: str = ""
    tls_required: bool = False
    account: str = ""
    new_account: bool = False
    proxy_sig: str = ""


DEFAULTS = ConnectOptions()
"""The options without a CONNECT; never changed."""

_REMEMBERED_MAX = 64
_REMEMBERED_BYTES = 512
_remembered: dict[bytes, ConnectOptions] = {}
"""Parsed documents without credentials, by their bytes: clients of one kind send equal ones."""

_2_63 = 1 << 63
_SURROGATES = "[\ud800-\udfff]"


@functools.cache
def _fields() -> dict[str, tuple[str, Any]]:
    """Return attribute and type of each field of CONNECT by its name; built on the first call."""
    fields = msgspec.structs.fields(ConnectOptions)
    return {field.encode_name: (field.name, field.type) for field in fields}


def parse_connect(document: bytes, earlier: ConnectOptions | None = None) -> ConnectOptions:
    """Read the JSON of a CONNECT as Go's decoder would; absent fields are as in `earlier`.

    Names are matched without regard to case, the last of two duplicates counts, unknown names and
    nulls are ignored, and invalid UTF-8 and lone surrogates are replaced. A value of the wrong type
    is refused, and so is ``1.0`` or a number of more than 64 bits for an int.

    Raises:
        ProtocolError: not a JSON object, or a value of the wrong type; closes without an ``-ERR``.
    """
    if earlier is not None and earlier is not DEFAULTS:
        return _read_connect(document, earlier)
    known = _remembered.get(document)
    if known is not None:
        return structs.replace(known)
    options = _read_connect(document, DEFAULTS)
    if len(document) <= _REMEMBERED_BYTES and not _has_credentials(options):
        if len(_remembered) >= _REMEMBERED_MAX:
            _remembered.clear()
        _remembered[document] = structs.replace(options)
    return options


def _has_credentials(options: ConnectOptions) -> bool:
    """Return whether `options` name an identity or hold a proof of one."""
    return any(
        (
            options.user,
            options.password,
            options.auth_token,
            options.jwt,
            options.nkey,
            options.sig,
            options.proxy_sig,
        )
    )


def _read_connect(document: bytes, earlier: ConnectOptions) -> ConnectOptions:
    """Read `document`; fields that it leaves out are as in `earlier`."""
    fields = _fields()
    options = structs.replace(earlier)
    for name, value in _object_pairs(document, "CONNECT"):
        field = fields.get(name.lower())
        if field is None or value is None:
            continue
        attribute, kind = field
        if type(value) is not kind or (kind is int and not -_2_63 <= value < _2_63):
            # Name only the type: the message is logged, and the value may be a password.
            expected = "int of 64 bits" if type(value) is kind else kind.__name__
            got = type(value).__name__
            raise ProtocolError(None, f"CONNECT: {name}: expected {expected}, got {got}")
        if kind is str and not value.isascii():
            # A lone surrogate cannot be encoded, and names and passwords are encoded later.
            setattr(options, attribute, re.sub(_SURROGATES, "\ufffd", value))
        else:
            setattr(options, attribute, value)
    return options


def check_json_object(document: bytes, verb: str) -> None:
    """Raise unless `document` is a JSON object or null.

    Raises:
        ProtocolError: it is neither; `verb` names the command for the log.
    """
    _object_pairs(document, verb)


def _object_pairs(document: bytes, verb: str) -> list[tuple[str, Any]]:
    """Decode a JSON object to its pairs, in order, duplicates kept; null counts as an empty one."""
    text = document.decode("utf-8", "replace")
    try:
        value = _decoder()(text)
    except RecursionError:
        # The document is nested deeper than the decoder allows. Only unknown fields can be nested,
        # and their values are not used.
        try:
            value = _decoder()(_flattened(text))
        except (ValueError, RecursionError):
            raise ProtocolError(None, f"{verb}: nested too deeply") from None
    except ValueError as error:
        raise ProtocolError(None, f"{verb}: {error}") from None
    if value is None:
        return []
    if not isinstance(value, _Pairs):
        raise ProtocolError(None, f"{verb}: expected a JSON object, got {type(value).__name__}")
    return value.pairs


class _Pairs:
    """A JSON object as its pairs."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


@functools.cache
def _decoder() -> Callable[[str], Any]:
    """Return the function that decodes a document; made on the first call."""
    import json  # noqa: PLC0415 - a server that starts needs none

    return json.JSONDecoder(object_pairs_hook=_Pairs, parse_constant=_refuse_constant).decode


def _flattened(text: str) -> str:
    """Replace every object and array inside the outermost object by null; brackets must balance."""
    kept: list[str] = []
    stack: list[str] = []
    in_string = escaped = False
    for char in text:
        if in_string:
            if len(stack) < 2:
                kept.append(char)
            in_string = escaped or char != '"'
            escaped = char == "\\" and not escaped
            continue
        if char in "{[":
            stack.append("}" if char == "{" else "]")
            if len(stack) == 2:
                kept.append("null")
                continue
        elif char in "}]":
            if not stack or stack.pop() != char:
                raise ValueError("unbalanced brackets")
            if len(stack) == 1:
                continue
        elif char == '"':
            in_string = True
        if len(stack) < 2:
            kept.append(char)
    if stack:
        raise ValueError("unbalanced brackets")
    return "".join(kept)


class Info(msgspec.Struct, kw_only=True):
    """The fields of INFO; an unset field is left out."""

    server_id: str
    server_name: str
    version: str
    proto: int = 1
    git_commit: str | UnsetType = UNSET
    go: str
    host: str
    port: int
    headers: bool = True
    auth_required: Literal[True] | UnsetType = UNSET
    tls_required: Literal[True] | UnsetType = UNSET
    tls_verify: Literal[True] | UnsetType = UNSET
    tls_available: Literal[True] | UnsetType = UNSET
    max_payload: int
    jetstream: Literal[True] | UnsetType = UNSET
    client_id: int | UnsetType = UNSET
    client_ip: str | UnsetType = UNSET
    nonce: str | UnsetType = UNSET
    cluster: str | UnsetType = UNSET
    cluster_dynamic: Literal[True] | UnsetType = UNSET
    domain: str | UnsetType = UNSET
    connect_urls: list[str] | UnsetType = UNSET
    ldm: Literal[True] | UnsetType = UNSET
    connect_info: Literal[True] | UnsetType = UNSET
    remote_account: str | UnsetType = UNSET
    acc_is_sys: Literal[True] | UnsetType = UNSET
    api_lvl: int = 5
    xkey: str

    def line(self) -> bytes:
        """Return the whole INFO line, with a blank before the CR LF as nats-server writes it."""
        return b"INFO %b \r\n" % msgspec.json.encode(self)
