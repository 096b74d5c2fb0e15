"""Send and receive on a plain socket without waiting, past the transport that owns it.

This module is the interpreted twin of ``plain_socket.pxd``, which the compiled modules inline.
"""

import errno
import os


def send(descriptor: int, data: bytearray, length: int) -> int:
    """Send ``data[:length]`` without waiting; return how much was taken, -1 for none.

    The transport, which gets the rest, is told of an error by its own write.
    """
    try:
        return os.write(descriptor, bytes(data[:length]))
    except OSError:
        return -1


def receive(descriptor: int, data: bytearray, start: int, length: int) -> int:
    """Receive up to `length` bytes into `data` from `start` on, without waiting.

    Returns how many, 0 at the end of the stream, or the number of an error, negative.
    """
    try:
        return os.readv(descriptor, [memoryview(data)[start : start + length]])
    except OSError as error:
        return -(error.errno or errno.EIO)


def receive_more(descriptor: int, data: bytearray, start: int, length: int) -> int:
    """Do what `receive` does, and let other threads run meanwhile: there is much to be copied."""
    return receive(descriptor, data, start, length)
