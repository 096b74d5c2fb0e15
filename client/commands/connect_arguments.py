"""The options of a command that connects to a NATS server.

Each is a flag. One that is not given comes from the environment variable that the `nats` tool reads
for it, or else from a context: the options of a connection that this tool keeps under a name.
"""

import argparse
import json
import os
from pathlib import Path

from midge.client.errors import OptionError, reason_of
from midge.client.options import ClientOptions

_OPTIONS = {
    "server": ("servers", "NATS_URL", "URL", "nats:// or tls://"),
    "user": ("user", "NATS_USER", "NAME", "user name"),
    "password": ("password", "NATS_PASSWORD", "WORD", "its password"),
    "token": ("token", "NATS_TOKEN", "TOKEN", "token, instead of a user"),
    "credentials-file": (
        *("credentialsFile", "NATS_CREDS", "FILE"),
        "JWT and seed, or a bare nkey seed",
    ),
    "tls-ca-file": ("tlsCaFile", "NATS_CA", "FILE", "certificates to trust"),
    "tls-cert-file": ("tlsCertFile", "NATS_CERT", "FILE", "our certificate"),
    "tls-key-file": ("tlsKeyFile", "NATS_KEY", "FILE", "its key"),
}
_CREDENTIALS = {"user", "password", "token", "credentialsFile"}
_SERVER = "nats://127.0.0.1:4222"

_SETTINGS = {
    "url": "servers",
    "user": "user",
    "password": "password",
    "token": "token",
    "creds": "credentialsFile",
    "nkey": "credentialsFile",
    "ca": "tlsCaFile",
    "cert": "tlsCertFile",
    "key": "tlsKeyFile",
    "tls_first": "tlsFirst",
    "jetstream_domain": "domain",
}
_FILE_SETTINGS = {"creds", "nkey", "ca", "cert", "key"}
_UNKNOWN_HERE = ("nsc", "socks_proxy", "jetstream_api_prefix", "inbox_prefix", "user_jwt")


def add_connect_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options for the server's address and the credentials."""
    group = parser.add_argument_group("connection")
    for name, (_, variable, metavar, meaning) in _OPTIONS.items():
        flags = ("-s", "--server") if name == "server" else (f"--{name}",)
        default = f" (default: ${variable}{f' or {_SERVER}' if name == 'server' else ''})"
        group.add_argument(*flags, metavar=metavar, help=meaning + default)
    group.add_argument(
        "--context",
        default="",
        metavar="NAME",
        help="context of the nats tool with what is not given (default: the selected one)",
    )


def connect_options(args: argparse.Namespace) -> ClientOptions:
    """Return the options from the arguments, the environment and the context.

    Raises:
        OptionError: an option is invalid.
    """
    try:
        return ClientOptions.parse(given_options(args))
    except OptionError as error:
        raise OptionError(_with_source(args, str(error))) from error


def given_options(args: argparse.Namespace) -> dict[str, str]:
    """Return the given options under the names that `ClientOptions.parse` takes.

    Credentials of the context are left out where others are given.

    Raises:
        OptionError: the context cannot be used.
    """
    given = {}
    for name, (option, variable, *_) in _OPTIONS.items():
        value = _flag(args, name) or os.environ.get(variable, "")
        if value:
            given[option] = value
    context = read_context(args.context)
    if _CREDENTIALS & given.keys() or "@" in given.get("servers", ""):
        context = {key: value for key, value in context.items() if key not in _CREDENTIALS}
    return {"servers": _SERVER} | context | given


def read_context(name: str = "") -> dict[str, str]:
    """Return the options of a context under the names that `ClientOptions.parse` takes.

    Without `name`, the environment's NATS_CONTEXT names it, or else the selection that
    `nats context select` has made; without these there are no options. ADR-21 of NATS has the
    files: `nats/context/NAME.json`, and `nats/context.txt` with the name of the selected context,
    both in `$XDG_CONFIG_HOME`, by default `~/.config`.

    Raises:
        OptionError: there is no such context, it cannot be read, or it has a setting that midge
            does not honour.
    """
    name = name or os.environ.get("NATS_CONTEXT", "") or _selected_context()
    if not name:
        return {}
    path = (
        Path(name) if Path(name).is_absolute() else _context_folder() / "context" / f"{name}.json"
    )
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"context {name}: cannot read {path}: {reason_of(error)}") from error
    if not isinstance(settings, dict):
        raise OptionError(f"context {name}: expected a JSON object in {path}")
    for key in _UNKNOWN_HERE:
        if settings.get(key):
            raise OptionError(f"context {name}: midge cannot honour its {key!r}")
    given = {key: settings[key] for key in _SETTINGS if settings.get(key)}
    return {_SETTINGS[key]: _setting_text(key, value) for key, value in given.items()}


def _selected_context() -> str:
    try:
        return (_context_folder() / "context.txt").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _context_folder() -> Path:
    root = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(root) if root else Path.home() / ".config") / "nats"


def _setting_text(key: str, value: object) -> str:
    return str(Path(str(value)).expanduser()) if key in _FILE_SETTINGS else str(value)


def _flag(args: argparse.Namespace, name: str) -> str:
    return getattr(args, name.replace("-", "_")) or ""


def _with_source(args: argparse.Namespace, text: str) -> str:
    """Return an error text with the name of an option replaced by where its value came from."""
    subject, colon, what = text.partition(":")
    for name, (option, variable, *_) in _OPTIONS.items():
        if option == subject:
            is_variable = not _flag(args, name) and os.environ.get(variable)
            return f"{variable if is_variable else f'--{name}'}{colon}{what}"
    return text
