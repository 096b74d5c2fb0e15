"""The JSON of links: read as Go reads it, and refused without quoting a value."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from midge.protocol.errors import ProtocolError
from midge.protocol.leaf_messages import parse_leaf_connect, parse_leaf_info
from midge.protocol.route_messages import parse_route_connect, parse_route_info

CONNECTS = [parse_leaf_connect, parse_route_connect]
INFOS = [parse_leaf_info, parse_route_info]


@pytest.mark.parametrize("parse", CONNECTS)
def test_invalid_utf8_is_replaced(parse: Callable[[bytes], object]) -> None:
    connect = parse(b'{"name":"\xff\xfes","cluster":"c"}')
    assert (connect.name, connect.cluster) == ("\ufffd\ufffds", "c")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "document",
    [b'{"pass":4711}', b'{"pass":"4711', b'{"pass":4711x', b'{"\xff":4711,"pass":[4711]}', b"4711"],
)
@pytest.mark.parametrize("parse", CONNECTS)
def test_a_refusal_quotes_no_value(parse: Callable[[bytes], object], document: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse(document)
    assert caught.value.detail.startswith("CONNECT: ")
    assert "4711" not in caught.value.detail


@pytest.mark.parametrize("parse", INFOS)
def test_a_refused_info_says_where(parse: Callable[[bytes], object]) -> None:
    with pytest.raises(ProtocolError, match=r"INFO: .*`int`, got `str` - at `\$.port`"):
        parse(b'{"port":"x"}')


@pytest.mark.parametrize("parse", CONNECTS + INFOS)
def test_deep_nesting_is_refused(parse: Callable[[bytes], object]) -> None:
    with pytest.raises(ProtocolError):
        parse(b'{"unknown":' * 50_000)
