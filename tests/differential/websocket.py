"""WebSocket for scripts: masked client frames as bytes, and a server's stream cut into frames.

How a server spreads protocol lines over WebSocket frames is its own business, so the payload of
data frames is joined before it is cut. Then the HTTP answer, the protocol
frames, and each control frame are compared.
"""

from __future__ import annotations

import base64
import struct
import zlib

from .frames import split_frames

KEY = base64.b64encode(b"sixteen bytes!!!")
_MASK = b"\x11\x22\x33\x44"
_HEADERS_COMPARED = frozenset(
    {"upgrade", "connection", "sec-websocket-accept", "sec-websocket-extensions", "nats-no-masking"}
)

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
FINAL = 0x80
COMPRESSED = 0x40


def upgrade(path: bytes = b"/", extra: bytes = b"", **replaced: bytes | None) -> bytes:
    """An upgrade request; keyword arguments replace a header or, if None, leave it out."""
    headers: dict[str, bytes | None] = {
        "Host": b"127.0.0.1",
        "Upgrade": b"websocket",
        "Connection": b"Upgrade",
        "Sec-WebSocket-Key": KEY,
        "Sec-WebSocket-Version": b"13",
    }
    headers |= {name.replace("_", "-"): value for name, value in replaced.items()}
    lines = [f"{name}: ".encode() + value for name, value in headers.items() if value is not None]
    return b"GET " + path + b" HTTP/1.1\r\n" + b"\r\n".join(lines) + b"\r\n" + extra + b"\r\n"


def frame(
    payload: bytes, opcode: int = BINARY, *, flags: int = FINAL, masked: bool = True
) -> bytes:
    """One client frame, masked as the standard asks unless asked otherwise."""
    size = len(payload)
    mask_bit = 0x80 if masked else 0
    if size < 126:
        head = struct.pack("!BB", flags | opcode, mask_bit | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", flags | opcode, mask_bit | 126, size)
    else:
        head = struct.pack("!BBQ", flags | opcode, mask_bit | 127, size)
    if not masked:
        return head + payload
    return head + _MASK + bytes(b ^ _MASK[i % 4] for i, b in enumerate(payload))


def deflated(payload: bytes) -> bytes:
    """One compressed client frame."""
    compressor = zlib.compressobj(wbits=-15)
    data = compressor.compress(payload) + compressor.flush(zlib.Z_SYNC_FLUSH)
    return frame(data[:-4], flags=FINAL | COMPRESSED)


def split_websocket(stream: bytes) -> list[bytes]:
    """Cut a server's stream into the HTTP answer, protocol frames and control frames."""
    head, blank, rest = stream.partition(b"\r\n\r\n")
    if not blank:
        return [stream] if stream else []
    status, *headers = head.split(b"\r\n")
    if b" 101 " not in status:
        return [status, rest]
    data, controls = _join(rest)
    return [status, *_compared(headers), *split_frames(data), *controls]


def _compared(headers: list[bytes]) -> list[bytes]:
    pairs = (line.partition(b": ") for line in headers)
    return sorted(
        name.lower() + b": " + value
        for name, _, value in pairs
        if name.lower().decode("latin-1") in _HEADERS_COMPARED
    )


def _join(stream: bytes) -> tuple[bytes, list[bytes]]:
    """Return the joined payload of the data frames, and the control frames."""
    data, message, controls, at = b"", b"", [], 0
    compressed = False
    while at + 2 <= len(stream):
        first, size = stream[at], stream[at + 1]
        at += 2
        if size in (126, 127):
            width = 2 if size == 126 else 8
            size = int.from_bytes(stream[at : at + width], "big")
            at += width
        payload, at = stream[at : at + size], at + size
        if first & 0x0F >= CLOSE:
            controls.append(_describe_control(first & 0x0F, payload))
            continue
        compressed = compressed or bool(first & COMPRESSED)
        message += payload
        if first & FINAL:
            data += _inflated(message) if compressed else message
            message, compressed = b"", False
    return data + message, controls


def _inflated(message: bytes) -> bytes:
    return zlib.decompressobj(-15).decompress(message + b"\0\0\xff\xff")


def _describe_control(opcode: int, payload: bytes) -> bytes:
    if opcode != CLOSE:
        return b"[control frame %d: %s]" % (opcode, payload)
    code = int.from_bytes(payload[:2], "big")
    return b"[close frame %d: %s]" % (code, payload[2:])
