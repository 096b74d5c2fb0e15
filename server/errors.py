"""The server's errors.

MidgeError
  ConfigError     a setting is wrong: names file, line and key
"""

from __future__ import annotations

from midge.protocol.errors import MidgeError


class ConfigError(MidgeError):
    """An invalid setting: its key, its place, and the expected value.

    `str(error)` is one line: `listen.port: expected int, got 'x' (config.toml:12)`.
    """

    __module__ = "midge"

    def __init__(self, text: str, *, key: str = "", where: str = "") -> None:
        """Keep the parts: `where` is `file:line`, a variable's name or a flag."""
        self.text = text
        self.key = key
        self.where = where
        super().__init__(str(self))

    def __str__(self) -> str:
        key = f"{self.key}: " if self.key else ""
        where = f" ({self.where})" if self.where else ""
        return f"{key}{self.text}{where}"


class CombinedConfigError(ConfigError):
    """Several wrong settings, reported together, one line each."""

    def __init__(self, errors: list[ConfigError]) -> None:
        """Keep `errors`; the first one lends its key and place."""
        self.errors = errors
        first = errors[0]
        super().__init__(first.text, key=first.key, where=first.where)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)
