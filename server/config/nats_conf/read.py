"""Read a nats-server configuration file into the values that the options are made of."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from midge.server.config.layer import Layer
from midge.server.config.nats_conf.errors import ConfError
from midge.server.config.nats_conf.parser import ConfNode, ConfSource, parse_file
from midge.server.config.nats_conf.sections import Result, Section, read_map
from midge.server.config.nats_conf.server_block import SERVER
from midge.server.errors import CombinedConfigError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from midge.server.config.type_check import Path as KeyPath

ERRORS_MAX = 100
"""Most errors of one file that are reported."""


def read_conf_file(
    path: str | PathLike[str], environment: Mapping[str, str] | None = None
) -> Layer:
    """Return the values of the file at `path` with the place of each.

    Variables that the file does not define are looked up in `environment`, by default the
    process's.

    Raises: ConfError, one or several, naming file, line and column.
    """
    file = os.fspath(path)
    source = ConfSource(os.environ if environment is None else environment)
    entries = parse_file(file, source)
    result = Result()
    if not entries:
        result.warnings.append(f"{file}: config has no values or is empty")
    read_map(ConfNode(entries, file, 1, 0), Section(result, result.values, ()), SERVER)
    _check_users_of_accounts(result)
    if result.errors:
        raise _all_of(result.errors, file)

    def where(key: KeyPath) -> str:
        ends = range(len(key), 0, -1)
        return next((result.places[key[:n]] for n in ends if key[:n] in result.places), file)

    return Layer(result.values, where, ConfError, tuple(result.warnings), tuple(result.notes))


def _check_users_of_accounts(result: Result) -> None:
    """Refuse users beside a token, and users of accounts beside the only user, as nats-server does.

    midge's own files may have both.
    """
    authorization = result.values.get("authorization", {})
    beside = ["token"] if authorization.get("users") else []
    if any(account.get("users") for account in result.values.get("accounts", ())):
        beside = ["user", "token"]
    for key, what in (("user", "single user/pass"), ("token", "token")):
        if key in beside and authorization.get(key):
            text = f"Can not have a {what} and a users array"
            result.errors.append(ConfError(text, where=result.places["authorization",]))


def _all_of(errors: list[ConfigError], file: str) -> ConfigError:
    """Return one error for all, or for the first `_ERRORS_MAX`."""
    if len(errors) == 1:
        return errors[0]
    shown = errors[:ERRORS_MAX]
    if len(errors) > ERRORS_MAX:
        shown.append(ConfError(f"{len(errors) - ERRORS_MAX} more errors", where=file))
    return CombinedConfigError(shown)
