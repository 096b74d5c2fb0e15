"""Interceptors: your own functions that see events of clients, and may change or refuse them."""

from midge.server.interceptors.api import (
    EVENTS,
    ClientInfo,
    Connect,
    Deliver,
    Event,
    Interceptor,
    Publish,
    Refuse,
    Subscribe,
    load_interceptors,
)

__all__ = [
    "EVENTS",
    "ClientInfo",
    "Connect",
    "Deliver",
    "Event",
    "Interceptor",
    "Publish",
    "Refuse",
    "Subscribe",
    "load_interceptors",
]
