"""Cut what a server sent into frames, and mask what no two servers can have in common."""

from __future__ import annotations

import json
import re

PING = b"PING\r\n"

_SIZED = re.compile(rb"H?MSG [^\r\n]* (\d+)\r\n")
_EXACT_INFO = frozenset(
    {
        "proto", "host", "headers", "auth_required", "tls_required", "tls_verify", "tls_available",
        "max_payload", "jetstream", "client_ip", "ldm", "connect_info", "remote_account",
        "acc_is_sys", "connect_urls",
    }
)  # fmt: skip
_OTHERS_OWN_INFO = frozenset({"git_commit", "go", "xkey", "api_lvl"})
"""Facts about nats-server's build, its authentication callout and its JetStream level: fields
that clients do not need and that another server may leave out."""

_SERVICE_REPLY = re.compile(rb"_R_\.[\w-]+\.[\w-]+")
_REQUEST_INFO = re.compile(rb"Nats-Request-Info: \{.*?\}")
_REQUEST_FACT = re.compile(rb"\"(rtt|id|start|server)\":(\d+|\"[^\"]+\")")


def split_frames(stream: bytes) -> list[bytes]:
    """Cut a server's stream at frame ends; an unfinished rest is the last element."""
    frames, at = [], 0
    while at < len(stream):
        end = _frame_end(stream, at)
        frames.append(stream[at:end])
        at = end
    return frames


def mask(frame: bytes) -> bytes:
    """Replace values that differ from run to run by what they have in common."""
    if frame.startswith(b"INFO {"):
        return _mask_info(frame)
    frame = _SERVICE_REPLY.sub(b"_R_.<id>", frame)
    masked, count = _REQUEST_INFO.subn(_mask_request_info, frame)
    if count:  # the digits of the round-trip time also move the header and total sizes
        masked = re.sub(rb"^(HMSG .*) \d+ \d+\r\n", rb"\1 <n> <n>\r\n", masked, count=1)
    return masked


def _mask_request_info(info: re.Match[bytes]) -> bytes:
    """Keep a service's description of the requester, without the values that always differ."""
    return _REQUEST_FACT.sub(rb'"\1":<\1>', info[0])


def _frame_end(stream: bytes, at: int) -> int:
    line_end = stream.find(b"\r\n", at)
    if line_end < 0:
        return len(stream)
    sized = _SIZED.match(stream, at)
    if sized is None:
        return line_end + 2
    return min(len(stream), sized.end() + int(sized[1]) + 2)


def _mask_info(frame: bytes) -> bytes:
    """Keep the keys and the type of every value, and the values that a client acts upon."""
    end = frame.rfind(b"}") + 1
    try:
        fields = json.loads(frame[len(b"INFO ") : end])
    except ValueError:
        return frame
    shown = ", ".join(
        f"{key}={_info_value(key, fields[key])}"
        for key in sorted(fields)
        if key not in _OTHERS_OWN_INFO
    )
    return b"INFO {" + shown.encode() + b"}" + frame[end:]


def _info_value(key: str, value: object) -> str:
    if key in _EXACT_INFO:
        return json.dumps(value)
    if key in ("nonce", "server_id"):
        return f"<{len(str(value))} characters>"
    return f"<{type(value).__name__}>"
