"""API levels, and what the metadata of streams and consumers say of them.

``_nats.req.level`` is stored with a configuration; ``_nats.ver`` and ``_nats.level`` only stand in
answers, and what a request says of them is dropped.
"""

from __future__ import annotations

from midge.protocol import COMPATIBLE_VERSION

API_LEVEL = 5
"""The level of nats-server 2.15, whose features are all here."""

SERVER_VERSION = COMPATIBLE_VERSION
"""The value of `_nats.ver`: the version of nats-server whose API this is."""

_DIGITS_MAX = 4000  # Python reads no more at once

REQUIRED_LEVEL_KEY = "_nats.req.level"
VERSION_KEY = "_nats.ver"
LEVEL_KEY = "_nats.level"


def is_supported(metadata: dict[str, str]) -> bool:
    """Tell whether what a stored configuration requires is known here."""
    level = metadata.get(REQUIRED_LEVEL_KEY, "")
    return not level or is_known_level(level)


def is_known_level(text: str) -> bool:
    """Tell whether `text` is a level that is met."""
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > _DIGITS_MAX:
        return False
    return int(text) <= API_LEVEL


def set_required_level(metadata: dict[str, str], level: int) -> None:
    """Note the required level, and drop what only answers may say."""
    _drop_dynamic(metadata)
    metadata[REQUIRED_LEVEL_KEY] = str(level)


def dynamic_metadata() -> dict[str, str]:
    """Return what answers add to the metadata."""
    return {VERSION_KEY: SERVER_VERSION, LEVEL_KEY: str(API_LEVEL)}


def copy_metadata(metadata: dict[str, str], stored: dict[str, str]) -> None:
    """Make `metadata` say of versions what `stored` says, so that both can be compared."""
    _drop_dynamic(metadata)
    if REQUIRED_LEVEL_KEY in stored:
        metadata[REQUIRED_LEVEL_KEY] = stored[REQUIRED_LEVEL_KEY]
    else:
        metadata.pop(REQUIRED_LEVEL_KEY, None)


def _drop_dynamic(metadata: dict[str, str]) -> None:
    metadata.pop(VERSION_KEY, None)
    metadata.pop(LEVEL_KEY, None)
