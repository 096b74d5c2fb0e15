"""Listening sockets: TCP, TLS and WebSocket."""
