"""Monitoring over HTTP: nats-server's pages, Prometheus metrics and the console."""
