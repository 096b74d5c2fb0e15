"""Memory made ready before it is written to.

This module is the interpreted twin of ``pages.pxd``, which the compiled modules use: the
interpreter has no way to ask for that, and gets each page when it first touches it.
"""


def populate(data: bytearray, start: int, end: int) -> None:
    """Ask the system to allocate the pages of ``data[start:end]`` at once.

    It is a hint: a system without it, or with pages of more than 4 KiB, allocates each page at its
    first use.
    """
