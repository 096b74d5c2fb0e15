"""Interceptors: your own functions that see the events of clients, and may change or refuse them.

An interceptor gets one of the events below and returns

- the event itself: it passes;
- a changed copy, by `dataclasses.replace` or `with_headers`: the copy passes in its place;
- a `Refuse`: it does not pass.

Any other result refuses, and so do an exception and a time-out.
`midge.server.interceptors.interception` calls the interceptors; this module knows no connections.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from midge.protocol.headers import format_headers, parse_headers
from midge.server.auth.hook import load_callable
from midge.server.errors import ConfigError

if TYPE_CHECKING:
    from midge.server.config.security import Interceptors, Permissions

EVENTS = ("connect", "subscribe", "publish", "deliver")
"""The events that can be intercepted, which are also the names of the settings."""


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """The client that acts or receives."""

    cid: int
    """Client id, the same as in monitoring."""
    name: str
    """Name that the client chose in CONNECT; it proves nothing."""
    user: str
    """User that the client has authenticated as; empty without authentication."""
    account: str
    """Account that the client belongs to."""
    host: str
    """Address that it connects from."""
    port: int
    """Port that it connects from."""
    kind: str
    """`STANDARD` or `WEBSOCKET`."""


@dataclass(frozen=True, slots=True)
class Connect:
    """A client has authenticated and asks to be admitted."""

    client: ClientInfo
    """The client; must not be changed."""
    lang: str
    """Language of the client's library."""
    version: str
    """Version of the client's library."""
    user: str
    """User that it gets."""
    account: str
    """Account that it joins; a changed account must exist."""
    permissions: Permissions | None = None
    """When set, permissions that replace the user's."""


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A client wants to subscribe to a subject that its permissions allow."""

    client: ClientInfo
    """The client; must not be changed."""
    subject: str
    """Subject, with its wildcards."""
    queue: str | None
    """Queue group, or None."""


@dataclass(frozen=True, slots=True)
class _Message:
    """The fields that published and delivered messages have in common."""

    client: ClientInfo | None
    subject: str
    """Subject."""
    reply: str | None
    """Subject to answer to, or None."""
    header_block: bytes | None
    """Headers in their wire form, blank line included, or None."""
    payload: bytes
    """Payload, without the headers."""

    @property
    def headers(self) -> dict[str, list[str]]:
        """The headers by name, in a new dictionary each time; empty without headers."""
        return parse_headers(self.header_block) if self.header_block else {}

    def with_headers(self, headers: Mapping[str, str | Iterable[str]] | None) -> Self:
        """Return a copy with `headers` instead of its own; None removes them.

        Raises:
            ValueError: a header cannot have such a name or value.
        """
        return replace(self, header_block=None if headers is None else format_headers(headers))


@dataclass(frozen=True, slots=True)
class Publish(_Message):
    """A client publishes to a subject that its permissions allow.

    `client` is None for the process itself. The subject is the one that the client has named,
    before the account's mappings.
    """


@dataclass(frozen=True, slots=True)
class Deliver(_Message):
    """A message is about to be written to `client`, under the subject that it will see."""

    publisher: ClientInfo | None
    """Its publisher, perhaps of another account; None for the server and the process."""
    pattern: str
    """Subject of the receiving subscription."""
    queue: str | None
    """Queue group of that subscription, or None."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """The answer that refuses; the client gets the `reason`, except for a refused connection."""

    reason: str = ""


Event = Connect | Subscribe | Publish | Deliver
Interceptor = Callable[..., Event | Refuse | Awaitable[Event | Refuse]]
"""A plain or an async function of one event."""


def load_interceptors(table: Interceptors) -> dict[str, Interceptor]:
    """Import the functions that `table` names.

    Raises:
        ConfigError: one of them cannot be imported.
    """
    found: dict[str, Interceptor] = {}
    for event in EVENTS:
        name: str = getattr(table, event)
        if not name:
            continue
        try:
            found[event] = load_callable(name)  # type: ignore[assignment]  # judged by its answers
        except ValueError as error:
            raise ConfigError(str(error), key=f"interceptors.{event}") from error
    return found
