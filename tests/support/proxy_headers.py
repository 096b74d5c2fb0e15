"""Headers of the PROXY protocol, with the verdicts of nats-server 2.15.1."""

from __future__ import annotations

import socket
import struct

V2 = b"\r\n\r\n\0\r\nQUIT\n"
IPV4 = socket.inet_aton("9.8.7.6") + socket.inet_aton("5.6.7.8") + struct.pack(">HH", 222, 4222)
IPV6 = socket.inet_pton(socket.AF_INET6, "::5") * 2 + struct.pack(">HH", 1, 2)


def block(first: int, family: int, body: bytes, size: int | None = None) -> bytes:
    """Return a header of version 2."""
    return (
        V2 + bytes([first, family]) + struct.pack(">H", len(body) if size is None else size) + body
    )


TAKEN = {
    "v1": (b"PROXY TCP4 1.2.3.4 5.6.7.8 111 4222\r\n", ("1.2.3.4", 111)),
    "v1 of IPv6": (b"PROXY TCP6 ::1 ::2 1 2\r\n", ("::1", 1)),
    "v1 of the proxy itself": (b"PROXY UNKNOWN\r\n", None),
    "v1 unknown with more": (b"PROXY UNKNOWN abc def\r\n", None),
    "v2": (block(0x21, 0x11, IPV4), ("9.8.7.6", 222)),
    "v2 of IPv6": (block(0x21, 0x21, IPV6), ("::5", 1)),
    "v2 of the proxy itself": (block(0x20, 0x11, IPV4), None),
    "v2 local without addresses": (block(0x20, 0x00, b""), None),
    "v2 with additions": (block(0x21, 0x11, IPV4 + b"\x04\x00\x01x"), ("9.8.7.6", 222)),
}
REFUSED = {
    "v1 address": (b"PROXY TCP4 1.2.3 5.6.7.8 1 2\r\n", "two addresses"),
    "v1 family": (b"PROXY TCP4 ::1 ::1 1 2\r\n", "another family"),
    "v1 port": (b"PROXY TCP4 1.2.3.4 5.6.7.8 1 99999\r\n", "ports"),
    "v1 sign": (b"PROXY TCP4 1.2.3.4 5.6.7.8 +1 2\r\n", "ports"),
    "v1 too long": (b"PROXY TCP4 " + b"1" * 200, "more than 107"),
    "v1 ends with LF": (b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n", "CR LF"),
    "v1 too few": (b"PROXY TCP4 1.2.3.4\r\n", "two addresses"),
    "v1 not ASCII": (b"PROXY TCP4 1.2.3.\xb2 5.6.7.8 1 2\r\n", "two addresses"),
    "v2 command": (block(0x22, 0x11, IPV4), "command 2"),
    "v2 version": (block(0x31, 0x11, IPV4), "version 3"),
    "v2 datagrams": (block(0x21, 0x12, IPV4), "stream"),
    "v2 Unix": (block(0x21, 0x31, b"x" * 216), "family 3"),
    "v2 unspecified": (block(0x21, 0x00, b""), "stream"),
    "v2 too short": (block(0x21, 0x11, b"abc"), "too short"),
    "v2 too long": (block(0x21, 0x11, IPV4, 0xFFFF), "more than 4096"),
    "NATS": (b'CONNECT {"verbose":false}\r\n', "neither"),
    "HTTP": (b"GET / HTTP/1.1\r\n", "neither"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01", "neither"),
    "PING": (b"PING\r\n", "neither"),
}
