"""Read a configuration file in TOML into a layer of settings that knows its lines."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

from midge.server.config.layer import Layer, read_text
from midge.server.errors import ConfigError

if TYPE_CHECKING:
    from os import PathLike

    from midge.server.config.type_check import Path

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

    def where(path: Path) -> str:
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


_KEY_PART = re.compile(r"""[ \t]*("(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)[ \t]*""")
_SKIPPED = re.compile(r"(?:[ \t\r\n]|#[^\n]*)+")
_IN_VALUE = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}'
    r"|'''(?:[^']|'(?!''))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*|[\[\]{}\n]",
    re.DOTALL,
)


class KeyLines:
    """The lines of a text's keys and tables; ask with `line_of`."""

    def __init__(self, text: str) -> None:
        """Scan `text`, a valid TOML document."""
        self._text = text
        self._lines: dict[Path, int] = {}
        self._arrays: dict[Path, int] = {}
        self._scan()

    def line_of(self, path: Path) -> int | None:
        """Return the line of `path`, or of the nearest table around it."""
        for end in range(len(path), 0, -1):
            line = self._lines.get(path[:end])
            if line is not None:
                return line
        return None

    def _scan(self) -> None:
        text, position, line = self._text, 0, 1
        table: Path = ()
        while position < len(text):
            skipped = _SKIPPED.match(text, position)
            if skipped:
                line += skipped[0].count("\n")
                position = skipped.end()
                continue
            start = position
            if text[position] == "[":
                table, position = self._header(position, line)
            else:
                keys, position = self._keys(position)
                self._note(self._place(table, keys), line)
                position = self._skip_value(position + 1)
            line += text.count("\n", start, position)

    def _header(self, position: int, line: int) -> tuple[Path, int]:
        is_array = self._text.startswith("[[", position)
        width = 2 if is_array else 1
        keys, position = self._keys(position + width)
        path = self._place((), keys)
        if is_array:
            # `_place` led to the last element; a header of the array itself opens the next one.
            array = path[:-1] if isinstance(path[-1], int) else path
            self._note(array, line)
            index = self._arrays.get(array, -1) + 1
            self._arrays[array] = index
            path = (*array, index)
        self._note(path, line)
        return path, position + width

    def _keys(self, position: int) -> tuple[list[str], int]:
        keys = []
        while True:
            part = _KEY_PART.match(self._text, position)
            if part is None:
                raise ValueError("tomllib accepted what has no key")
            keys.append(_unquote(part[1]))
            position = part.end()
            if self._text[position] != ".":
                return keys, position
            position += 1

    def _place(self, table: Path, keys: list[str]) -> Path:
        path = table
        for key in keys:
            path = (*path, key)
            if path in self._arrays:
                path = (*path, self._arrays[path])
        return path

    def _note(self, path: Path, line: int) -> None:
        for end in range(1, len(path) + 1):
            self._lines.setdefault(path[:end], line)

    def _skip_value(self, position: int) -> int:
        depth = 0
        for found in _IN_VALUE.finditer(self._text, position):
            piece = found[0]
            if piece in "[{":
                depth += 1
            elif piece in "]}":
                depth -= 1
            elif piece == "\n" and depth == 0:
                return found.start()
        return len(self._text)


def _unquote(key: str) -> str:
    if key[0] not in "\"'":
        return key
    (name,) = tomllib.loads(f"{key} = 0")
    return name
