"""What a TLS transport has received and not delivered, because reading was paused.

When its socket ends, uvloop and asyncio drop that; the SSL object still has it, 512 KiB at most.
"""

import ssl
from collections.abc import Iterator

_READ_BYTES = 64 * 1024


def rest_of_tls(tls: ssl.SSLObject | None) -> Iterator[bytes]:
    """Yield what the SSL object `tls` has still to give; nothing if it is None."""
    try:
        while tls and (data := tls.read(_READ_BYTES)):
            yield data
    except (ssl.SSLError, ValueError):
        return  # the end, in order or not
