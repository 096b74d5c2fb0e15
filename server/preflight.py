"""Try what the settings describe: keys, subjects, certificates and tokens that must be usable.

Types, bounds and contradictions are checked before; here the parts of the server that will use a
setting say whether they can, so that `midge check` and a reload find out before anything changes.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from midge.server.accounts.plan import plan_configured
from midge.server.auth.nkeys import KeyKind, is_public_key
from midge.server.auth.passwords import is_bcrypt
from midge.server.auth.users import compile_rules
from midge.server.broker.server_keys import may_delegate
from midge.server.config import load as config
from midge.server.config.type_check import Problem, format_path
from midge.server.errors import ConfigError
from midge.server.routing.mapping import Mappings
from midge.sublist.subjects import is_valid_subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from os import PathLike

    from midge.server.config import options as tables
    from midge.server.config.load import Loaded
    from midge.server.config.type_check import Path as KeyPath


_CRYPTOGRAPHY = ("cryptography",)

_KEY_PART = r"[^.\[\]]+"
"""A name or an index in the key of a setting, as in `accounts[0].imports[1]`."""


def load(
    file: str | PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Iterable[tuple[tuple[str, ...], str, Any]] = (),
) -> Loaded:
    """Return the options that the given sources add up to, as `config.load` does, and can be used.

    Raises: ConfigError, one or several, each with its key and place.
    """
    return config.load(file, environment, flags, check=find_unusable)


def load_options(file: str | PathLike[str]) -> tables.Options:
    """Return the options that a configuration file gives, to be handed to `midge.Server`.

    A name that ends in `.toml` is read as TOML, every other one as a nats-server configuration.
    Raises: ConfigError, one or several, each with its key and place.
    """
    return load(file).options


def find_unusable(options: tables.Options) -> list[Problem]:
    """List what in `options` cannot be used, with its place."""
    # Entries are tried with their packages, and only good ones can be looked at together.
    return (
        list(missing_packages(options))
        or list(_try_entries(options))
        or list(_try(partial(plan_configured, options), ()))
    )


def missing_packages(options: tables.Options) -> Iterator[Problem]:
    """Yield each part of the server that `options` turn on and that lacks a package."""
    for path, part, modules, extra in _packages_of(options):
        from importlib import util  # noqa: PLC0415 - a plain server needs none

        missing = [name for name in modules if util.find_spec(name) is None]
        if missing:
            from midge.extras import install_command  # noqa: PLC0415 - only for this message

            text = f"{part} {' and '.join(missing)}; {install_command(extra)}"
            yield Problem(path, text)


def require_packages(options: tables.Options) -> tables.Options:
    """Return `options`. Raises: ConfigError if a part that they turn on lacks a package."""
    for problem in missing_packages(options):
        raise ConfigError(problem.text, key=format_path(problem.path))
    return options


def _try_entries(options: tables.Options) -> Iterator[Problem]:
    """Yield what in `options` cannot be used whatever else they say."""
    yield from _try_users(options.authorization, ("authorization",))
    yield from _try_mappings(options.mappings, ())
    for index, account in enumerate(options.accounts):
        path = ("accounts", index)
        if account.nkey and not is_public_key(KeyKind.ACCOUNT, account.nkey):
            yield Problem((*path, "nkey"), "Not a valid public nkey for an account")
        yield from _try_users(account, path)
        yield from _try_mappings(account.mappings, path)
        yield from _try_exchange(account, path)
    # Those of a listener that is off, too, as on nats-server.
    for table, where in (
        (options.tls, "tls"),
        (options.websocket.tls, "websocket.tls"),
        (options.leafnodes.tls, "leafnodes.tls"),
        (options.cluster.tls, "cluster.tls"),
    ):
        if table.enabled:
            yield from _try(partial(_build_context, table, where), ())
    if options.leafnodes.remotes:
        yield from _try_remotes(options)
    if options.jetstream.enabled and not options.jetstream.ignore_nats_streams:
        yield from _try_store(options.jetstream)
    if options.cluster.port:
        yield from _try_cluster(options.cluster)
    operator = options.operator
    if operator.resolver_preload:
        yield from _try_tokens(operator.resolver_preload)
    if operator.jwts or operator.trusted_keys:
        from midge.server.auth.operator import OperatorMode  # noqa: PLC0415 - few have one

        build = partial(OperatorMode, operator, options.system_account)
        yield from _try(build, ("operator",))


def _try_tokens(tokens: Mapping[str, str]) -> Iterator[Problem]:
    """Yield which of the account JWTs that are known from the start are none."""
    from midge.server.auth.claims import BadTokenError, decode_account  # noqa: PLC0415 - few have any

    for name, token in tokens.items():
        try:
            decode_account(token)
        except BadTokenError:
            yield Problem(("operator", "resolver_preload", name), "invalid account JWT")


def _try_store(table: tables.JetStream) -> Iterator[Problem]:
    """Refuse a directory with streams of nats-server, which would be there and never read."""
    from midge.server.jetstream.filesystem import (  # noqa: PLC0415 - for JetStream only
        unread_nats_streams,
    )

    if unread := unread_nats_streams(table):
        yield Problem(("jetstream", "store_dir"), unread)


def _build_context(table: tables.Tls, where: str) -> object:
    """Build the context that `table`, found at `where`, describes. Raises: ConfigError."""
    from midge.server.listeners.tls import build_server_context  # noqa: PLC0415 - few have one

    return build_server_context(table, where)


def _try_cluster(table: tables.Cluster) -> Iterator[Problem]:
    """Yield the faults of the routes and their certificates."""
    from midge.server.peers.dial import parse_route_address  # noqa: PLC0415 - few have any

    for url in table.routes:
        yield from _try(partial(parse_route_address, url), ("cluster", "routes"))
    for name, subjects in (
        ("imports", table.permissions.imports),
        ("exports", table.permissions.exports),
    ):
        for subject in (*subjects.allow, *subjects.deny):
            if not is_valid_subject(subject.encode()):
                text = f'subject "{subject}" is not a valid subject'
                yield Problem(("cluster", "permissions", name), text)


def _try_remotes(options: tables.Options) -> Iterator[Problem]:
    from midge.protocol.credentials import decode_user_seed  # noqa: PLC0415 - as above
    from midge.server.auth.client_tls import (  # noqa: PLC0415 - as above
        build_client_context,
    )
    from midge.server.peers.dial import parse_leaf_address  # noqa: PLC0415 - as above

    """Yield the faults of the servers to connect to."""
    for index, remote in enumerate(options.leafnodes.remotes):
        path = ("leafnodes", "remotes", index)
        for url in remote.urls:
            yield from _try(partial(parse_leaf_address, url), (*path, "urls"))
        for name in ("deny_imports", "deny_exports"):
            for subject in getattr(remote, name):
                if not is_valid_subject(subject.encode()):
                    text = f'subject "{subject}" is not a valid subject'
                    yield Problem((*path, name), text)
        if remote.nkey_seed:
            yield from _try(partial(decode_user_seed, remote.nkey_seed), (*path, "nkey_seed"))
        where = f"leafnodes.remotes[{index}].tls"
        yield from _try(partial(build_client_context, remote.tls, where), ())


def _try(build: Callable[[], object], path: KeyPath) -> Iterator[Problem]:
    """Yield why `build` fails; its own key outweighs `path`."""
    try:
        build()
    except ConfigError as error:
        own: KeyPath = tuple(
            int(part) if part.isdigit() else part for part in re.findall(_KEY_PART, error.key)
        )
        yield Problem(own or path, error.text)
    except ValueError as error:
        yield Problem(path, str(error))


def _try_users(group: tables.Authorization | tables.Account, path: KeyPath) -> Iterator[Problem]:
    yield from _try_permissions(group.default_permissions, (*path, "default_permissions"))
    for index, user in enumerate(group.users):
        here = (*path, "users", index)
        if user.nkey and not is_public_key(KeyKind.USER, user.nkey):
            yield Problem((*here, "nkey"), "Not a valid public nkey for a user")
        yield from _try_permissions(user.permissions, (*here, "permissions"))


def _try_permissions(permissions: tables.Permissions | None, path: KeyPath) -> Iterator[Problem]:
    try:
        compile_rules("", permissions)
    except ConfigError as error:
        yield Problem(path, error.text.removeprefix("."))


def _try_mappings(mappings: tuple[tables.Mapping, ...], path: KeyPath) -> Iterator[Problem]:
    from random import Random  # noqa: PLC0415 - the server imports it later

    for index, mapping in enumerate(mappings):
        # The generator is never asked: nothing is mapped here.
        build = partial(Mappings, (mapping,), Random(0))  # noqa: S311 - no secret is drawn
        yield from _try(build, (*path, "mappings", index))


def _try_exchange(account: tables.Account, path: KeyPath) -> Iterator[Problem]:
    for index, export in enumerate(account.exports):
        kind = "stream" if export.stream else "service"
        subject = export.stream or export.service
        if not is_valid_subject(subject.encode()):
            text = f"expected a subject, got {subject!r}"
            yield Problem((*path, "exports", index, kind), text)
    for index, taken in enumerate(account.imports):
        source = taken.stream or taken.service
        if source is not None and not is_valid_subject(source.subject.encode()):
            text = f"expected a subject, got {source.subject!r}"
            yield Problem((*path, "imports", index), text)


def _packages_of(options: tables.Options) -> Iterator[tuple[KeyPath, str, tuple[str, ...], str]]:
    """Yield the key, the name, the modules and the extra of each part that is turned on."""
    pages = options.monitoring
    if pages.http_port or pages.https_port:
        yield ("monitoring",), "monitoring needs", ("aiohttp", "prometheus_client"), "server"
    remotes = options.leafnodes.remotes
    if options.websocket.port:
        yield ("websocket", "port"), "WebSocket needs", ("websockets",), "server"
    elif any("ws" in url.partition("://")[0] for remote in remotes for url in remote.urls):
        yield ("leafnodes", "remotes"), "WebSocket needs", ("websockets",), "server"
    for name in ("tls", "websocket", "leafnodes", "cluster"):
        table = getattr(options, name)
        if getattr(table, "tls", table).enabled:
            yield (name,), "TLS needs", _CRYPTOGRAPHY, "server"
    if may_delegate(options):
        yield ("authorization",), "signing needs", (*_CRYPTOGRAPHY, "nacl"), "server"
    if options.jetstream.encryption_key:
        yield ("jetstream", "encryption_key"), "encryption needs", _CRYPTOGRAPHY, "server"
    if any(remote.credentials or remote.nkey_seed for remote in remotes):
        yield ("leafnodes", "remotes"), "an nkey needs", _CRYPTOGRAPHY, "server"
    clients, leaves = options.authorization, options.leafnodes.authorization
    accounts = (user for account in options.accounts for user in account.users)
    alone = (clients, leaves, options.websocket.authorization)
    holders: list[object] = [*alone, *clients.users, *leaves.users, *accounts]
    if options.proxies.trusted or any(getattr(one, "nkey", "") for one in holders):
        yield ("authorization", "users"), "an nkey needs", _CRYPTOGRAPHY, "server"
    secrets = (getattr(one, name, "") for one in holders for name in ("password", "token"))
    if any(is_bcrypt(secret) for secret in secrets):
        yield ("authorization",), "a bcrypt hash needs", ("bcrypt",), "server"
    if options.tables:
        yield ("tables",), "tables need", ("pyarrow", "deltalake"), "tables"
