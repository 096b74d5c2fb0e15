"""Keys, tokens and certificates for tests; nothing here is used by the server."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from midge.protocol.nkeys import decode_nkey, encode_nkey
from midge.server.auth.nkeys import KeyKind, encode_public_key

_SEED_PREFIX = 18 << 3  # which makes the text begin with an S


def unpadded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class KeyPair:
    """An nkey with its secret half."""

    def __init__(self, kind: KeyKind) -> None:
        self._private = Ed25519PrivateKey.generate()
        raw = self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.public = encode_public_key(kind, raw)

    @property
    def seed(self) -> str:
        """The secret half, as files and configurations have it."""
        kind = decode_nkey(self.public)[0]
        raw = self._private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
        return encode_nkey(bytes([_SEED_PREFIX | kind >> 5, (kind & 31) << 3]) + raw)

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)

    def signature(self, nonce: bytes) -> str:
        return unpadded(self.sign(nonce))


UNLIMITED_ACCOUNT = {"subs": -1, "conn": -1, "payload": -1}


def make_token(
    issuer: KeyPair,
    subject: str,
    kind: str,
    *,
    header: dict[str, Any] | None = None,
    nats: dict[str, Any] | None = None,
    **claims: Any,
) -> str:
    """Sign a token of `kind` about `subject`; `nats` and `claims` are added to what it needs."""
    limits = {"limits": UNLIMITED_ACCOUNT} if kind == "account" else {}
    head = {"typ": "JWT", "alg": "ed25519-nkey"} if header is None else header
    body = {
        "iss": issuer.public,
        "sub": subject,
        "iat": 1000,
        "nats": {"type": kind, "version": 2, **limits, **(nats or {})},
        **claims,
    }
    signed = ".".join(unpadded(json.dumps(part).encode()) for part in (head, body))
    return f"{signed}.{unpadded(issuer.sign(signed.encode()))}"


def make_old_token(
    issuer: KeyPair, subject: str, kind: str, nats: dict[str, Any] | None = None, **claims: Any
) -> str:
    """Sign a token of version 1: the type beside `nats`, the body alone under the signature."""
    body = {"iss": issuer.public, "sub": subject, "iat": 1000, "type": kind, **claims}
    if nats is not None:
        body["nats"] = nats
    head, signed = (
        unpadded(json.dumps(part).encode()) for part in ({"typ": "jwt", "alg": "ed25519"}, body)
    )
    return f"{head}.{signed}.{unpadded(issuer.sign(signed.encode()))}"


class Authority:
    """A certificate authority that lives as long as the test."""

    def __init__(self, name: str = "test authority") -> None:
        self._key = generate_private_key(SECP256R1())
        self._name = x509.Name.from_rfc4514_string(f"CN={name}")
        self.certificate = self._sign(self._name, self._key, None, is_authority=True)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def issue(
        self,
        subject: str = "",
        alternatives: list[x509.GeneralName] | None = None,
        ends: datetime | None = None,
    ) -> tuple[x509.Certificate, bytes]:
        """Return a certificate for `subject` and its private key in PEM; it ends tomorrow."""
        key = generate_private_key(SECP256R1())
        name = x509.Name.from_rfc4514_string(subject) if subject else x509.Name([])
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return self._sign(name, key, alternatives, ends, is_authority=False), pem

    def _sign(
        self,
        subject: x509.Name,
        key: EllipticCurvePrivateKey,
        alternatives: list[x509.GeneralName] | None,
        ends: datetime | None = None,
        *,
        is_authority: bool,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(ends or now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if is_authority:
            usage = x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=True,
                crl_sign=True,
                encipher_only=False,
                decipher_only=False,
            )
            builder = builder.add_extension(usage, critical=True)
        if alternatives:
            builder = builder.add_extension(
                x509.SubjectAlternativeName(alternatives), critical=False
            )
        return builder.sign(self._key, hashes.SHA256())


def der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def credentials_file(token: str, user: KeyPair) -> bytes:
    """Return what a credentials file holds: the JWT of `user`, and its seed."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
    ).encode()
