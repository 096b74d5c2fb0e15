"""Record what a NATS server delivers to a subscriber, as Parquet files, until interrupted."""

import argparse
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from midge.pipeline.console import bars, errors_told, say
from midge.pipeline.errors import OptionError
from midge.pipeline.options import SinkOptions
from midge.pipeline.recording import Recorded, RecordOptions, record


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="where the records go")
    parser.add_argument(
        "--server", default="nats://127.0.0.1:4222", metavar="URL", help="nats:// or tls://"
    )
    parser.add_argument(
        "--subject",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only these (default: >); repeatable, a message that two match is recorded twice",
    )
    parser.add_argument("--seconds", type=float, metavar="N", help="end after so long")
    parser.add_argument("--count", type=int, metavar="N", help="end after so many messages")
    parser.add_argument(
        "--roll-age", type=float, default=60.0, metavar="SECONDS", help="default: 60"
    )
    for name, meaning in (
        ("user", "user name"),
        ("password", "password"),
        ("token", "token"),
        ("credentials-file", "JWT and seed"),
        ("tls-ca-file", "certificates to trust"),
        ("tls-cert-file", "our certificate"),
        ("tls-key-file", "its key"),
    ):
        parser.add_argument(f"--{name}", metavar="…", help=meaning)


def run(args: argparse.Namespace) -> int:
    """Record; return the exit code."""
    codes: list[int] = []
    with errors_told("midge record", codes):
        options = options_of(args)
        begun_s = time.monotonic()
        with _until_interrupted() as is_wanted, bars() as show:

            def progress(done: Recorded, seen: int) -> None:
                show.update("messages", seen, args.count, f"{done.segments} segments")

            done = record(args.directory, options, is_wanted, progress, lambda: say("recording"))
        took_s = time.monotonic() - begun_s
        say(
            f"{done.messages:,} messages ({done.bytes:,} bytes) in {done.segments:,} segments, "
            f"{took_s:.1f} s"
        )
    return codes[0] if codes else 0


def options_of(args: argparse.Namespace) -> RecordOptions:
    """Return the options that the arguments say.

    Raises:
        OptionError: one of them has no meaning.
    """
    for name, value in (("seconds", args.seconds), ("count", args.count)):
        if value is not None and value <= 0:
            raise OptionError(f"{name}: expected more than 0, got {value}")
    given = {
        "servers": args.server,
        "user": args.user,
        "password": args.password,
        "token": args.token,
        "credentialsFile": args.credentials_file,
        "tlsCaFile": args.tls_ca_file,
        "tlsCertFile": args.tls_cert_file,
        "tlsKeyFile": args.tls_key_file,
    }
    connect = SinkOptions.parse({name: value for name, value in given.items() if value}).connect
    return RecordOptions(
        connect,
        tuple(args.subject) or (">",),
        roll_age_s=args.roll_age,
        duration_s=args.seconds,
        messages_max=args.count,
    )


class _Wish:
    """Whether the user still wants more; calling it asks."""

    def __init__(self) -> None:
        self._ended = False

    def __call__(self) -> bool:
        return not self._ended

    def end(self, number: int, frame: FrameType | None) -> None:
        """Hear a signal."""
        self._ended = True


@contextmanager
def _until_interrupted() -> Iterator[_Wish]:
    """Yield what says no from the first SIGINT or SIGTERM on, so that nothing received is lost."""
    wish = _Wish()
    before = {number: signal.signal(number, wish.end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
