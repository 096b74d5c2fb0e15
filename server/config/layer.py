"""One source of options: its plain values with their places, and the text of the file it is in."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from midge.server.errors import ConfigError

if TYPE_CHECKING:
    from os import PathLike

    from midge.server.config.type_check import Path as KeyPath

FILE_SIZE_MAX_BYTES = 16 << 20
"""Largest configuration file; real ones are a thousand times smaller."""


class Layer(Struct, frozen=True):
    """The values of one source, as nested plain values, and where each was written."""

    values: dict[str, Any]
    where: Callable[[KeyPath], str]
    error: type[ConfigError] = ConfigError
    """The exception class for errors of this source."""
    warnings: tuple[str, ...] = ()
    """Probable mistakes with which nats-server's `-t` fails."""
    notes: tuple[str, ...] = ()
    """Lines that midge takes and does not honour, and what holds instead."""


def read_text(file: str | PathLike[str]) -> str:
    """Return the text of a configuration file of acceptable size.

    Raises: ConfigError when it cannot be read, is too large, or is not UTF-8.
    """
    try:
        with open(file, "rb") as stream:  # noqa: PTH123 - importing pathlib takes 3 ms
            content = stream.read(FILE_SIZE_MAX_BYTES + 1)
    except OSError as error:
        verb = "read" if error.errno == errno.EISDIR else "open"
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"{verb} {file}: {reason}") from None
    if len(content) > FILE_SIZE_MAX_BYTES:
        limit = FILE_SIZE_MAX_BYTES >> 20
        raise ConfigError(f"expected at most {limit} MiB", where=str(file))
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError("expected UTF-8 text", where=f"{file}:{line}") from None
