"""The commands `midge-server`, and `midge serve`, `check` and `convert`.

`midge-server` behaves as nats-server does, down to the exit code 0 for an unknown flag; the
sub-commands of `midge` print one line and exit with 2 for a wrong argument, with 1 for a failure.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from msgspec import structs

from midge.protocol.errors import MidgeError
from midge.server.errors import ConfigError
from midge.server.process.flags import (
    HELP_TLS,
    USAGE,
    check_tls_flags,
    notes_on,
    parse_flags,
    setting_values,
)
from midge.server.process.go_flags import FlagError
from midge.server.process.names import PROGRAM, version_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from midge.server.config.load import Loaded
    from midge.server.config.options import Options
    from midge.server.process.go_flags import CommandLine
    from midge.server.server import Server
    from midge.server.workers.supervisor import Supervisor

CHECK_USAGE = """\
usage: midge check [FILE] [--changed] [flags of midge serve]

Show the options that would be in effect, as TOML, and where each of them came from: the default,
the file, the environment or a flag. With --changed only those that are not at their default are
shown. FILE is TOML (*.toml) or a nats-server configuration; -c FILE does the same. Passwords and
tokens are not shown.

Exit code 0 when they are in order, 2 for a wrong flag, else 1 with one line for each thing that is
wrong."""

CONVERT_USAGE = """\
usage: midge convert FILE.conf > FILE.toml

Print the settings of a nats-server configuration as TOML, all of its includes and variables
resolved. Only what differs from the defaults is printed; passwords and tokens are, so keep the
result as safe as the file.

Exit code 0, or 1 with one line, FILE:LINE:COLUMN, for each key that midge cannot honour."""


WRONG_ARGUMENT = 2
"""The exit code of a sub-command of `midge` whose arguments have no meaning."""


def midge_server(arguments: Sequence[str]) -> int:
    """Run `midge-server`; return the exit code."""
    try:
        line = parse_flags(arguments)
    except FlagError as error:
        _say(error, sys.stderr)
        _say(USAGE)
        return 0
    try:
        return _act(line)
    except ConfigError as error:
        return _refuse(error)


def serve(arguments: Sequence[str]) -> int:
    """Run `midge serve`: a server with the same flags, but midge's own log formats."""
    try:
        line = parse_flags(arguments)
    except FlagError as error:
        return _wrong(f"{error} (see midge serve -h)", "midge serve")
    try:
        return _act(line, program="midge serve", log_form="")
    except ConfigError as error:
        return _refuse(error, "midge serve")


def check(arguments: Sequence[str]) -> int:
    """Run `midge check`: print the effective options and the origin of each."""
    words = [word for word in arguments if word != "--changed"]
    has_file = bool(words) and not words[0].startswith("-")
    try:
        line = parse_flags(["-c", *words] if has_file else words)
        if _actions(line).get("help"):
            _say(CHECK_USAGE)
            return 0
        if line.words:
            what = f"unexpected '{line.words[0]}'; the file comes before the flags"
            return _wrong(what, "midge check")
        loaded = _load(line)
    except FlagError as error:
        return _wrong(error, "midge check")
    except ConfigError as error:
        return _refuse(error, "midge check")
    for warning in loaded.warnings + loaded.notes + loaded.file_warnings:
        _say(f"# warning: {warning}", sys.stderr)
    from midge.server.config import to_toml as render  # noqa: PLC0415 - no server needs it

    shows_all = len(words) == len(arguments)
    _say(render.effective(loaded.options, loaded.origins, defaults=shows_all).rstrip("\n"))
    return 0


def convert(arguments: Sequence[str]) -> int:
    """Run `midge convert FILE`: print a configuration file's settings as TOML."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        wants_help = arguments[:1] in (["-h"], ["--help"])
        _say(CONVERT_USAGE, sys.stdout if wants_help else sys.stderr)
        return 0 if wants_help else WRONG_ARGUMENT
    from midge.server import preflight  # noqa: PLC0415 - what prints help or a version needs none

    try:
        loaded = preflight.load(_path(arguments[0]))
    except ConfigError as error:
        return _refuse(error, "midge convert")
    from midge.server.config import to_toml as render  # noqa: PLC0415 - as above

    _say(render.TomlWriter().document(loaded.options).rstrip("\n"))
    return 0


def _say(text: object, stream: TextIO | None = None) -> None:
    """Print `text`; a reader that closes the pipe early is not an error."""
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        # The interpreter flushes once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _wrong(text: object, program: str) -> int:
    _say(f"{program}: {text}", sys.stderr)
    return WRONG_ARGUMENT


def _refuse(error: Exception, program: str = PROGRAM) -> int:
    for line in str(error).splitlines():
        _say(f"{program}: {line}", sys.stderr)
    return 1


def _act(line: CommandLine, program: str = PROGRAM, log_form: str = "nats") -> int:
    actions = _actions(line)
    word = line.words[0].lower() if line.words else ""
    if actions.get("help") or word == "help":
        _say(USAGE.replace("midge-server [", f"{program} ["))
    elif actions.get("version") or word == "version":
        _say(version_line())
    elif actions.get("help_tls"):
        _say(HELP_TLS)
    elif word:
        raise ConfigError(f'unrecognized command: "{line.words[0]}"')
    elif actions.get("signal"):
        from midge.server.process.send_signal import send_signal  # noqa: PLC0415 - seldom needed

        send_signal(actions["signal"])
    elif actions.get("check"):
        _check_file(line, actions.get("config", ""), program)
    else:
        return _serve(line, actions.get("config", ""), log_form)
    return 0


def _actions(line: CommandLine) -> dict[str, Any]:
    return {one.flag.target[0]: one.value for one in line.given if len(one.flag.target) == 1}


def _load(line: CommandLine) -> Loaded:
    file = _actions(line).get("config", "")
    check_tls_flags(line.given)
    flags = setting_values(line.given)
    from midge.server import preflight  # noqa: PLC0415 - as in convert

    loaded = preflight.load(_path(file) if file else None, os.environ, flags)
    return structs.replace(loaded, notes=(*loaded.notes, *notes_on(line.given)))


def _path(file: str) -> str:
    """Return `file` without the parts that mean nothing, as errors are to name it."""
    parts = [part for part in file.split("/") if part not in ("", ".")]
    return "/" * file.startswith("/") + "/".join(parts) or "."


def _check_file(line: CommandLine, file: str, program: str) -> None:
    if not file:
        text = "must specify [-c, --config] option to check configuration file syntax"
        raise ConfigError(text)
    loaded = _load(line)
    for warning in loaded.notes:
        _say(f"{program}: {warning}", sys.stderr)
    if loaded.file_warnings:
        raise ConfigError("\n".join(loaded.file_warnings))
    text = f"{program}: configuration file {file} is valid ({loaded.digest})"
    _say(text, sys.stderr)


def _serve(line: CommandLine, file: str, log_form: str) -> int:
    from midge.server.process.daemon import Daemon, run  # noqa: PLC0415 - `-v` and `-t` need none

    # Before anything else, so that its errors come as plain lines.
    first = [_load(line)]

    def load() -> Loaded:
        return first.pop() if first else _load(line)

    def make_daemon() -> Daemon:
        return Daemon(load, _make_server, _make_faster, log_form=log_form, source=file)

    try:
        _import_ahead(first[0].options)
        return run(make_daemon)
    except MidgeError as error:
        raise ConfigError(str(error)) from None


def _import_ahead(options: Options) -> None:
    """Import the modules of the server before `run` turns the garbage collector on.

    It then leaves them out of its collections.

    Raises:
        ConfigError: `workers` is out of range.
    """
    if _is_one_process(options):
        import midge.server.server  # noqa: PLC0415 - `-v` and `-t` need none

        if options.jetstream.enabled:
            import midge.server.jetstream.engine  # noqa: F401, PLC0415 - for servers that use it


def _make_server(options: Options) -> Server | Supervisor:
    """Make the server that `options` ask for. Raises: ConfigError."""
    if not _is_one_process(options):
        from midge.server.workers.supervisor import Supervisor  # noqa: PLC0415 - most have none

        return Supervisor(options)
    from midge.server.server import Server  # noqa: PLC0415 - only a running server needs it all

    return Server(options)


def _make_faster(server: Any, options: Options) -> None:
    """Do what the first client need not wait for, now that `server` is ready."""
    if _is_one_process(options):
        from midge.server.process.tuning import tune  # noqa: PLC0415 - no start waits for it

        tune(server, options)


def _is_one_process(options: Options) -> bool:
    """Return whether one process serves all clients. Raises: ConfigError."""
    if options.server.workers == 1:
        return True
    from midge.server.workers.cpus import worker_count  # noqa: PLC0415 - most have one

    return worker_count(options) == 1
