"""The WebSocket listener: accept, TLS if configured, then the upgrade within its time limit."""

import asyncio
import socket
import ssl
from collections.abc import Callable

from midge.server.broker.broker import Broker
from midge.server.channels.channel import ChannelOwner
from midge.server.config.options import Options
from midge.server.listeners.tcp import Listener
from midge.server.listeners.tls import TlsContexts
from midge.server.listeners.tls_alert import alerting
from midge.server.listeners.websocket.protocol import InflatedBytes, WebSocketProtocol
from midge.server.listeners.websocket.upgrade_request import Upgrade, UpgradeRequest, credentials
from midge.server.log.logger import get_logger

log = get_logger()


class WebSocketListener(Listener):
    """The listening socket for WebSocket clients of `broker`.

    `make_leaf` makes the link of a leaf node at an address; without it none is taken.
    """

    def __init__(
        self,
        broker: Broker,
        tls: TlsContexts | None = None,
        make_leaf: Callable[[tuple[str, int]], ChannelOwner] | None = None,
    ) -> None:
        super().__init__(broker, tls)
        self._make_leaf = make_leaf
        self.is_encrypted = tls is not None
        self._inflated = InflatedBytes()
        self._upgrading: dict[WebSocketProtocol, socket.socket] = {}

    def close(self) -> None:
        """Take no more connections, and end those that are not upgraded yet."""
        super().close()
        for protocol, accepted in list(self._upgrading.items()):
            protocol.cut_off(accepted)

    def _options_of_proxies(self) -> Options | None:
        options = self._broker.options
        return options if options.websocket.proxy_protocol else None

    def _begin(self, accepted: socket.socket, peer: tuple[str, int]) -> None:
        if len(self._upgrading) >= self._broker.options.limits.max_connections:
            self._broker.limit_hits["handshakes"] += 1
            accepted.close()  # as many handshakes in progress as connections allowed
            return
        if self._tls is not None and not self._admits_handshake(self._tls):
            accepted.close()  # nothing can be sent to it before the handshake
            return
        protocol = WebSocketProtocol(
            self._judge,
            lambda request: self._make_connection(request, peer),
            peer,
            self._inflated,
        )
        self._upgrading[protocol] = accepted
        upgrading = asyncio.get_running_loop().create_task(self._upgrade(accepted, protocol, peer))
        self._connecting.add(upgrading)
        upgrading.add_done_callback(self._connecting.discard)

    async def _upgrade(
        self, accepted: socket.socket, protocol: WebSocketProtocol, peer: tuple[str, int]
    ) -> None:
        """Complete the TLS and HTTP handshakes; close a client that takes too long.

        Never cancel this: when the creation of a transport is cancelled, uvloop drops the transport
        without calling `connection_lost`, and a stopping server would wait for one that was
        upgraded meanwhile.
        """
        loop = asyncio.get_running_loop()
        timeout_s = self._broker.options.websocket.handshake_timeout_s
        context = self._tls.context if self._tls is not None else None
        timer = self._broker.clock.call_later(timeout_s, _time_out, protocol, accepted, peer)
        try:
            with alerting(accepted):
                await loop.connect_accepted_socket(lambda: protocol, accepted, ssl=context)
            await protocol.upgraded
        except (OSError, ssl.SSLError) as error:
            error.__traceback__ = None  # the SSL protocol keeps it, and it keeps this frame
            accepted.close()
            if not protocol.is_cut_off:
                _refused(peer, str(error) or type(error).__name__)
        finally:
            timer.cancel()
            del self._upgrading[protocol]

    def _judge(self, request: UpgradeRequest, encrypted: bool) -> Upgrade:
        leafnodes = self._make_leaf is not None
        options = self._broker.options.websocket
        return Upgrade(request, options, encrypted=encrypted, leafnodes=leafnodes)

    def _make_connection(self, request: UpgradeRequest, peer: tuple[str, int]) -> ChannelOwner:
        """Make the Connection of an upgraded client, or the link of a leaf node.

        The address from a proxy's header is only logged: any client may send such a header, so no
        limit and no rule may depend on it.
        """
        if request.is_leafnode and self._make_leaf is not None:
            return self._make_leaf(peer)
        connection = self._broker.make_connection(peer, "WEBSOCKET")
        connection.channel.forwarded_for = request.forwarded_for()
        connection.owes_info = True
        connection.cookies = credentials(request.cookies(), self._broker.options.websocket)
        return connection


def _time_out(protocol: WebSocketProtocol, accepted: socket.socket, peer: tuple[str, int]) -> None:
    """End a connection that is not upgraded in time."""
    if protocol.cut_off(accepted):
        _refused(peer, "no upgrade in time")


def _refused(peer: tuple[str, int], error: str) -> None:
    log.error("websocket_refused", peer=f"{peer[0]}:{peer[1]}", error=error)
