"""Convert text to the value of a setting by its type.

For the environment and the command line, where every value is text. Text that does not fit is
returned unchanged; the type check that follows reports the error.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import inspect

from midge.server.config.schema import strip_metadata

_INTEGER = r"[+-]?[0-9]{1,19}"
_NUMBER = r"[+-]?[0-9]{1,19}(\.[0-9]{1,19})?"
TRUTH = {"true": True, "yes": True, "on": True, "1": True}
TRUTH |= {"false": False, "no": False, "off": False, "0": False}


def from_text(text: str, kind: Any) -> Any:
    """Return the plain value of `text` for a setting of type `kind`.

    A list of texts is written with commas, or as JSON when an item holds one; other lists and
    tables are written as JSON.
    """
    kind = strip_metadata(kind)
    if isinstance(kind, inspect.StrType | inspect.LiteralType):
        return text
    if isinstance(kind, inspect.BoolType):
        return TRUTH.get(text.strip().lower(), text)
    if isinstance(kind, inspect.IntType):
        return int(text) if re.fullmatch(_INTEGER, text.strip()) else text
    if isinstance(kind, inspect.FloatType):
        return float(text) if re.fullmatch(_NUMBER, text.strip()) else text
    if _is_list_of_texts(kind) and not text.lstrip().startswith("["):
        return [item.strip() for item in text.split(",") if item.strip()]
    return _from_json(text)


def _is_list_of_texts(kind: Any) -> bool:
    if not isinstance(kind, inspect.VarTupleType):
        return False
    return isinstance(strip_metadata(kind.item_type), inspect.StrType | inspect.LiteralType)


def _from_json(text: str) -> Any:
    import json  # noqa: PLC0415 - few values are tables

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
