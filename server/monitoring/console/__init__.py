"""The web console: one static page on the monitoring port, and what it may know."""

from midge.server.monitoring.console.pages import add_console

__all__ = ["add_console"]
