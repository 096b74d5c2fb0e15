"""TLS: the one place where a context is built, for the command line, the file and a reload alike.

`TlsContexts` holds the context for new handshakes. A reload replaces it or, when the new settings
or files are bad, changes nothing; established connections keep their context.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import structs

from midge.server.auth.client_tls import choose_curve
from midge.server.config.security import INSECURE_CIPHER_SUITES, TlsCertificate
from midge.server.errors import ConfigError
from midge.server.log.logger import get_logger

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from midge.server.config.security import Tls

log = get_logger()

_VERSIONS = {"1.2": "TLSv1_2", "1.3": "TLSv1_3"}

_OPENSSL_NAMES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
"""The TLS 1.2 suites that are offered unless others are configured: forward secrecy and
authenticated encryption."""

_WEAK_NAMES = {
    f"TLS_ECDHE_{key}_WITH_AES_{bits}_CBC_SHA": f"ECDHE-{key}-AES{bits}-SHA"
    for key in ("ECDSA", "RSA")
    for bits in (128, 256)
}
"""Suites without authenticated encryption, offered only by name."""


_TLS13_SUITES = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
"""Suites that are always on with TLS 1.3; naming them is allowed and has no effect."""

PEM_SIZE_MAX_BYTES = 1 << 20
"""Bytes of a file that are searched for a certificate or a key."""

_ALIASES = {
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
}


def for_anybody(table: Tls) -> Tls:
    """Return `table` without its demands on clients, for clients without a certificate."""
    return structs.replace(
        table, verify=False, verify_and_map=False, ca_file="", pinned_certs=(), allow_non_tls=False
    )


class TlsContexts:
    """The context for new handshakes, replaceable while serving, and the limit of these."""

    def __init__(self, table: Tls) -> None:
        """Load the files that `table` names.

        Raises:
            ConfigError: see `build_server_context`.
        """
        self.table = table
        self.context = build_server_context(table)
        self.limit = HandshakeLimit(0)
        _warn_of_dates(table)

    def prepare(self, table: Tls) -> Callable[[], None]:
        """Read the files of `table` again; return the function that puts them into use.

        Raises:
            ConfigError: the new settings are bad; the old ones stay in force.
        """
        context = build_server_context(table)

        def put_in_force() -> None:
            self.table = table
            self.context = context
            _warn_of_dates(table)

        return put_in_force


def build_server_context(table: Tls, where: str = "tls") -> ssl.SSLContext:
    """Return the server-side context that `table`, found at `where` in the settings, describes.

    Raises:
        ConfigError: a file cannot be read or does not fit, or the settings contradict each other.
    """
    asks_for_certificate = table.verify or table.verify_and_map
    import ssl  # noqa: PLC0415 - for TLS only

    from midge.server.listeners.tls_alert import (  # noqa: PLC0415 - as above
        AlertingSSLObject,
    )

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = AlertingSSLObject
    context.minimum_version = ssl.TLSVersion[_VERSIONS[table.min_version]]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_ciphers(":".join(_cipher_names(table, f"{where}.cipher_suites")))
    choose_curve(context, table.curve_preferences, where)
    first = next(iter(table.pairs), TlsCertificate(cert_file="", key_file=""))
    _load_certificate(context, first, f"{where}.certs[0]" if table.certs else where)
    if len(table.certs) > 1:
        _choose_by_name(context, table, where)
    if table.ca_file:
        # OpenSSL adds known authorities to the chain that it sends; nats-server sends only the
        # contents of cert_file. So the context gets authorities only if it checks certificates.
        knows = context if asks_for_certificate else ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _load_authorities(knows, table.ca_file, f"{where}.ca_file")
    elif asks_for_certificate:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)  # the system's, as nats-server does
    if asks_for_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def is_client_hello(first_byte: int) -> bool:
    """Return whether a connection's first byte begins a TLS record rather than a NATS verb."""
    return first_byte == 0x16


class HandshakeLimit:
    """Limits the handshakes of each second; time is an argument."""

    def __init__(self, per_second: int) -> None:
        """Allow `per_second`, which may change; 0 means no limit."""
        self.per_second = per_second
        self._second = 0
        self._count = 0
        self.refused = 0

    def admit(self, now_s: float) -> bool:
        """Return whether one more handshake may start at `now_s` (monotonic), and count it."""
        if not self.per_second:
            return True
        if int(now_s) != self._second:
            self._second = int(now_s)
            self._count = 0
        self._count += 1
        if self._count <= self.per_second:
            return True
        self.refused += 1
        return False


def _cipher_names(table: Tls, where: str) -> list[str]:
    """Return OpenSSL's names for the suites of `table`, or for all safe ones if it names none."""
    offered = _OPENSSL_NAMES | _WEAK_NAMES
    if table.allow_insecure_cipher_suites:
        offered |= INSECURE_CIPHER_SUITES
    names = []
    for suite in table.cipher_suites:
        name = offered.get(_ALIASES.get(suite, suite))
        if name is None and suite not in _TLS13_SUITES:
            known = ", ".join([*offered, *sorted(_TLS13_SUITES)])
            raise ConfigError(f"expected one of {known}; got {suite!r}", key=where)
        if name is not None:
            names.append(name)
    return names or list(_OPENSSL_NAMES.values())


def _choose_by_name(context: ssl.SSLContext, table: Tls, where: str) -> None:
    """Select the first certificate that has the client's server name, in each handshake."""
    contexts: list[tuple[list[str], ssl.SSLContext]] = []
    for index, pair in enumerate(table.certs):
        other = structs.replace(table, certs=(pair,))
        at = f"{where}.certs[{index}]"
        contexts.append((_names_in(pair.cert_file), build_server_context(other, at)))

    def choose(handshake: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name is None:
            return
        asked = name.lower().rstrip(".")
        patterns = {asked, f"*.{asked.partition('.')[2]}"}
        for names, own in contexts:
            if patterns.intersection(names):
                handshake.context = own
                return

    context.sni_callback = choose


def _names_in(cert_file: str) -> list[str]:
    """Return the DNS names of a certificate, or else its common names, in small letters."""
    from pathlib import Path  # noqa: PLC0415 - only TLS needs it

    from cryptography import x509  # noqa: PLC0415 - only TLS needs it
    from cryptography.x509.oid import NameOID  # noqa: PLC0415 - as above

    try:
        certificate = x509.load_pem_x509_certificate(Path(cert_file).read_bytes())
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        names = found.value.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        names = [str(one.value) for one in common]
    except (OSError, ValueError):
        return []  # the context of this file names the fault
    return [name.lower() for name in names]


def _load_certificate(context: ssl.SSLContext, pair: TlsCertificate, where: str) -> None:
    """Load certificate and key into `context`."""
    for name, path, kind in (
        ("cert_file", pair.cert_file, "CERTIFICATE"),
        ("key_file", pair.key_file, "PRIVATE KEY"),
    ):
        content = _check_file(path, f"{where}.{name}")
        if f"{kind}-----".encode() not in content:
            text = f"{path!r} holds no {kind.lower()}; expected -----BEGIN {kind}----- in it"
            raise ConfigError(text, key=f"{where}.{name}")
    try:
        context.load_cert_chain(pair.cert_file, pair.key_file, password=_no_password)
    except (OSError, ValueError) as error:  # an error of TLS is an OSError
        raise ConfigError(
            f"{pair.cert_file!r} and {pair.key_file!r} are no certificate with its key: "
            f"{_reason(error)}",
            key=f"{where}.cert_file",
        ) from error


def _warn_of_dates(table: Tls) -> None:
    """Log that clients will refuse the certificate by its dates; nothing else here reports it."""
    from pathlib import Path  # noqa: PLC0415 - only TLS needs it

    from cryptography import x509  # noqa: PLC0415 - only TLS needs it

    now = datetime.now(UTC)
    for pair in table.pairs:
        try:
            certificate = x509.load_pem_x509_certificate(Path(pair.cert_file).read_bytes())
        except (OSError, ValueError):
            continue  # OpenSSL could parse it
        begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if not begin <= now <= end:
            dates = f"valid from {begin:%Y-%m-%d} to {end:%Y-%m-%d}"
            log.warning("certificate_out_of_date", file=pair.cert_file, dates=dates)


def _load_authorities(context: ssl.SSLContext, path: str, where: str) -> None:
    """Load into `context` the authorities for client certificates."""
    _check_file(path, where)
    try:
        context.load_verify_locations(path)
    except OSError as error:
        raise ConfigError(f"{path!r} holds no certificates: {_reason(error)}", key=where) from error


def _check_file(path: str, where: str) -> bytes:
    """Return the start of the file at `path`; refuse an unreadable one."""
    from pathlib import Path  # noqa: PLC0415 - as above

    if not path:
        raise ConfigError("expected the path of a file, got nothing", key=where)
    try:
        with Path(path).open("rb") as file:
            return file.read(PEM_SIZE_MAX_BYTES)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"cannot read {path!r}: {reason}", key=where) from error


def _no_password() -> str:
    """Refuse an encrypted key: a server cannot prompt for its password."""
    raise ValueError("the private key is encrypted")


def _reason(error: Exception) -> str:
    """Return OpenSSL's name of the error."""
    reason = getattr(error, "reason", None)
    return str(reason or error).lower().replace("_", " ")
