"""Build a tree of nodes from the tokens: variables looked up, includes read and merged.

Nesting and the total bytes of included files are bounded; cycles of files and variables are errors.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from midge.server.config.layer import FILE_SIZE_MAX_BYTES, read_text
from midge.server.config.nats_conf.errors import ConfError
from midge.server.config.nats_conf.lexer import Lexer, TokenKind
from midge.server.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from midge.server.config.nats_conf.lexer import Token

INCLUDE_DEPTH_MAX = 32
"""Deepest chain of files that include one another."""

INCLUDES_MAX = 1000
"""Most files that one configuration reads, counted as often as they are included."""

VARIABLE_DEPTH_MAX = 16
"""Longest chain of environment variables that refer to one another."""

BCRYPT_PREFIX = "2a$"
"""A word `$2a$…` is a password hash, not a variable."""


class ConfNode:
    """A value with the place of its key, or of itself within an array."""

    __slots__ = ("column", "file", "is_used", "line", "value")

    def __init__(self, value: Any, file: str, line: int, column: int) -> None:
        """Keep `value`: a dict of nodes, a list of nodes, or a scalar."""
        self.value = value
        self.file = file
        self.line = line
        self.column = column
        self.is_used = False
        """Whether a variable refers to it, which excuses an unknown name."""

    @property
    def where(self) -> str:
        """Return `file:line:column`."""
        return f"{self.file}:{self.line}:{self.column}"


class ConfSource:
    """State that all files of one configuration share: environment, size budget, open files."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Look variables up in `environment` when no file defines them."""
        self.environment = environment
        self.bytes_left = FILE_SIZE_MAX_BYTES
        self.files_left = INCLUDES_MAX
        self.open_files: list[str] = []
        self.open_variables: list[str] = []

    def read(self, file: str) -> str:
        """Return the text of `file`, within the remaining budget."""
        self.files_left -= 1
        if self.files_left < 0:
            raise ConfError(f"{file}: expected at most {INCLUDES_MAX} files with all includes")
        text = read_text(file)
        if "\0" in text:
            line = text[: text.index("\0")].count("\n") + 1
            raise ConfError("expected text, found a NUL character", where=f"{file}:{line}")
        self.bytes_left -= len(text)
        if self.bytes_left < 0:
            limit = FILE_SIZE_MAX_BYTES >> 20
            raise ConfError(f"{file}: expected at most {limit} MiB with all includes")
        return text


def parse_file(file: str, source: ConfSource) -> dict[str, ConfNode]:
    """Return the top-level entries of `file`.

    Raises: ConfError.
    """
    resolved = os.path.realpath(file)
    if resolved in source.open_files:
        raise ConfError(f"{file} includes itself")
    if len(source.open_files) >= INCLUDE_DEPTH_MAX:
        raise ConfError(f"{file}: files include one another more than {INCLUDE_DEPTH_MAX} deep")
    source.open_files.append(resolved)
    try:
        return ConfParser(source.read(file), file, source).parse()
    finally:
        source.open_files.pop()


class ConfParser:
    """The entries of one text."""

    def __init__(self, text: str, file: str, source: ConfSource) -> None:
        """Parse `text` of `file`, to which includes are relative."""
        self._file = file
        self._source = source
        self._tokens = Lexer(text, file).tokens()
        self._root: dict[str, ConfNode] = {}
        self._containers: list[dict[str, ConfNode] | list[ConfNode]] = [self._root]
        self._keys: list[Token] = []
        self._starts: list[Token] = []

    def parse(self) -> dict[str, ConfNode]:
        """Return the entries."""
        for token in self._tokens:
            self._take(token)
        return self._root

    def _take(self, token: Token) -> None:
        kind = token.kind
        if kind is TokenKind.KEY:
            self._keys.append(token)
        elif kind in (TokenKind.MAP_START, TokenKind.ARRAY_START):
            self._starts.append(token)
            self._containers.append({} if kind is TokenKind.MAP_START else [])
        elif kind in (TokenKind.MAP_END, TokenKind.ARRAY_END):
            self._add(self._starts.pop(), self._containers.pop())
        elif kind is TokenKind.VARIABLE:
            self._add(token, self._look_up(token))
        elif kind is TokenKind.INCLUDE:
            self._include(token)
        else:
            self._add(token, token.value)

    def _add(self, token: Token, value: Any) -> None:
        container = self._containers[-1]
        if isinstance(container, list):
            container.append(ConfNode(value, self._file, token.line, token.column))
            return
        key = self._keys.pop()
        container[key.value] = ConfNode(value, self._file, key.line, key.column)

    def _include(self, token: Token) -> None:
        container = self._containers[-1]
        if not isinstance(container, dict):
            raise TypeError("the lexer takes `include` for a key, which arrays do not have")
        folder = "" if token.value.startswith("/") else self._file.rpartition("/")[0] or "."
        file = os.path.normpath(f"{folder}/{token.value}" if folder else token.value)
        try:
            container.update(parse_file(file, self._source))
        except ConfigError as error:
            raise ConfError(f"error parsing include file '{token.value}', {error}") from None

    def _look_up(self, token: Token) -> Any:
        name = token.value
        if name.startswith(BCRYPT_PREFIX):
            return f"${name}"
        for container in reversed(self._containers):
            if isinstance(container, dict) and name in container:
                container[name].is_used = True
                return container[name].value
        if name in self._source.environment:
            return self._from_environment(token)
        raise self._not_found(token)

    def _from_environment(self, token: Token) -> Any:
        """Return the value of an environment variable, whose text is read as a value."""
        name, source = token.value, self._source
        if name in source.open_variables or len(source.open_variables) >= VARIABLE_DEPTH_MAX:
            raise ConfError(f"variable reference cycle for '{name}'")
        source.open_variables.append(name)
        try:
            text = f"value={source.environment[name]}"
            found = ConfParser(text, self._file, source).parse().get("value")
        except ConfigError as error:
            place = f"variable reference for '{name}' on line {token.line}"
            raise ConfError(f"{place} could not be parsed: {error}") from None
        finally:
            source.open_variables.pop()
        if found is None:  # a map whose last key has no value is the value of that
            raise self._not_found(token)
        return found.value

    def _not_found(self, token: Token) -> ConfError:
        text = f"variable reference for '{token.value}' on line {token.line} can not be found"
        return ConfError(text)
