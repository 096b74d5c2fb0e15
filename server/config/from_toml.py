"""Read a configuration file in TOML into a layer of settings that knows its lines."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

from midge.server.config.layer import Layer, read_text
from midge.server.config.toml_lines import KeyLines
from midge.server.errors import ConfigError

if TYPE_CHECKING:
    from os import PathLike

    from midge.server.config.type_check import Path as KeyPath

_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)$")
"""The position in an error text of the TOML parser."""

_DEEP_KEY = re.compile(
    r"""^[ \t]*\[{0,2}[ \t]*(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){32}""", re.MULTILINE
)
"""A key with more parts than any setting has; tomllib takes quadratic time for those."""


def read_toml_file(file: str | PathLike[str]) -> Layer:
    """Read the settings in `file`.

    Raises:
        ConfigError: it cannot be read, or is not TOML.
    """
    text = read_text(file).removeprefix("\ufeff")  # a byte order mark, from editors on Windows
    deep = _DEEP_KEY.search(text)
    if deep is not None:
        line = text.count("\n", 0, deep.end()) + 1
        raise ConfigError("key is nested too deeply", where=f"{file}:{line}")
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(error, file) from None
    except RecursionError:
        raise ConfigError("values are nested too deeply", where=str(file)) from None
    lines = KeyLines(text.replace("\r\n", "\n"))

    def where(path: KeyPath) -> str:
        line = lines.line_of(path)
        return f"{file}:{line}" if line else str(file)

    return Layer(values, where)


def _syntax_error(error: tomllib.TOMLDecodeError, file: str | PathLike[str]) -> ConfigError:
    """Move the position from the parser's text to where all errors have it."""
    text = str(error)
    found = _PLACE.search(text)
    if found is None:
        return ConfigError(text, where=str(file))
    return ConfigError(text[: found.start()], where=f"{file}:{found[1]}:{found[2]}")
