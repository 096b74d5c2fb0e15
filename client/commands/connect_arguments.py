"""The options of a command that connects to a NATS server."""

import argparse

from midge.client.errors import OptionError
from midge.client.options import ConnectOptions

_OPTIONS = {
    "user": ("user", "NAME", "user name"),
    "password": ("password", "WORD", "its password"),
    "token": ("token", "TOKEN", "token, instead of a user"),
    "credentials-file": ("credentialsFile", "FILE", "JWT and seed, or a bare nkey seed"),
    "tls-ca-file": ("tlsCaFile", "FILE", "certificates to trust (default: the system's)"),
    "tls-cert-file": ("tlsCertFile", "FILE", "our certificate"),
    "tls-key-file": ("tlsKeyFile", "FILE", "its key"),
}
_SERVER = "nats://127.0.0.1:4222"


def add_connect_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options for the server's address and the credentials."""
    group = parser.add_argument_group("connection")
    group.add_argument(
        "--server", default=_SERVER, metavar="URL", help=f"nats:// or tls:// (default: {_SERVER})"
    )
    for name, (_, metavar, meaning) in _OPTIONS.items():
        group.add_argument(f"--{name}", metavar=metavar, help=meaning)


def connect_options(args: argparse.Namespace) -> ConnectOptions:
    """Return the options from the arguments.

    Raises:
        OptionError: an option is invalid.
    """
    try:
        return ConnectOptions.parse(given_options(args))
    except OptionError as error:
        raise OptionError(_with_flag(str(error))) from error


def given_options(args: argparse.Namespace) -> dict[str, str]:
    """Return the given options under the names that `ConnectOptions.parse` takes."""
    given = {
        option: getattr(args, name.replace("-", "_")) for name, (option, *_) in _OPTIONS.items()
    }
    return {"servers": args.server} | {name: value for name, value in given.items() if value}


def _with_flag(text: str) -> str:
    """Return an error text with the names of options replaced by the flags of the command line."""
    subject, colon, what = text.partition(":")
    flags = {option: f"--{name}" for name, (option, *_) in _OPTIONS.items()}
    flags["servers"] = "--server"
    return f"{flags.get(subject, subject)}{colon}{what}"
