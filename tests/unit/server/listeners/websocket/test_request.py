"""The HTTP request that opens a WebSocket."""

import pytest

from midge.server.config.options import WebSocket
from midge.server.listeners.websocket.upgrade_request import (
    Upgrade,
    UpgradeRefusal,
    UpgradeRequest,
    credentials,
    place_of,
)

KEY = "c2l4dGVlbiBieXRlcyEhIQ=="


def head(line: str = "GET / HTTP/1.1", **replaced: str | None) -> bytes:
    headers: dict[str, str | None] = {
        "Host": "localhost:8080",
        "Upgrade": "websocket",
        "Connection": "keep-alive, Upgrade",
        "Sec-WebSocket-Key": KEY,
        "Sec-WebSocket-Version": "13",
    }
    headers |= {name.replace("_", "-"): value for name, value in replaced.items()}
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join([line, *lines]).encode()


def upgrade(raw: bytes, encrypted: bool = False, **options: object) -> Upgrade:
    return Upgrade(UpgradeRequest(raw), WebSocket(**options), encrypted=encrypted)  # type: ignore[arg-type]


def test_an_upgrade_is_answered_with_the_key_of_the_standard() -> None:
    answer = upgrade(head(Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZQ==")).answer()
    assert answer.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (head("POST / HTTP/1.1"), 405),
        (head("GET / HTTP/1.0"), 400),
        (head("GET /"), 400),
        (head("GET /leafnode HTTP/1.1"), 404),
        (head("GET /mqtt HTTP/1.1"), 404),
        (head(Upgrade="h2c"), 400),
        (head(Connection="close"), 400),
        (head(Host=None), 400),
        (head(Sec_WebSocket_Key="c2hvcnQ="), 400),
        (head(Sec_WebSocket_Key="not base64!"), 400),
        (head(Sec_WebSocket_Version="8"), 400),
        (head() + b"\r\nno colon", 400),
        (head() + b"\r\nbad name: x", 400),
        (head() + b"\r\nx: a\nb", 400),
        (head() + b"\r\nx: y" * 100, 400),
        (b"", 400),
    ],
)
def test_what_is_no_upgrade_gets_a_status(raw: bytes, status: int) -> None:
    with pytest.raises(UpgradeRefusal) as caught:
        upgrade(raw)
    assert caught.value.status == status
    assert caught.value.answer().startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize(
    ("origin", "host", "encrypted", "allowed"),
    [
        (None, "a.example", False, True),
        ("http://a.example", "a.example", False, True),
        ("http://a.example", "a.example:80", False, True),
        ("https://a.example", "a.example", True, True),
        ("https://a.example:8443", "a.example:8443", True, True),
        ("http://a.example:81", "a.example", False, False),
        ("http://b.example", "a.example", False, False),
        ("null", "a.example", False, False),
        ("http://[bad", "a.example", False, False),
    ],
)
def test_same_origin_compares_host_and_port(
    origin: str | None, host: str, encrypted: bool, allowed: bool
) -> None:
    raw = head(Origin=origin, Host=host)
    if allowed:
        upgrade(raw, encrypted, same_origin=True)
        return
    with pytest.raises(UpgradeRefusal) as caught:
        upgrade(raw, encrypted, same_origin=True)
    assert caught.value.status == 403


def test_listed_origins_are_matched_whole() -> None:
    origins = ("http://one.example", "http://two.example:8080")
    upgrade(head(Origin="http://one.example:80"), allowed_origins=origins)
    upgrade(head(Origin="http://TWO.example:8080"), allowed_origins=origins)
    for origin in ("https://one.example", "http://two.example", "http://one.example.evil"):
        with pytest.raises(UpgradeRefusal):
            upgrade(head(Origin=origin), allowed_origins=origins)


def test_compression_needs_both_sides() -> None:
    offer = head(Sec_WebSocket_Extensions="x-other, permessage-deflate; client_max_window_bits")
    assert upgrade(offer, compression=True).extensions()
    assert not upgrade(offer).extensions()
    assert not upgrade(head(), compression=True).extensions()


def test_configured_headers_are_added() -> None:
    assert (
        b"\r\nX-Served-By: midge\r\n" in upgrade(head(), headers={"X-Served-By": "midge"}).answer()
    )


def test_cookies_become_credentials_where_configured() -> None:
    request = UpgradeRequest(head(Cookie='user=eve; pass="secret"; user=ann; other=x'))
    options = WebSocket(user_cookie="user", pass_cookie="pass", token_cookie="missing")
    assert credentials(request.cookies(), options) == {"user": "ann", "password": "secret"}


@pytest.mark.parametrize(
    ("value", "address"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8::1, 10.0.0.1", "2001:db8::1"),
        ("evil\x1b[31m", ""),
        ("", ""),
    ],
)
def test_only_an_address_counts_as_forwarded(value: str, address: str) -> None:
    assert UpgradeRequest(head(X_Forwarded_For=value)).forwarded_for() == address


def test_a_place_needs_scheme_and_host() -> None:
    assert place_of("HTTPS://A.example") == ("https", "a.example", 443)
    with pytest.raises(ValueError, match="expected scheme"):
        place_of("a.example")
