"""Which nats-server midge speaks like."""

COMPATIBLE_VERSION = "2.15.1"
"""The version that INFO names, by which clients decide what the server can do."""
