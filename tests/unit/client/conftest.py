"""The client's tests talk to real nats-servers."""

from tests.support.nats_server import make_nats_server, nats_server

__all__ = ["make_nats_server", "nats_server"]
