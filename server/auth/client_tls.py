"""The TLS context of a connection that this server makes: a link, or a request to a resolver."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from midge.server.errors import ConfigError

if TYPE_CHECKING:
    from midge.server.config.security import ClientTls


_CURVES = {
    "X25519": "X25519",
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519MLKEM768": "",
}
"""OpenSSL's names for curves; before 3.5 it does not have the last one."""


def build_client_context(table: ClientTls, where: str = "tls") -> ssl.SSLContext:
    """Return the context that `table`, found at `where` in the settings, describes.

    Raises:
        ConfigError: a file cannot be read, or is not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    choose_curve(context, table.curve_preferences, where)
    if table.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        if table.ca_file:
            context.load_verify_locations(table.ca_file)
        elif not table.insecure:
            context.load_default_certs()
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{table.ca_file!r}: {error}", key=f"{where}.ca_file") from error
    try:
        if table.cert_file:
            context.load_cert_chain(table.cert_file, table.key_file or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{table.cert_file!r}: {error}", key=f"{where}.cert_file") from error
    return context


def choose_curve(context: ssl.SSLContext, curves: tuple[str, ...], where: str) -> None:
    """Restrict the key exchange to one curve, because Python's TLS takes only one.

    Raises:
        ConfigError: a curve of the table at `where` is unknown.
    """
    for curve in curves:
        if curve not in _CURVES:
            text = f"expected one of {', '.join(_CURVES)}; got {curve!r}"
            raise ConfigError(text, key=f"{where}.curve_preferences")
    if len(curves) == 1 and (name := _CURVES[curves[0]]):
        context.set_ecdh_curve(name)
