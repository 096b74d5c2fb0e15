"""Interceptors: functions of your own that see what clients do, and may change or refuse it."""

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
