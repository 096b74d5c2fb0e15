"""Shared parts of the client's commands: arguments, connection, one-line errors, exit codes."""

import argparse
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from midge.client.client import NatsClient
from midge.client.commands import output
from midge.client.commands.connect_arguments import add_connect_arguments, connect_options
from midge.client.commands.quantities import timeout_ns
from midge.client.errors import ClientError, OptionError, ServerError
from midge.client.jetstream import JetStreamApi, is_no_responders, json_object
from midge.protocol.client_side import publish_frame
from midge.protocol.errors import MidgeError

_DEFAULT_TIMEOUT = "5s"
_QUIET_S = 0.5


class Session(NamedTuple):
    """A connection and the words of the command."""

    client: NatsClient
    jetstream: JetStreamApi
    args: argparse.Namespace

    def call(self, operation: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer of JetStream's API; see `JetStream.call`."""
        return self.jetstream.call(operation, body)

    def patience_s(self, default_s: float) -> float:
        """Return how long to wait for something other than an answer: a given `--timeout`."""
        return self.args.patience / 1e9 if self.args.patience else default_s

    def require_count(self, seen: int, patience_s: float) -> None:
        """Raise if `--count` asked for more than came before the time was over.

        Raises:
            ServerError: it did.
        """
        if self.args.count:
            raise ServerError(
                f"{seen} of {self.args.count} came, and no other within {patience_s:g} s"
            )

    def make_bucket(self, what: str, config: dict[str, Any]) -> None:
        """Make the stream of a bucket; print whether it was there, equal, before.

        JetStream answers alike in both cases.
        """
        try:
            self.call(f"STREAM.INFO.{config['name']}")
            done = "is there already, with these settings"
        except ClientError:
            done = "is made"
        info = self.call(f"STREAM.CREATE.{config['name']}", config)
        if self.args.json:
            output.print_json({"config": info["config"], "state": info["state"]})
        else:
            output.write(f"{what} {done}")

    def pages(self, operation: str, key: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the items under `key` of a list of JetStream's API, page after page."""
        offset, total = 0, 1
        while offset < total:
            page = self.call(operation, {**body, "offset": offset} if offset else body)
            found = page.get(key) or []
            yield from found
            total = page.get("total", 0)
            offset += len(found)
            if not found:
                return

    def gather(self, subject: str, most: int = 0) -> list[dict[str, Any]]:
        """Return the answers to a request as JSON objects: `most` of them, or all there are.

        All are there when none has come for half a second behind the first. The list is
        empty if no server answers.

        Raises:
            ServerError: the connection broke, or an answer is not a JSON object.
        """
        client, inbox = self.client, self.client.new_inbox()
        client.send(publish_frame(subject.encode(), inbox, b"", b""))
        deadline = time.monotonic() + self.args.timeout / 1e9
        found: list[dict[str, Any]] = []
        while (left_s := deadline - time.monotonic()) > 0:
            received = client.receive(min(left_s, _QUIET_S) if found else left_s)
            answers = [message for message in received if message.subject == inbox]
            if any(is_no_responders(message) for message in answers):
                break
            found += [json_object(message.payload, subject) for message in answers]
            if (found and not answers) or (most and len(found) >= most):
                break
        return found

    def show(self, fields: dict[str, Any], text: str) -> None:
        """Print a result: the fields as JSON, or `text` with the fields filled in."""
        if self.args.json:
            output.print_json(fields)
        else:
            output.write(text.format(**fields))


class Verb(NamedTuple):
    """One sub-command: its declaration and its function."""

    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], object]
    run: Callable[[Session], int | None]
    awaits: str = ""
    """What a command without an end waits for; a given `--timeout` ends it."""


def add_verbs(parser: argparse.ArgumentParser, verbs: Mapping[str, Verb]) -> None:
    """Declare sub-commands, each with its own arguments and the connection's."""
    kinds = parser.add_subparsers(dest="verb", required=True, metavar="|".join(verbs))
    for name, verb in verbs.items():
        add_verb(kinds.add_parser(name, help=verb.summary, description=verb.summary), verb)


def add_verb(parser: argparse.ArgumentParser, verb: Verb) -> None:
    """Declare the arguments of one command."""
    verb.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_connect_arguments(parser)
    default = "never ends" if verb.awaits else f"$NATS_TIMEOUT or {_DEFAULT_TIMEOUT}"
    parser.add_argument(
        "--timeout",
        type=timeout_ns,
        action=_Timeout,
        default=os.environ.get("NATS_TIMEOUT", "") or _DEFAULT_TIMEOUT,
        metavar="DURATION",
        help=f"how long to wait for {verb.awaits or 'an answer'}, such as 5 or 500ms "
        f"(default: {default})",
    )
    parser.add_argument(
        "--domain", default="", metavar="NAME", help="JetStream's domain (default: the context's)"
    )
    parser.set_defaults(act=verb.run, program=parser.prog, patience=0)


class _Timeout(argparse.Action):
    """Notes a given `--timeout` in `patience`, too, which no variable sets."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        value: Any,
        _flag: str | None = None,
    ) -> None:
        namespace.timeout = namespace.patience = value


def run(args: argparse.Namespace) -> int:
    """Connect and run the command; print an error as one line; return the exit code."""
    try:
        options = connect_options(args)
        timeout_s = max(args.timeout / 1e9, 0.001)
        options = dataclasses.replace(
            options,
            request_timeout_s=timeout_s,
            connect_timeout_s=timeout_s,
            domain=args.domain or options.domain,
            name="midge",
        )
        with NatsClient(options) as client:
            session = Session(client, JetStreamApi(client, options.domain), args)
            return args.act(session) or 0
    except MidgeError as error:
        return output.refuse(args.program, error, as_json=args.json)


def no_arguments(_parser: argparse.ArgumentParser) -> None:
    """Declare no arguments beyond the ones that every verb has."""


def confirm(args: argparse.Namespace, what: str) -> None:
    """Ask for confirmation on the terminal before `what` is done, unless `--yes` was given.

    Raises:
        OptionError: standard input is not a terminal.
        ClientError: the answer is no.
    """
    if args.yes:
        return
    if not sys.stdin.isatty():
        raise OptionError(f"this would {what}; say --yes to do so without being asked")
    sys.stderr.write(f"This will {what}. Go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ClientError(f"did not {what}")


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Declare `--yes`."""
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
