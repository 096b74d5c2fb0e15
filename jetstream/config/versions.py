"""API levels, and their keys in the metadata of streams and consumers.

``_nats.req.level`` is stored with a configuration. ``_nats.ver`` and ``_nats.level`` are only in
answers; their values in a request are dropped.
"""

from __future__ import annotations

from midge.protocol import COMPATIBLE_VERSION

API_LEVEL = 5
"""The level of nats-server 2.15, all of whose features midge has."""

SERVER_VERSION = COMPATIBLE_VERSION
"""The value of `_nats.ver`: the version of nats-server whose API this is."""

_DIGITS_MAX = 4000  # Python's int() refuses longer numbers

REQUIRED_LEVEL_KEY = "_nats.req.level"
VERSION_KEY = "_nats.ver"
LEVEL_KEY = "_nats.level"


def is_known_level(text: str) -> bool:
    """Return whether `text` is an API level that midge has."""
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > _DIGITS_MAX:
        return False
    return int(text) <= API_LEVEL


def set_required_level(metadata: dict[str, str], level: int) -> None:
    """Store the required level, and drop the keys that belong only in answers."""
    _drop_dynamic(metadata)
    metadata[REQUIRED_LEVEL_KEY] = str(level)


def dynamic_metadata() -> dict[str, str]:
    """Return the metadata that answers add."""
    return {VERSION_KEY: SERVER_VERSION, LEVEL_KEY: str(API_LEVEL)}


def copy_metadata(metadata: dict[str, str], stored: dict[str, str]) -> None:
    """Copy the version keys of `stored` to `metadata`, so that both can be compared."""
    _drop_dynamic(metadata)
    if REQUIRED_LEVEL_KEY in stored:
        metadata[REQUIRED_LEVEL_KEY] = stored[REQUIRED_LEVEL_KEY]
    else:
        metadata.pop(REQUIRED_LEVEL_KEY, None)


def _drop_dynamic(metadata: dict[str, str]) -> None:
    metadata.pop(VERSION_KEY, None)
    metadata.pop(LEVEL_KEY, None)
