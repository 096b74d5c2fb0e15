"""Certificates: the names in them, their order, and distinguished names part by part."""

from __future__ import annotations

import pytest
from cryptography import x509

from midge.server.auth.certificates import (
    public_key_fingerprint,
    read_distinguished_name,
    read_names,
)
from tests.support.keys import Authority, der


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def test_alternative_names_come_by_kind(authority: Authority) -> None:
    certificate, _ = authority.issue(
        "CN=subject",
        [
            x509.UniformResourceIdentifier("urn:uri"),
            x509.DNSName("dns.example"),
            x509.RFC822Name("me@example"),
            x509.DNSName("dns2.example"),
        ],
    )
    names = read_names(der(certificate))
    assert names is not None
    assert names.alternatives == ("me@example", "dns.example", "dns2.example", "urn:uri")
    assert names.subject == read_distinguished_name("CN=subject")


def test_a_certificate_may_have_no_names(authority: Authority) -> None:
    names = read_names(der(authority.issue()[0]))
    assert names is not None
    assert names.alternatives == ()
    assert not names.subject


@pytest.mark.parametrize("garbage", [b"", b"\x30", b"x" * 100, b"\x30\x82\xff\xff" + b"\0" * 20])
def test_what_is_no_certificate_has_no_names(garbage: bytes) -> None:
    assert read_names(garbage) is None
    assert public_key_fingerprint(garbage) is None


def test_order_and_type_case_do_not_matter() -> None:
    assert read_distinguished_name("CN=a,OU=b,DC=c") == read_distinguished_name("dc=c, cn=a,ou=b")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CN=a,OU=b", "CN=a+OU=b"),
        ("CN=a,OU=b", "CN=a"),
        ("CN=a,OU=b", "CN=a,OU=b,OU=b"),
        ("CN=a", "CN=A"),
        ("CN=a", "OU=a"),
        ("CN=a\\,OU\\=b", "CN=a,OU=b"),
        ("CN=a+OU=b,O=c", "CN=a,OU=b+O=c"),
        ("CN=a,OU=b,OU=c", "CN=a,OU=c,OU=c"),
    ],
)
def test_names_that_differ_in_any_part_are_different(one: str, other: str) -> None:
    first, second = read_distinguished_name(one), read_distinguished_name(other)
    assert first is not None
    assert second is not None
    assert first != second


@pytest.mark.parametrize("text", ["me", "CN", "CN=a,", "=a", "me@example=x"])
def test_what_is_no_distinguished_name_is_none(text: str) -> None:
    assert read_distinguished_name(text) is None


def test_the_fingerprint_is_that_of_the_key(authority: Authority) -> None:
    one, other = authority.issue("CN=a")[0], authority.issue("CN=a")[0]
    fingerprint = public_key_fingerprint(der(one))
    assert fingerprint is not None
    assert len(fingerprint) == 64
    assert fingerprint != public_key_fingerprint(der(other))
