"""The options of a connection: their names, defaults and what each accepts.

Names come as text in any case, from a command line, a mapping or Spark. They become a typed, frozen
structure, checked once, so that no connection starts with a value that has no meaning.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self
from urllib.parse import unquote, urlsplit

from midge.client.errors import OptionError, reason_of

_TRUE, _FALSE = {"true", "1", "yes"}, {"false", "0", "no"}
_DEFAULT_PORT = 4222
CONNECT_NAMES = frozenset(
    {
        *("servers", "user", "password", "token", "credentialsFile", "tlsCaFile", "tlsCertFile"),
        *("tlsKeyFile", "tlsHostname", "tlsFirst", "connectTimeout", "requestTimeout", "domain"),
    }
)
"""The names of the options that `ClientOptions.read` takes."""
_STREAM_NAME = re.compile(r"[^\s.*>/\\\x00-\x1f\x7f]{1,255}")


@dataclass(frozen=True)
class ServerAddress:
    """Where a server listens, and whether its URL asks for TLS."""

    host: str
    port: int
    tls: bool

    def __str__(self) -> str:
        """Write the address as a user would, without credentials."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True)
class ClientOptions:
    """How to reach and enter a NATS server."""

    servers: tuple[ServerAddress, ...]
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    credentials: str = field(default="", repr=False)
    """The text of a credentials file (user JWT and nkey seed), or of a bare nkey seed."""
    tls_ca_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    tls_hostname: str = ""
    tls_first: bool = False
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 60.0
    """How long to wait for an answer, and for a lost server to come back."""
    domain: str = ""
    name: str = "midge-pipeline"
    """The connection's name on the server."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Check and type the options of a connection.

        Raises:
            OptionError: a name is unknown, or a value has no meaning.

        """
        return cls.read(OptionReader(options, CONNECT_NAMES))

    @classmethod
    def read(cls, reader: "OptionReader") -> Self:
        """Take the options of the connection from `reader`, which may have others too.

        Raises:
            OptionError: a value has no meaning.

        """
        servers, url_user, url_password = reader.servers("servers")
        user = reader.text("user", url_user)
        password = reader.text("password", url_password)
        is_token = bool(url_user) and user == url_user and not password
        parsed = cls(
            servers=servers,
            user="" if is_token else user,
            password=password,
            token=reader.text("token", url_user if is_token else ""),
            credentials=reader.file("credentialsFile"),
            tls_ca_file=reader.text("tlsCaFile"),
            tls_cert_file=reader.text("tlsCertFile"),
            tls_key_file=reader.text("tlsKeyFile"),
            tls_hostname=reader.text("tlsHostname"),
            tls_first=reader.boolean("tlsFirst", default=False),
            connect_timeout_s=reader.seconds("connectTimeout", cls.connect_timeout_s),
            request_timeout_s=reader.seconds("requestTimeout", cls.request_timeout_s),
            domain=reader.stream_name("domain"),
        )
        if parsed.tls_key_file and not parsed.tls_cert_file:
            raise OptionError("tlsKeyFile: expected tlsCertFile with it")
        return parsed

    @property
    def tls(self) -> bool:
        """Whether TLS was asked for, by a URL or by any TLS option."""
        return any(server.tls for server in self.servers) or bool(
            self.tls_ca_file or self.tls_cert_file or self.tls_hostname or self.tls_first
        )


class OptionReader:
    """Takes typed values out of options given as text; every error names its option."""

    ignored: ClassVar[frozenset[str]] = frozenset()
    """Names in lower case that are accepted and not read."""

    def __init__(self, options: Mapping[str, str], names: frozenset[str]) -> None:
        """Raise `OptionError` for a name in `options` that is not in `names`."""
        self._values = {name.lower(): str(value) for name, value in dict(options).items()}
        known = {name.lower(): name for name in names}
        for name in self._values:
            if name not in known and name not in self.ignored:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {known[near[0]]}?" if near else ""
                raise OptionError(f"{name}: there is no such option{hint}")

    def text(self, name: str, default: str = "") -> str:
        """Return an option as it was given."""
        return self._values.get(name.lower(), default)

    def boolean(self, name: str, *, default: bool) -> bool:
        """Return whether an option is true, 1 or yes."""
        text = self.text(name, str(default)).strip().lower()
        if text not in _TRUE | _FALSE:
            raise OptionError(f"{name}: expected true or false, got {text!r}")
        return text in _TRUE

    def seconds(self, name: str, default: float) -> float:
        """Return a time in seconds above 0."""
        text = self.text(name, str(default)).strip()
        if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", text) or float(text) == 0:
            raise OptionError(f"{name}: expected seconds above 0, such as 2.5, got {text!r}")
        return float(text)

    def stream_name(self, name: str, *, required: bool = False) -> str:
        """Return a name that is one token of a subject; empty if it may be and is."""
        text = self.text(name)
        if not text and not required:
            return ""
        if not _STREAM_NAME.fullmatch(text):
            raise OptionError(
                f"{name}: expected a name without blanks, dots, wildcards and slashes, got {text!r}"
            )
        return text

    def file(self, name: str) -> str:
        """Return the text of the file that an option names."""
        path = self.text(name)
        if not path:
            return ""
        try:
            return Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"{name}: cannot read {path!r}: {reason_of(error)}") from error

    def servers(self, name: str) -> tuple[tuple[ServerAddress, ...], str, str]:
        """Return the addresses, and the user and password that a URL carries.

        A user without a password is a token, as in the URLs of other NATS clients.
        """
        addresses, user, password = [], "", ""
        for part in self.text(name, f"nats://127.0.0.1:{_DEFAULT_PORT}").split(","):
            url = part.strip()
            try:
                split = urlsplit(url if "://" in url else f"nats://{url}")
                host, port = split.hostname, split.port
            except ValueError:
                host, port = None, None
            if not host or split.scheme not in ("nats", "tls"):
                raise OptionError(f"{name}: expected nats://host:port or tls://…, got {_mask(url)}")
            addresses.append(ServerAddress(host, port or _DEFAULT_PORT, split.scheme == "tls"))
            user = user or unquote(split.username or "")
            password = password or unquote(split.password or "")
        return tuple(addresses), user, password


def _mask(url: str) -> str:
    """Return the URL for an error text, without the password that it may carry."""
    return repr(re.sub(r"(?<=://)[^@/]*@", "***@", url))
