"""Non-blocking send on a plain socket, bypassing the transport that owns it.

This module is the interpreted twin of ``plain_socket.pxd``, which the compiled modules inline.
"""

import os


def send(descriptor: int, data: bytearray, length: int) -> int:
    """Send ``data[:length]`` without waiting; return how much was taken, -1 for none.

    The transport, which gets the rest, is told of an error by its own write.
    """
    try:
        return os.write(descriptor, bytes(data[:length]))
    except OSError:
        return -1
