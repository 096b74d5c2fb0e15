"""Monitoring over HTTP: nats-server's pages, Prometheus metrics and the console."""

from midge.server.monitoring.http import Monitor

__all__ = ["Monitor"]
