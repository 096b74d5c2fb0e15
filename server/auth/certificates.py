"""Client certificates: the names that may identify a user, and pinned public keys.

Distinguished names are compared as sets of whole relative names, each a set of type and value
pairs. Order does not matter, the sets must be equal, and a multi-valued relative name
(``CN=a+OU=b``) never equals two single ones.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtensionOID, NameOID
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

DistinguishedName = frozenset[tuple[frozenset[tuple[str, str]], int]]
"""Relative names with their counts."""

_MORE_TYPES = {
    "E": NameOID.EMAIL_ADDRESS,
    "EMAIL": NameOID.EMAIL_ADDRESS,
    "EMAILADDRESS": NameOID.EMAIL_ADDRESS,
    "GIVENNAME": NameOID.GIVEN_NAME,
    "POSTALCODE": NameOID.POSTAL_CODE,
    "SERIALNUMBER": NameOID.SERIAL_NUMBER,
    "SN": NameOID.SURNAME,
    "TITLE": NameOID.TITLE,
}
"""Names of attribute types that RFC 4514 does not list."""


class CertificateNames(Struct, frozen=True):
    """The names in a certificate, in the order in which they are tried as users."""

    alternatives: tuple[str, ...]
    """Subject alternative names: e-mail addresses, then DNS names, then URIs."""
    subject: DistinguishedName
    """The subject's distinguished name, or empty."""


def read_names(certificate: bytes) -> CertificateNames | None:
    """Return the names in a DER `certificate`, or None when it cannot be read."""
    try:
        parsed = x509.load_der_x509_certificate(certificate)
        return CertificateNames(_alternatives(parsed), _name_parts(parsed.subject))
    except (ValueError, x509.DuplicateExtension):
        return None


def fingerprints(certificate: bytes) -> dict[str, str]:
    """Return what `/connz` shows of a DER `certificate`: its subject, and hashes in hex."""
    parsed = x509.load_der_x509_certificate(certificate)
    return {
        "subject": parsed.subject.rfc4514_string(),
        "spki_sha256": public_key_fingerprint(certificate) or "",
        "cert_sha256": hashlib.sha256(certificate).hexdigest(),
    }


def names_host(certificate: bytes, hosts: Iterable[str]) -> bool:
    """Return whether a DNS name in a DER `certificate` is one of `hosts`.

    A wildcard matches the first label only (RFC 6125, 6.4.3).
    """
    try:
        parsed = x509.load_der_x509_certificate(certificate)
        extension = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (ValueError, x509.DuplicateExtension, x509.ExtensionNotFound):
        return False
    names = {name.lower() for name in extension.value.get_values_for_type(x509.DNSName)}
    return any(
        host in names or f"*.{host.partition('.')[2]}" in names for host in map(str.lower, hosts)
    )


def read_distinguished_name(text: str) -> DistinguishedName | None:
    """Return the distinguished name in `text` (RFC 4514), or None when it is malformed."""
    try:
        return _name_parts(x509.Name.from_rfc4514_string(_tidy_types(text), _MORE_TYPES))
    except ValueError:
        return None


def public_key_fingerprint(certificate: bytes) -> str | None:
    """Return the SHA-256 of the public key in a DER `certificate`, in hexadecimal, or None."""
    try:
        key = x509.load_der_x509_certificate(certificate).public_key()
    except ValueError:
        return None
    raw = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(raw).hexdigest()


def _alternatives(certificate: x509.Certificate) -> tuple[str, ...]:
    """List the subject alternative names that may name a user."""
    try:
        extension = certificate.extensions.get_extension_for_oid(
            ExtensionOID.SUBJECT_ALTERNATIVE_NAME
        )
    except x509.ExtensionNotFound:
        return ()
    names = extension.value
    if not isinstance(names, x509.SubjectAlternativeName):
        return ()
    return (
        *names.get_values_for_type(x509.RFC822Name),
        *names.get_values_for_type(x509.DNSName),
        *names.get_values_for_type(x509.UniformResourceIdentifier),
    )


def _name_parts(name: x509.Name) -> DistinguishedName:
    """Return `name` in the form that is compared."""
    parts = (
        frozenset((attribute.oid.dotted_string, str(attribute.value)) for attribute in relative)
        for relative in name.rdns
    )
    return frozenset(Counter(parts).items())


def _tidy_types(text: str) -> str:
    """Convert the attribute types in `text` to capitals without blanks; keep the values."""
    out: list[str] = []
    in_type = True
    escaped = False
    for character in text:
        if not in_type:
            out.append(character)
        elif character != " ":
            out.append(character.upper())
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == "=":
            in_type = False
        elif character in ",+":
            in_type = True
    return "".join(out)
