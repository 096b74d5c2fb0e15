"""An authority for tests, and certificates that it signs, made on the fly."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from os import PathLike

_DAY = dt.timedelta(days=1)
_USAGES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
    *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)
_NAMES = ("localhost", "127.0.0.1", "::1")


class CertificateFiles(NamedTuple):
    """The paths of a certificate chain and of its private key, in PEM."""

    cert_file: str
    key_file: str


class Certificates:
    """An authority, with its certificate in `ca_file`, and certificates that it signs."""

    def __init__(self, directory: str | PathLike[str]) -> None:
        self._directory = Path(directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "midge test authority")])
        usage = x509.BasicConstraints(ca=True, path_length=0)
        may_sign = dict.fromkeys(_USAGES, False) | {"key_cert_sign": True, "crl_sign": True}
        signed = (
            self._builder(self._name, self._key)
            .add_extension(usage, critical=True)
            .add_extension(x509.KeyUsage(**may_sign), critical=True)
        )
        path = self._directory / "ca.pem"
        path.write_bytes(_pem(signed.sign(self._key, hashes.SHA256())))
        self.ca_file = str(path)

    def issue(self, name: str, *alternatives: str, email: str = "") -> CertificateFiles:
        """Write a certificate of the common name `name`, for servers and clients alike.

        `alternatives` are host names and IP addresses; without any, this machine's. An `email` is
        the user of a server with `verify_and_map`.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        others: list[x509.GeneralName] = [_alternative(one) for one in alternatives or _NAMES]
        if email:
            others.append(x509.RFC822Name(email))
        signed = self._builder(subject, key).add_extension(
            x509.SubjectAlternativeName(others), critical=False
        )
        stem = "".join(one if one.isalnum() else "-" for one in name)
        certificate = self._directory / f"{stem}.pem"
        certificate.write_bytes(_pem(signed.sign(self._key, hashes.SHA256())))
        private = self._directory / f"{stem}-key.pem"
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        private.chmod(0o600)
        return CertificateFiles(str(certificate), str(private))

    def server_options(self, **tls: Any) -> dict[str, Any]:
        """Return the keywords of a server with a certificate; `tls` has more of its settings.

        With `verify=True` or `verify_and_map=True`, clients need a certificate of this authority.
        """
        files = self.issue("server")
        return {"tls": {**files._asdict(), "ca_file": self.ca_file, **tls}}

    def client_context(self, name: str = "", *, email: str = "") -> ssl.SSLContext:
        """Return the `tls` of `nats.connect`; with a `name`, the client has a certificate."""
        context = ssl.create_default_context(cafile=self.ca_file)
        if name:
            context.load_cert_chain(*self.issue(name, email=email))
        return context

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> _Builder:
        now = dt.datetime.now(dt.UTC)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        # Python 3.13 refuses certificates without the identifiers, or an authority without a usage.
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(issuer, critical=False)
        )


_Builder = x509.CertificateBuilder


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
