"""Write to, and shut down, a socket that has no transport yet."""

import contextlib
import socket


class BareTransport:
    """Writes to a socket with nothing in its send buffer yet: PINGs and last words."""

    def __init__(self, bare_socket: socket.socket) -> None:
        self._socket = bare_socket

    def write(self, data: bytes | memoryview) -> None:
        """Send `data`, unless the peer has gone."""
        with contextlib.suppress(OSError):
            self._socket.send(data)

    def get_write_buffer_size(self) -> int:
        """Return 0: the socket has taken everything."""
        return 0


def shut(bare_socket: socket.socket) -> None:
    """Shut down both directions; the code that is making a transport of it reads the end."""
    with contextlib.suppress(OSError):
        bare_socket.shutdown(socket.SHUT_RDWR)
