"""The vocabulary of the corpus: a script is a list of steps, a step is plain data.

Nothing here opens a socket. `runner` plays scripts, `corpus` holds them.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TypeAlias

FIRST = "a"
"""The connection that a bare bytes step is sent on."""


@dataclasses.dataclass(frozen=True)
class ServerConfig:
    """One server set-up that scripts share: a configuration file in nats-server's syntax."""

    name: str
    text: str = ""
    early_ping: bool = False
    """Keep the server's own PINGs in the transcript; elsewhere they are dropped, as they come
    two seconds after CONNECT, whatever the script is doing by then."""
    disposable: bool = False
    """The scripts change the server (signals, reloads): every play gets a fresh one."""
    tls: bool = False
    """`server.pem`, `server-key.pem` and `authority.pem` stand in `@directory@`."""


PLAIN = ServerConfig("plain")


@dataclasses.dataclass(frozen=True)
class Open:
    """Connect; on the NATS port the INFO line is awaited first, so the server knows the client."""

    conn: str
    port: str = "nats"
    waits: bool = True
    """False where no INFO comes by itself."""

    @property
    def websocket(self) -> bool:
        """Whether the server speaks NATS in WebSocket frames on this port."""
        return self.port == "websocket"


@dataclasses.dataclass(frozen=True)
class Send:
    """Send bytes, opening the connection when it is new."""

    conn: str
    data: bytes
    barrier: bool = True
    """Wait for a PONG here before the script turns to another connection."""


@dataclasses.dataclass(frozen=True)
class Respond:
    """Send `data` with `{reply}` replaced by the reply subject of the last message received."""

    conn: str
    data: bytes


@dataclasses.dataclass(frozen=True)
class Quiet:
    """Wait a moment and note whether the connection is open: silence is the outcome."""

    conn: str
    for_s: float = 0.12


@dataclasses.dataclass(frozen=True)
class Await:
    """Wait until `data` was received `times` times, or until the server closes."""

    conn: str
    data: bytes
    times: int = 1


@dataclasses.dataclass(frozen=True)
class AwaitClose:
    """Wait until the server closes the connection by itself."""

    conn: str


@dataclasses.dataclass(frozen=True)
class HalfClose:
    """Shut the sending side down and read until the server closes."""

    conn: str


@dataclasses.dataclass(frozen=True)
class Signal:
    """Send the server process a signal by name; with `config`, wait until that is loaded."""

    name: str
    config: str | None = None


Step: TypeAlias = Open | Send | Respond | Quiet | Await | AwaitClose | HalfClose | Signal


@dataclasses.dataclass(frozen=True)
class Script:
    """The steps of one or more clients; the outcome is every byte that each of them receives.

    A script ends by sending PING on every connection left open and shutting down its sending
    side: a connection that is still served gets PONG, and the end of the stream ends the
    transcript.
    """

    name: str
    why: str
    steps: tuple[Step, ...]
    config: ServerConfig = PLAIN
    unordered: bool = False
    """nats-server leaves the order in which one message reaches several subscriptions open:
    neighbouring messages are compared without their order, and a no-responders message, of which
    the first in that order gets the only one, without its sid."""
    pooled: bool = False
    """Compare only the messages that all connections receive together, not their receivers."""
    differs: str | None = None
    """Why midge may answer differently here, and the values that are compared nevertheless."""
    racy_end: bool = False
    """nats-server races with its own closing: its last -ERR or close frame is not compared."""
    final_ping: bool = True
    """Send a last PING; scripts that end within a frame, or inside other framing, cannot."""

    @property
    def longest_send(self) -> int:
        """The size of the largest single send, in bytes."""
        return max((len(s.data) for s in self.steps if isinstance(s, Send)), default=0)


def script(
    name: str,
    why: str,
    *steps: bytes | Step,
    unordered: bool = False,
    pooled: bool = False,
    differs: str | None = None,
    racy_end: bool = False,
    final_ping: bool = True,
) -> Script:
    """Build a script; bare bytes are sent on the first connection."""
    whole = tuple(Send(FIRST, step) if isinstance(step, bytes) else step for step in steps)
    return Script(
        name,
        why,
        whole or (Open(FIRST),),
        unordered=unordered,
        pooled=pooled,
        differs=differs,
        racy_end=racy_end,
        final_ping=final_ping,
    )


def group(topic: str, *scripts: Script, config: ServerConfig = PLAIN) -> tuple[Script, ...]:
    """Put scripts under a topic and a server set-up."""
    return tuple(
        dataclasses.replace(each, name=f"{topic}/{each.name}", config=config) for each in scripts
    )


def on(conn: str, data: bytes) -> Send:
    """Send on a named connection; leaving it for another one waits for its PONG."""
    return Send(conn, data)


def unsynced(conn: str, data: bytes) -> Send:
    """Send on a named connection in the middle of a frame, where no PING can follow."""
    return Send(conn, data, barrier=False)


def connect(**options: object) -> bytes:
    """A CONNECT line: neither verbose nor pedantic unless asked otherwise."""
    fields: dict[str, object] = {"verbose": False, "pedantic": False, **options}
    return b"CONNECT " + json.dumps(fields, separators=(",", ":")).encode() + b"\r\n"


def sub(subject: bytes, sid: bytes = b"1", queue: bytes = b"") -> bytes:
    """A SUB line."""
    return b" ".join(filter(None, (b"SUB", subject, queue, sid))) + b"\r\n"


def pub(subject: bytes, payload: bytes = b"", reply: bytes = b"") -> bytes:
    """A PUB frame."""
    line = b" ".join(filter(None, (b"PUB", subject, reply, b"%d" % len(payload))))
    return line + b"\r\n" + payload + b"\r\n"


def hpub(subject: bytes, headers: bytes, payload: bytes = b"", reply: bytes = b"") -> bytes:
    """An HPUB frame whose header block is taken as it is."""
    sizes = b"%d %d" % (len(headers), len(headers) + len(payload))
    line = b" ".join(filter(None, (b"HPUB", subject, reply, sizes)))
    return line + b"\r\n" + headers + payload + b"\r\n"


def quiet_after(conn: str) -> Quiet:
    """Silence is expected here."""
    return Quiet(conn)
