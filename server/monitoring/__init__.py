"""Monitoring over HTTP: nats-server's pages, Prometheus metrics and the console.

Only `http` and `metrics` are heavy to import; the service loads them for the first request.
"""
