"""Errors in nats-server's configuration files, in its own form: `x.conf:3:1: text`."""

from __future__ import annotations

from midge.server.errors import ConfigError


class ConfError(ConfigError):
    """A wrong line; `where` is `file:line:column`, or empty when the text has it."""

    def __str__(self) -> str:
        """Return the position and the fault."""
        text = f"{self.key}: {self.text}" if self.key else self.text
        return f"{self.where}: {text}" if self.where else text
