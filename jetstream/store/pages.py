"""Memory made ready before it is written to.

This module is the interpreted twin of ``pages.pxd``, which the compiled modules use: the
interpreter has no way to ask for that, and gets each page when it first touches it.
"""


def populate(data: bytearray, start: int, end: int) -> None:
    """Have the system put memory behind ``data[start:end]``, at once and not page by page.

    It is a hint: where the system does not know it, or has pages of more than 4 KiB, pages come one
    by one.
    """
