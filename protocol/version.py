"""The version of nats-server whose protocol midge speaks."""

COMPATIBLE_VERSION = "2.15.1"
"""The version in INFO, from which clients derive the server's features."""
