"""Read maps by a table of their keys.

A table has for each key (in small letters; nats-server ignores case) the setting it fills and the
reader of its value. Keys that are not in the table are refused, never ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from midge.protocol.errors import quote
from midge.server.config.nats_conf.errors import ConfError
from midge.server.config.nats_conf.values import (
    address,
    duration,
    entries,
    fail,
    integer,
    seconds,
    text,
)
from midge.server.errors import ConfigError

if TYPE_CHECKING:
    from midge.server.config.nats_conf.parser import ConfNode
    from midge.server.config.type_check import Path


class Result:
    """The plain values of a file, with the position of each, and all errors."""

    def __init__(self) -> None:
        """Start empty."""
        self.values: dict[str, Any] = {}
        self.places: dict[Path, str] = {}
        self.errors: list[ConfigError] = []
        self.warnings: list[str] = []
        self.notes: list[str] = []


class Section(NamedTuple):
    """The target of a map: a table of the plain values, and its path."""

    result: Result
    values: dict[str, Any]
    path: Path

    def put(self, name: str, value: Any, node: ConfNode) -> None:
        """Set `name` of this section; a dotted name goes into a table within."""
        *tables, last = name.split(".")
        inner = self
        for table in tables:
            inner = inner.table(table, node)
        inner.values[last] = value
        self.result.places[(*inner.path, last)] = node.where

    def table(self, name: str, node: ConfNode) -> Section:
        """Return the section of the table `name` within this one."""
        path = (*self.path, name)
        self.result.places.setdefault(path, node.where)
        return Section(self.result, self.values.setdefault(name, {}), path)

    def append(self, name: str, node: ConfNode) -> Section:
        """Return the section of a new element of the list `name`."""
        elements = self.values.setdefault(name, [])
        elements.append({})
        self.result.places.setdefault((*self.path, name), node.where)
        path = (*self.path, name, len(elements) - 1)
        self.result.places[path] = node.where
        return Section(self.result, elements[-1], path)

    def warn(self, node: ConfNode, text: str) -> None:
        """Add a warning about a probable mistake."""
        self.result.warnings.append(f"{node.where}: {text}")

    def note(self, node: ConfNode, text: str) -> None:
        """Add a warning about a line that does not do what it says."""
        self.result.notes.append(f"{node.where}: {text}")

    def put_positive(self, name: str, value: float, node: ConfNode, key: str) -> None:
        """Set a number of which 0 means the default.

        With a negative number nats-server serves no client; midge warns and uses the default.
        """
        if value > 0:
            self.put(name, value, node)
        elif value < 0:
            self.note(node, f'field "{key}": {node.value} has no use; the default holds')


class Key(NamedTuple):
    """A key that fills one setting."""

    name: str
    """The setting, relative to the section; dots lead into tables."""
    read: Callable[[ConfNode], Any]


class UnsupportedKey(NamedTuple):
    """A key for a feature that midge does not have.

    Only `false` is accepted, and that only where nats-server takes it, for a switch.
    """

    feature: str
    is_switch: bool = True


class IgnoredKey(NamedTuple):
    """A key that midge reads and does not honour; a warning names its line.

    nats-server starts with it, and so does midge.
    """

    reason: str
    """What holds instead, behind `has no effect:`."""
    read: Callable[[ConfNode], Any]
    """Checks the value as nats-server does."""
    unless: tuple[Any, ...] = (False,)
    """Values with which nothing is missing."""


Handler = Key | UnsupportedKey | IgnoredKey | Callable[[Section, "ConfNode"], None]
"""A table's entry for a key: its setting, a missing feature, or a handler."""


def read_listen(section: Section, node: ConfNode) -> None:
    """Read the address of a listener; a port alone leaves the host at its default."""
    host, number = address(node)
    if host is not None:
        section.put("host", host, node)
    section.put("port", number, node)


def read_map(
    node: ConfNode,
    section: Section,
    table: Mapping[str, Handler],
    unknown: str = "unknown field {}",
) -> None:
    """Read the map `node` into `section`; collect errors in the section's result.

    `unknown` is nats-server's error text here for a key that no table has.
    """
    for name, entry in entries(node).items():
        try:
            _read_entry(name, entry, section, table, unknown)
        except ConfigError as error:
            section.result.errors.append(error)


def _read_entry(
    name: str,
    entry: ConfNode,
    section: Section,
    table: Mapping[str, Handler],
    unknown: str,
) -> None:
    handler = table.get(name.lower())
    if handler is None:
        if not entry.is_used:
            raise ConfError(unknown.format(quote(name.encode())), where=entry.where)
    elif isinstance(handler, UnsupportedKey):
        if entry.value is not False or not handler.is_switch:
            text = f'field "{name}": midge does not support {handler.feature}'
            raise ConfError(text, where=entry.where)
    else:
        with _named(name):
            if isinstance(handler, Key):
                section.put(handler.name, handler.read(entry), entry)
            elif isinstance(handler, IgnoredKey):
                if handler.read(entry) not in handler.unless:
                    section.note(entry, f'field "{name}" has no effect: {handler.reason}')
            else:
                handler(section, entry)


def positive(
    name: str, key: str, read: Callable[[ConfNode], float] = integer
) -> Callable[[Section, ConfNode], None]:
    """Return the handler of a number of which 0 means the default."""
    return lambda section, node: section.put_positive(name, read(node), node, key)


def timed(name: str, key: str) -> Callable[[Section, ConfNode], None]:
    """Return the handler of a duration for which a bare number draws a warning."""

    def handle(section: Section, node: ConfNode) -> None:
        if isinstance(node.value, str):
            value = duration(node, node.value, f"error parsing {key}: ")
        else:
            value = integer(node)
            text_ = f'invalid use of field "{key}": {key} should be converted to a duration'
            section.warn(node, text_)
        section.put_positive(name, value, node, key)

    return handle


def write_timeout(node: ConfNode) -> str:
    """Return the policy for a peer that does not read."""
    if text(node) not in ("default", "close", "retry"):
        fail(node, "write_timeout must be 'default', 'close' or 'retry'")
    return text(node)


_HIGH_TIMEOUT_S = 60.0


def timeout(name: str, *, warns: bool = False) -> Callable[[Section, ConfNode], None]:
    """Return the handler of a `timeout`, which may be a number; `warns` of a high one."""

    def handle(section: Section, node: ConfNode) -> None:
        value = seconds(node)
        if warns and value > _HIGH_TIMEOUT_S:
            high = f"timeout of {node.value} ({value:f} seconds) is high"
            advice = "consider keeping it under 60 seconds. possibly caused by unquoted duration"
            example = "use '1m' instead of 1m, for example"
            section.warn(node, f'invalid use of field "timeout": {high}, {advice}; {example}')
        section.put_positive(name, value, node, "timeout")

    return handle


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Return the error with the key as it is written in the file."""
    try:
        yield
    except ConfError as error:
        if error.text.startswith("expected ") and not error.key:
            error.key = f"field {quote(name.encode())}"
        raise
