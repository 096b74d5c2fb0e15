"""Strict mode: find client bugs that servers tolerate, with the client that has the bug."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.protocol.headers import find_malformed
from midge.sublist.subjects import is_valid_publish_subject

if TYPE_CHECKING:
    from midge.protocol.frame import Frame
    from midge.server.clients.connection import Connection
    from midge.server.embedded.server import Server
    from midge.testing.stream_strict import StreamStrict

_KEPT_MAX = 1000


class ClientBugWarning(UserWarning):
    """A client has shown a bug."""

    __module__ = "midge.testing"


class StrictMode:
    """Collects the bugs of a server's clients; `bugs` names each with its client."""

    def __init__(self) -> None:
        self.bugs: list[str] = []
        self._streams: StreamStrict | None = None

    def watch(self, server: Server) -> None:
        """Watch the streams of `server` as well, if it has any; runs in its thread."""
        engine = server.jetstream_engine
        if engine is not None:
            from midge.testing.stream_strict import StreamStrict  # noqa: PLC0415 - few have streams

            self._streams = StreamStrict(engine)

    def check_publish(self, connection: Connection, frame: Frame) -> None:
        """Check the subject, the reply and the headers of a published message."""
        subject, reply, block = frame.subject_bytes(), frame.reply_bytes(), frame.header_bytes()
        if not is_valid_publish_subject(subject):
            self.found(connection, f"publish to {subject.decode(errors='replace')!r}")
        if reply is not None and not is_valid_publish_subject(reply):
            self.found(connection, f"reply subject {reply.decode(errors='replace')!r}")
        malformed = None if block is None else find_malformed(block)
        if malformed is not None:
            where = subject.decode(errors="replace")
            self.found(connection, f"malformed headers on {where!r}: {malformed}")
        if self._streams is not None:
            for bug in self._streams.check_publish(connection.account, frame):
                self.found(connection, bug)

    def found(self, connection: Connection, bug: str) -> None:
        """Record a bug of the client of `connection`."""
        options = connection.options
        language = f"{options.lang} {options.version}".strip()
        called = ", ".join(one for one in (options.name or "unnamed", language) if one)
        who = f"client {connection.cid} ({called})"
        if len(self.bugs) < _KEPT_MAX:
            self.bugs.append(f"{who}: {bug}")

    def take(self) -> list[str]:
        """Return the bugs found since the last call."""
        taken, self.bugs = self.bugs, []
        if self._streams is not None:
            taken += self._streams.unacknowledged()
        return taken

    def is_owed_acks(self) -> bool:
        """Return whether messages of streams have been delivered and not acknowledged."""
        return self._streams is not None and self._streams.is_owed_acks()
