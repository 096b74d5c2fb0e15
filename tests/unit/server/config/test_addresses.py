"""Addresses in the settings: which are taken, and as which host and port."""

from __future__ import annotations

import pytest

from midge.server.broker.server_info import server_info
from midge.server.broker.server_keys import ServerKeys
from midge.server.config.addresses import advertised_address
from midge.server.config.contradictions import find_contradictions
from midge.server.config.options import Cluster, LeafNodes, Listen, Options, WebSocket

MALFORMED = ("a:b:c", "a:b", "a:", "::1", "[::1", "::1]", "[::1]5", "a:99999", "a:-2", "nats://a:5")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", ("h", 1)),
        ("a", ("a", 1)),
        ("a:5", ("a", 5)),
        ("a:0", ("a", 1)),
        ("a:-1", ("a", 1)),
        (":5", ("h", 5)),
        ("[::1]", ("::1", 1)),
        ("[::1]:5", ("::1", 5)),
        ("[fe80::1%eth0]:5", ("fe80::1%eth0", 5)),
    ],
)
def test_info_shows_the_advertised_address(text: str, address: tuple[str, int]) -> None:
    assert advertised_address(text, "h", 1) == address
    info = server_info(Options(listen=Listen(client_advertise=text)), ServerKeys(), "h", 1)
    assert (info.host, info.port) == address


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_address_is_refused_wherever_one_stands(text: str) -> None:
    options = Options(
        listen=Listen(client_advertise=text),
        websocket=WebSocket(advertise=text),
        leafnodes=LeafNodes(advertise=text),
        cluster=Cluster(advertise=text),
    )
    found = list(find_contradictions(options))
    assert {one.path for one in found} == {
        ("listen", "client_advertise"),
        ("websocket", "advertise"),
        ("leafnodes", "advertise"),
        ("cluster", "advertise"),
    }
    assert all(repr(text) in one.text for one in found)
