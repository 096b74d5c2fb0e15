"""NATS inside WebSocket: the listener, the HTTP upgrade and the transport."""

from midge.server.listeners.websocket.listener import WebSocketListener

__all__ = ["WebSocketListener"]
