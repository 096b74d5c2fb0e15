"""Reading the JSON of the INFO and CONNECT lines of links."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from midge.protocol.errors import ProtocolError

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
