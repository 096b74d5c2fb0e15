"""The options of a command that connects to a NATS server."""

import argparse

from midge.pipeline.options import ConnectOptions, SinkOptions

_OPTIONS = {
    "user": ("user", "user name"),
    "password": ("password", "password"),
    "token": ("token", "token"),
    "credentials-file": ("credentialsFile", "JWT and seed, or a bare seed"),
    "tls-ca-file": ("tlsCaFile", "certificates to trust"),
    "tls-cert-file": ("tlsCertFile", "our certificate"),
    "tls-key-file": ("tlsKeyFile", "its key"),
}


def add_connect_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where the server is and how to enter it."""
    parser.add_argument(
        "--server", default="nats://127.0.0.1:4222", metavar="URL", help="nats:// or tls://"
    )
    for name, (_, meaning) in _OPTIONS.items():
        parser.add_argument(f"--{name}", metavar="X", help=meaning)


def connect_options(args: argparse.Namespace) -> ConnectOptions:
    """Return the options that the arguments say.

    Raises:
        OptionError: one of them has no meaning.
    """
    given = {
        option: getattr(args, name.replace("-", "_")) for name, (option, _) in _OPTIONS.items()
    }
    chosen = {option: value for option, value in given.items() if value}
    return SinkOptions.parse({"servers": args.server} | chosen).connect
