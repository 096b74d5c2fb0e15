"""CONNECT is read as Go's JSON decoder would read it."""

from __future__ import annotations

import json

import pytest

from midge.protocol import messages
from midge.protocol.errors import ProtocolError
from midge.protocol.messages import (
    DEFAULTS,
    ConnectOptions,
    Info,
    check_json_object,
    parse_connect,
)


def test_defaults_are_those_of_a_client_that_says_nothing() -> None:
    options = parse_connect(b"{}")
    assert options == ConnectOptions()
    assert (options.verbose, options.pedantic, options.echo) == (True, True, True)
    assert (options.protocol, options.headers, options.no_responders) == (0, False, False)


def test_every_field() -> None:
    document = {"verbose": False, "protocol": 1, "name": "shop", "pass": "p", "unknown": [1, {}]}
    options = parse_connect(json.dumps(document).encode())
    assert options == ConnectOptions(verbose=False, protocol=1, name="shop", password="p")


@pytest.mark.parametrize(
    ("document", "name", "value"),
    [
        (b'{"VERBOSE":false}', "verbose", False),
        (b'{"Auth_Token":"t"}', "auth_token", "t"),
        (b'{"name":"a","NAME":"b"}', "name", "b"),
        (b'{"name":"a","name":null}', "name", "a"),
        (b'{"verbose":null}', "verbose", True),
        (b"null", "verbose", True),
        (b' \t{"protocol": 9223372036854775807 } ', "protocol", (1 << 63) - 1),
        (b'{"protocol":-1}', "protocol", -1),
        (b'{"name":"a\xffb"}', "name", "a\ufffdb"),
        (b'{"name":"\\u00e4\\ud83d\\ude00"}', "name", "ä😀"),
        (b'{"x":%b,"name":"a"}' % (b"[" * 1500 + b"]" * 1500), "name", "a"),
        (b'{"x":%b1%b,"name":"a"}' % (b'{"a":' * 1500, b"}" * 1500), "name", "a"),
        (b'{"x":%b"]\\"}"%b,"name":"a"}' % (b"[" * 1500, b"]" * 1500), "name", "a"),
    ],
)
def test_taken(document: bytes, name: str, value: object) -> None:
    assert getattr(parse_connect(document), name) == value


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b'""',
        b"1",
        b"true",
        b"{",
        b"{}}",
        b"{} x",
        b'{"a":}',
        b"{'a':1}",
        b'{"a":1,}',
        b'{"verbose":"yes"}',
        b'{"verbose":1}',
        b'{"protocol":"1"}',
        b'{"protocol":true}',
        b'{"protocol":1.0}',
        b'{"protocol":1e0}',
        b'{"protocol":9223372036854775808}',
        b'{"name":1}',
        b'{"name":["a"]}',
        b'{"name":{}}',
        b'{"x":NaN}',
        b'{"x":Infinity}',
        b'{"x":-Infinity}',
        b'{"protocol":NaN}',
        b'{"x":' + b"[" * 1500 + b"}" * 1500 + b"}",
        b'{"x":' + b"[" * 1500,
        b"[" * 1500 + b"]" * 1500,
        b'xyz {"a":1}',
    ],
)
def test_refused_without_a_word(document: bytes) -> None:
    with pytest.raises(ProtocolError, match="CONNECT") as caught:
        parse_connect(document)
    assert caught.value.wire is None


def test_a_refusal_says_what_was_expected() -> None:
    with pytest.raises(ProtocolError, match=r"CONNECT: protocol: expected int, got str"):
        parse_connect(b'{"protocol":"1"}')
    with pytest.raises(ProtocolError, match=r"expected int of 64 bits, got int"):
        parse_connect(b'{"protocol":9223372036854775808}')


def test_a_refusal_never_shows_the_value() -> None:
    with pytest.raises(ProtocolError) as caught:
        parse_connect(b'{"pass":["s3cret"]}')
    assert "s3cret" not in str(caught.value) + repr(caught.value) + caught.value.detail


def test_lone_surrogates_do_no_harm() -> None:
    options = parse_connect(b'{"name":"a\\ud800b","user":"\\udfff"}')
    assert options.name.encode("utf-8") == "a\ufffdb".encode()
    assert options.user.encode("utf-8") == "\ufffd".encode()


def test_what_is_left_out_is_as_before() -> None:
    earlier = parse_connect(b'{"verbose":false,"name":"a"}')
    later = parse_connect(b'{"name":"b"}', earlier)
    assert (later.verbose, later.name) == (False, "b")
    assert earlier.name == "a"


@pytest.mark.parametrize("document", [b"{}", b"null", b'{"a":[1]}', b'{"a":' + b"[" * 1500])
def test_json_object(document: bytes) -> None:
    if document.endswith(b"["):
        with pytest.raises(ProtocolError, match="INFO"):
            check_json_object(document, "INFO")
    else:
        check_json_object(document, "INFO")


def test_info_line() -> None:
    info = Info(
        server_id="S",
        server_name="s",
        version="1",
        go="g",
        host="h",
        port=1,
        max_payload=9,
        xkey="",
    )
    line = info.line()
    assert line.startswith(b"INFO {")
    assert line.endswith(b"} \r\n")
    document = json.loads(line[5:])
    assert "auth_required" not in document
    assert document["headers"] is True
    info.auth_required = True
    assert json.loads(info.line()[5:])["auth_required"] is True


def test_a_document_that_is_known_gives_options_of_its_own() -> None:
    document = b'{"verbose":false,"name":"one of many"}'
    first = parse_connect(document, DEFAULTS)
    first.name = "changed"
    second = parse_connect(document, DEFAULTS)
    assert second == ConnectOptions(verbose=False, name="one of many")
    second.name = "changed"
    assert parse_connect(document, DEFAULTS).name == "one of many"
    assert parse_connect(document, ConnectOptions(echo=False)).echo is False
    assert ConnectOptions() == DEFAULTS


@pytest.mark.parametrize("key", ["user", "pass", "auth_token", "jwt", "nkey", "sig", "proxy_sig"])
def test_credentials_are_not_remembered(key: str) -> None:
    document = json.dumps({key: "s3cret", "name": "n"}).encode()
    parse_connect(document)
    assert document not in messages._remembered


def test_few_and_short_documents_are_remembered() -> None:
    for number in range(200):
        document = b'{"name":"%d"}' % number
        assert parse_connect(document).name == str(number)
        assert document in messages._remembered
    assert len(messages._remembered) <= 64
    long = b'{"name":"%b"}' % (b"x" * 600)
    parse_connect(long)
    assert long not in messages._remembered
