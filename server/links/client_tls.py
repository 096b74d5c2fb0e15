"""The TLS context of a link that this server has begun."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from midge.server.errors import ConfigError
from midge.server.listeners.tls import choose_curve

if TYPE_CHECKING:
    from midge.server.config.security import ClientTls


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
