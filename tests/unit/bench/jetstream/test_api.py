"""Connections that ask the API at the same time do not read each other's answers."""

from bench import wire
from bench.jetstream.api import Api


class Line:
    """A socket that answers each PING, and records all output."""

    def __init__(self) -> None:
        self.sent = b""

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def recv(self, size: int) -> bytes:
        return wire.PONG[:size]


def test_each_connection_has_an_inbox_of_its_own() -> None:
    lines = Line(), Line()
    for line in lines:
        Api(line)  # type: ignore[arg-type]
    one, other = (line.sent.split()[1] for line in lines)
    assert one.startswith(b"_INBOX.")
    assert one != other
