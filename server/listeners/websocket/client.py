"""The other end of a WebSocket: the request of a server that connects to another one."""

from __future__ import annotations

import base64
import secrets
from typing import TYPE_CHECKING, Any

from websockets.protocol import CLIENT, Protocol
from websockets.utils import accept_key

from midge.server.listeners.websocket.protocol import FrameProtocol, InflatedBytes
from midge.server.listeners.websocket.upgrade_request import (
    DEFLATE_OFFER,
    UpgradeRefusal,
    UpgradeRequest,
    deflate,
    names_deflate,
)

if TYPE_CHECKING:
    from midge.server.channels.channel import ChannelOwner

_KEY_BYTES = 16
_MESSAGE_MAX_BYTES = 64 * 1024 * 1024


class WebSocketClient(FrameProtocol):
    """The asyncio protocol of a connection to `host`, which is upgraded at `path` for `owner`.

    `compress` offers compressed frames, `no_masking` to leave out the masks, which protect nothing
    between servers. When `upgraded` is done, `failure` says why the upgrade failed, if so.
    """

    def __init__(
        self,
        owner: ChannelOwner,
        host: str,
        path: str,
        *,
        compress: bool = False,
        no_masking: bool = False,
    ) -> None:
        super().__init__(InflatedBytes())
        self._owner = owner
        self._key = base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()
        self._compress = compress
        self._no_masking = no_masking
        self._request = self._written(host, path)
        self.failure = "closed before the upgrade"

    def _written(self, host: str, path: str) -> bytes:
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {host}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {self._key}",
            "Sec-WebSocket-Version: 13",
        ]
        if self._compress:
            lines.append(f"Sec-WebSocket-Extensions: {DEFLATE_OFFER}")
        if self._no_masking:
            lines.append("Nats-No-Masking: true")
        return "\r\n".join(lines).encode() + b"\r\n\r\n"

    def connection_made(self, transport: Any) -> None:
        """Send the request; called by asyncio once."""
        super().connection_made(transport)
        transport.write(self._request)

    def give_up(self) -> None:
        """Abort the connection: an answer that comes later upgrades nothing."""
        if self._transport is not None:
            self._transport.abort()

    def _begin(self, head: bytes) -> None:
        """Take the answer to the request."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        try:
            answer = self._answer_of(head)
        except (ValueError, UpgradeRefusal) as error:
            self.failure = str(error)
            transport.close()
            self._settle()
            return
        self.failure = ""
        is_compressed = self._compress and names_deflate(answer)
        is_unmasked = self._no_masking and answer.header("nats-no-masking").lower() == "true"
        self._exchange(
            transport,
            self._owner,
            Protocol(CLIENT, max_size=_MESSAGE_MAX_BYTES),
            [deflate()] if is_compressed else [],
            is_masked=not is_unmasked,
        )
        self._settle()

    def _answer_of(self, head: bytes) -> UpgradeRequest:
        """Return the headers of an answer that switches protocols.

        Raises:
            UpgradeRefusal: it is not well-formed.
            ValueError: it does not switch.
        """
        status, _, rest = head.partition(b"\r\n")
        if not status.startswith(b"HTTP/1.1 101"):
            raise ValueError(f"the answer is {status[:80].decode('latin-1')!r}")
        answer = UpgradeRequest(b"GET / HTTP/1.1\r\n" + rest)
        if not answer.lists("upgrade", "websocket") or not answer.lists("connection", "upgrade"):
            raise ValueError("the answer does not switch to a WebSocket")
        if answer.header("sec-websocket-accept") != accept_key(self._key):
            raise ValueError("the answer is not one to this request")
        return answer
