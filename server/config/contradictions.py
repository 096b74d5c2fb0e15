"""Settings that are each valid but contradict one another.

Types and bounds cannot express these rules. Rules that need files or other modules (certificates,
hooks, import cycles between accounts) are checked where those are used.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import structs

from midge.protocol.nkeys import ACCOUNT_PREFIX, CURVE_PREFIX, is_any_public_nkey, is_public_nkey
from midge.server.config.account_names import GLOBAL_ACCOUNT, SYSTEM_ACCOUNT
from midge.server.config.addresses import advertised_address
from midge.server.config.security import AuthCallout, Tls
from midge.server.config.type_check import Problem
from midge.sublist.subjects import is_valid_subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from midge.server.config.options import (
        Account,
        Authorization,
        LeafRemote,
        LeafRemoteTls,
        Operator,
        Options,
        User,
        WebSocketAuthorization,
    )
    from midge.server.config.type_check import Path

HEADER_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"

UPGRADE_HEADERS = frozenset({"host", "content-length", "connection", "upgrade", "nats-no-masking"})
"""Headers that the response to an upgrade sets itself, or must not have."""

UNUSED_TLS = Tls()
"""The table of a listener without TLS."""

_ACCOUNT_KEY_LENGTH = 56  # of a public account nkey

RESERVED_ACCOUNTS = (GLOBAL_ACCOUNT, SYSTEM_ACCOUNT)
"""Accounts of every server; a file may define `$SYS`, to give it users, but not `$G`."""


def find_contradictions(options: Options) -> Iterator[Problem]:
    """Yield the contradictions in `options`."""
    yield from _check_server(options)
    yield from _check_authorization(options.authorization)
    yield from _check_callout(options)
    yield from _check_all_users(options)
    yield from _check_accounts(options)
    yield from _check_no_auth_user(options)
    yield from _check_operator(options.operator)
    yield from _check_websocket(options)
    yield from _check_leafnodes(options)
    yield from _check_cluster(options)
    yield from _check_domain(options.jetstream.domain)
    yield from _check_tls(options.tls, ("tls",))
    yield from _check_tls(options.websocket.tls, ("websocket", "tls"))
    yield from _check_tls(options.leafnodes.tls, ("leafnodes", "tls"))
    yield from _check_tls(options.cluster.tls, ("cluster", "tls"))
    yield from _check_listeners(options)
    yield from _check_advertised(options)
    yield from _check_proxies(options)
    yield from _check_tables(options)


def _check_server(options: Options) -> Iterator[Problem]:
    limits, shutdown, routing = options.limits, options.shutdown, options.routing
    if any(character.isspace() for character in options.server_name):
        yield Problem(("server_name",), "server name cannot contain spaces")
    if limits.max_payload_bytes > limits.max_pending_bytes:
        text = f"expected at most limits.max_pending_bytes ({limits.max_pending_bytes}), "
        yield Problem(("limits", "max_payload_bytes"), text + f"got {limits.max_payload_bytes}")
    if shutdown.lame_duck_grace_period_s >= shutdown.lame_duck_duration_s:
        text = (
            f"expected less than shutdown.lame_duck_duration_s ({shutdown.lame_duck_duration_s:g})"
        )
        path = ("shutdown", "lame_duck_grace_period_s")
        yield Problem(path, f"{text}, got {shutdown.lame_duck_grace_period_s:g}")
    if routing.cache_sweep_to > routing.cache_max:
        text = f"expected at most routing.cache_max ({routing.cache_max})"
        yield Problem(("routing", "cache_sweep_to"), f"{text}, got {routing.cache_sweep_to}")


def _check_domain(domain: str) -> Iterator[Problem]:
    """Check the name of JetStream's domain, which is a token of its subjects."""
    if not domain:
        return
    from midge.protocol.text import encode  # noqa: PLC0415 - a plain start needs it for nothing

    api = f"$JS.{domain}.API.>"
    text = ""
    if not is_valid_subject(encode(api)):
        text = f'invalid domain name: derived "{api}" is not a valid subject'
    elif any(one in domain for one in ".*>"):
        text = "invalid domain name: may not contain ., * or >"
    if text:
        yield Problem(("jetstream", "domain"), text)


def _check_authorization(authorization: Authorization) -> Iterator[Problem]:
    path = ("authorization",)
    if authorization.token and (authorization.user or authorization.password):
        yield Problem((*path, "token"), "Cannot have a user/pass and token")
    if authorization.users and (authorization.user or authorization.password):
        yield Problem((*path, "user"), "Can not have a single user/pass and a users array")
    if authorization.password and not authorization.user:
        yield Problem((*path, "user"), "expected a user name, since a password is set")


def _check_callout(options: Options) -> Iterator[Problem]:
    """Check the service that decides on clients."""
    table, path = options.authorization.auth_callout, ("authorization", "auth_callout")
    if not table.issuer:
        if table != AuthCallout():
            text = "Authorization callouts require an issuer to be specified"
            yield Problem((*path, "issuer"), text)
        return
    if options.authorization.hook:
        yield Problem(path, "expected either authorization.hook or this, got both")
    if not is_public_nkey(ACCOUNT_PREFIX, table.issuer):
        text = f'Expected callout user to be a valid public account nkey, got "{table.issuer}"'
        yield Problem((*path, "issuer"), text)
    if table.xkey and not is_public_nkey(CURVE_PREFIX, table.xkey):
        text = f'Expected callout xkey to be a valid public xkey, got "{table.xkey}"'
        yield Problem((*path, "xkey"), text)
    if not table.auth_users:
        text = "Authorization callouts require authorized users to be specified"
        yield Problem((*path, "auth_users"), text)
    names = {account.name for account in options.accounts}
    for name in table.allowed_accounts:
        if name not in names:
            text = f'auth_callout allowed account "{name}" not found in configured accounts'
            yield Problem((*path, "allowed_accounts"), text)
    if options.operator.jwts or options.operator.trusted_keys:
        text = "operators do not allow authorization callouts to be configured directly"
        yield Problem(path, text)


def _check_all_users(options: Options) -> Iterator[Problem]:
    """Check each user, and that no name is used twice, whichever account it belongs to."""
    groups: list[tuple[Path, tuple[User, ...]]]
    groups = [(("authorization", "users"), options.authorization.users)]
    groups += [(("accounts", i, "users"), one.users) for i, one in enumerate(options.accounts)]
    seen: set[str] = set()
    for path, users in groups:
        yield from _check_users(users, path)
        for index, user in enumerate(users):
            name = user.user or user.nkey
            if name and name in seen:
                kind = "nkey" if user.nkey else "user"
                yield Problem((*path, index), f'Duplicate {kind} "{name}" detected')
            seen.add(name)


def _check_users(users: tuple[User, ...], path: Path) -> Iterator[Problem]:
    for index, user in enumerate(users):
        here = (*path, index)
        if user.user and user.nkey:
            yield Problem((*here, "nkey"), "expected either user or nkey, got both")
        elif not user.user and not user.nkey:
            yield Problem(here, "User entry requires a user")
        elif user.nkey and user.password:
            yield Problem((*here, "password"), "an nkey user takes no password")


def _check_accounts(options: Options) -> Iterator[Problem]:
    names = Counter(account.name for account in options.accounts)
    known = {*names, *RESERVED_ACCOUNTS}
    for name, times in names.items():
        if times > 1:
            yield Problem(("accounts",), f'Duplicate account "{name}"')
    for index, account in enumerate(options.accounts):
        path = ("accounts", index)
        if account.name == GLOBAL_ACCOUNT:
            yield Problem((*path, "name"), f'"{account.name}" is a Reserved Account')
        elif not account.name or any(character.isspace() for character in account.name):
            yield Problem((*path, "name"), "expected a name without blanks")
        yield from _check_exchange(account, known, path)
    if options.system_account and options.system_account not in known:
        text = "expected the name of an account"
        if not options.operator.jwts and not options.operator.trusted_keys:
            yield Problem(("system_account",), f"{text}, got '{options.system_account}'")


def _check_exchange(account: Account, known: set[str], path: Path) -> Iterator[Problem]:
    for index, export in enumerate(account.exports):
        if bool(export.stream) == bool(export.service):
            yield Problem((*path, "exports", index), "expected either stream or service")
        kind = "stream" if export.stream else "service"
        for name in export.accounts:
            if name not in known:
                text = f'"{name}" account not defined for {kind} export'
                yield Problem((*path, "exports", index, "accounts"), text)
    for index, taken in enumerate(account.imports):
        here = (*path, "imports", index)
        source = taken.stream or taken.service
        if source is None or (taken.stream and taken.service):
            yield Problem(here, "expected either stream or service")
            continue
        kind = "stream" if taken.stream else "service"
        if source.account not in known:
            yield Problem(here, f'"{source.account}" account not defined for {kind} import')
        if taken.prefix and (taken.to or taken.service):
            yield Problem((*here, "prefix"), "only a stream without `to` takes a prefix")


def _check_no_auth_user(options: Options) -> Iterator[Problem]:
    users = _user_names(options)
    tables: list[tuple[Path, Authorization | WebSocketAuthorization]]
    tables = [(("authorization",), options.authorization)]
    tables += [(("websocket", "authorization"), options.websocket.authorization)]
    for path, table in tables:
        name = table.no_auth_user
        if name and name not in users:
            text = f'no_auth_user: "{name}" not present as user or nkey'
            yield Problem((*path, "no_auth_user"), text)


def _check_operator(operator: Operator) -> Iterator[Problem]:
    if operator.default_sentinel and not operator.jwts and not operator.trusted_keys:
        text = "default sentinel requires operators and accounts"
        yield Problem(("operator", "default_sentinel"), text)
    if operator.resolver == "directory" and not operator.resolver_directory:
        text = "dir has no value and needs to point to a directory"
        yield Problem(("operator", "resolver_directory"), text)
    if operator.resolver == "url":
        if not operator.resolver_url.startswith(("http://", "https://")):
            text = f"expected an address of http or https, got {operator.resolver_url!r:.100}"
            yield Problem(("operator", "resolver_url"), text)
        if operator.resolver_preload:
            text = "resolver preloads only available for writeable resolver types MEM/DIR/CACHE_DIR"
            yield Problem(("operator", "resolver_preload"), text)


def _user_names(options: Options) -> set[str]:
    """Return the names and keys of all configured users."""
    groups = (options.authorization.users, *(account.users for account in options.accounts))
    return {user.user or user.nkey for group in groups for user in group}


def _check_websocket(options: Options) -> Iterator[Problem]:
    """Check the settings of the WebSocket listener."""
    table = options.websocket
    own, path = table.authorization, ("websocket", "authorization")
    for name in ("user", "token"):
        if getattr(own, name) and _user_names(options):
            kind = "username" if name == "user" else name
            text = f"websocket authentication {kind} not compatible with presence of users/nkeys"
            yield Problem((*path, name), text)
    if own.password and not own.user:
        yield Problem((*path, "user"), "expected a user name, since a password is set")
    if table.jwt_cookie and not (options.operator.jwts or options.operator.trusted_keys):
        yield Problem(("websocket", "jwt_cookie"), "expected operator mode, which takes user JWTs")
    for origin in table.allowed_origins:
        yield from _check_origin(origin)
    for name, value in table.headers.items():
        yield from _check_header(name, value)


def _check_cluster(options: Options) -> Iterator[Problem]:
    """Check the routes and what they need."""
    table = options.cluster
    if table.routes and not table.port:
        text = "solicited routes require cluster capabilities, e.g. --cluster"
        yield Problem(("cluster", "routes"), text)
    if any(character.isspace() for character in table.name):
        yield Problem(("cluster", "name"), "cluster name cannot contain spaces")
    if table.authorization.password and not table.authorization.user:
        text = "expected a user to go with the password"
        yield Problem(("cluster", "authorization", "user"), text)
    if table.accounts and table.pool_size < 0:
        text = "pool_size cannot be negative if pinned accounts are specified"
        yield Problem(("cluster", "pool_size"), text)
    if len(set(table.accounts)) < len(table.accounts):
        yield Problem(("cluster", "accounts"), "found duplicate account name in the list")


def _check_leafnodes(options: Options) -> Iterator[Problem]:
    """Check the remotes, each and together."""
    names = {*(account.name for account in options.accounts), *RESERVED_ACCOUNTS}
    is_operator = bool(options.operator.jwts or options.operator.trusted_keys)
    yield from _check_leaf_port(options, names)
    seen: set[tuple[tuple[str, ...], str]] = set()
    for index, remote in enumerate(options.leafnodes.remotes):
        path = ("leafnodes", "remotes", index)
        account = remote.account or GLOBAL_ACCOUNT
        yield from _check_remote_tls(remote.tls, (*path, "tls"))
        yield from _check_proxy(remote, (*path, "proxy"))
        if account in {options.system_account or "$SYS", "$SYS"}:
            yield Problem((*path, "account"), "midge does not link the system account")
        elif is_operator and not (len(account) == _ACCOUNT_KEY_LENGTH and account[0] == "A"):
            text = "operator mode requires account nkeys in remotes, of 56 characters"
            yield Problem((*path, "account"), text)
        elif not is_operator and account not in names:
            text = f'cannot find local account "{account}" specified in leafnode remote'
            yield Problem((*path, "account"), text)
        if remote.credentials and remote.nkey_seed:
            text = "Remote leafnode can not have both creds and nkey defined"
            yield Problem((*path, "nkey_seed"), text)
        if (remote.urls, account) in seen:
            urls = ",".join(f'"{url.rpartition("@")[2]}"' for url in remote.urls)
            yield Problem(path, f'duplicate remote urls=[{urls}], account="{account}"')
        seen.add((remote.urls, account))
        if len({url.startswith(("ws://", "wss://")) for url in remote.urls}) > 1:
            urls = " ".join(url.rpartition("@")[2] for url in remote.urls)
            text = "cannot have a mix of websocket and non-websocket urls"
            yield Problem((*path, "urls"), f'remote leaf node configuration {text}: "[{urls}]"')


def _check_proxy(remote: LeafRemote, path: Path) -> Iterator[Problem]:
    """Check the HTTP proxy of a remote, if it has one."""
    proxy = remote.proxy
    if not proxy.url:
        return
    if not re.match(r"https?://[^/]", proxy.url):
        text = "proxy URL scheme must be http or https, and it must specify a host"
        yield Problem((*path, "url"), text)
    if bool(proxy.username) != bool(proxy.password):
        text = "proxy username and password must both be specified or both be empty"
        yield Problem((*path, "username"), text)
    if not remote.tls.required and any(url.startswith("wss://") for url in remote.urls):
        text = "proxy is configured but a remote URL requires TLS and there is no tls block"
        yield Problem((*path, "url"), text)


def _check_leaf_port(options: Options, accounts: set[str]) -> Iterator[Problem]:
    """Check the port for leaf nodes and its users."""
    table, path = options.leafnodes, ("leafnodes", "authorization")
    own = table.authorization
    if own.users and (own.user or own.nkey):
        text = "can not have a single user/pass and a users array"
        yield Problem((*path, "users"), text)
    if own.user and own.nkey:
        yield Problem((*path, "nkey"), "expected either user or nkey, got both")
    for name in (own.account, *(user.account for user in own.users)):
        if name and name not in accounts:
            text = f'cannot find local account "{name}" specified in leafnode authorization'
            yield Problem((*path, "account"), text)
        elif name and name in {options.system_account or "$SYS", "$SYS"}:
            yield Problem((*path, "account"), "midge does not link the system account")
    if table.tls.handshake_first == "auto":
        text = "expected 'on' or 'off' for leaf nodes"
        yield Problem(("leafnodes", "tls", "handshake_first"), text)
    if table.min_version:
        parts = table.min_version.lstrip("v").split(".")
        if not (len(parts) == 3 and all(part.isdecimal() for part in parts)):
            text = "invalid leafnode's minimum version: invalid semver"
            yield Problem(("leafnodes", "min_version"), text)
        elif tuple(int(part) for part in parts) < (2, 8, 0):
            text = "the minimum version should be at least 2.8.0"
            yield Problem(("leafnodes", "min_version"), text)


def _check_origin(origin: str) -> Iterator[Problem]:
    from urllib.parse import urlsplit  # noqa: PLC0415 - few name origins

    try:
        parts = urlsplit(origin)
        is_origin = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        is_origin = False
    if not is_origin:
        text = f"expected http:// or https:// and a host, got {origin!r}"
        yield Problem(("websocket", "allowed_origins"), text)


def _check_header(name: str, value: str) -> Iterator[Problem]:
    """Refuse a malformed header, and one that contradicts the upgrade's own."""
    path = ("websocket", "headers")
    if not re.fullmatch(HEADER_NAME, name) or not value.isprintable():
        yield Problem(path, f"expected a header's name and a value of one line, got {name!r}")
    elif name.lower() in UPGRADE_HEADERS or name.lower().startswith("sec-websocket-"):
        yield Problem(path, f'invalid header "{name}" not allowed')


def _check_tls(tls: Tls, path: Path) -> Iterator[Problem]:
    """Refuse a table without a certificate: the listener would serve plain text."""
    if tls.cert_file and not tls.key_file:
        yield Problem((*path, "key_file"), "missing 'key_file' in TLS configuration")
    elif tls.cert_file and tls.certs:
        text = "cannot combine 'cert_file' option with 'certs' option"
        yield Problem((*path, "certs"), text)
    elif not tls.enabled and structs.replace(tls, allow_non_tls=False) != UNUSED_TLS:
        given = next(
            name
            for name in tls.__struct_fields__
            if getattr(tls, name) != getattr(UNUSED_TLS, name) and name != "allow_non_tls"
        )
        text = f"missing 'cert_file' in TLS configuration, needed by '{given}'"
        yield Problem((*path, "cert_file"), text)


def _check_remote_tls(tls: LeafRemoteTls, path: Path) -> Iterator[Problem]:
    """Refuse half of a client certificate; without one, the remote's is still checked."""
    for name, other in (("cert_file", "key_file"), ("key_file", "cert_file")):
        if getattr(tls, other) and not getattr(tls, name):
            yield Problem((*path, name), f"missing '{name}' in TLS configuration")


def _check_listeners(options: Options) -> Iterator[Problem]:
    websocket, monitoring = options.websocket, options.monitoring
    if websocket.port and not websocket.tls.enabled and not websocket.no_tls:
        yield Problem(("websocket", "no_tls"), "expected websocket.tls, or true to do without")
    if monitoring.https_port and not options.tls.enabled:
        yield Problem(("monitoring", "https_port"), "expected tls to be set, HTTPS needs it")
    if monitoring.http_port and monitoring.https_port:
        yield Problem(("monitoring", "https_port"), "cannot have both http_port and https_port")


def _check_advertised(options: Options) -> Iterator[Problem]:
    """Check the addresses that the server advertises, because every INFO needs them."""
    for table, name in (
        ("listen", "client_advertise"),
        ("websocket", "advertise"),
        ("leafnodes", "advertise"),
        ("cluster", "advertise"),
    ):
        text = getattr(getattr(options, table), name)
        try:
            advertised_address(text, "", 0)
        except ValueError as error:
            yield Problem((table, name), f"{error}, got {text!r:.100}")


def _check_proxies(options: Options) -> Iterator[Problem]:
    """Check keys and addresses of proxies, with which connections are compared."""
    from ipaddress import ip_network  # noqa: PLC0415 - most servers have none

    for index, key in enumerate(options.proxies.trusted):
        if not is_any_public_nkey(key):
            yield Problem(("proxies", "trusted", index), f'invalid proxy key "{key}"')

    for index, text in enumerate(options.proxies.addresses):
        try:
            ip_network(text, strict=False)
        except ValueError:
            expected = f"expected an address or a network such as 10.0.0.0/8, got {text!r:.100}"
            yield Problem(("proxies", "addresses", index), expected)


def _check_tables(options: Options) -> Iterator[Problem]:
    """Check that each table is the only one of its name and place, and can have its columns."""
    if options.tables and not options.jetstream.enabled:
        yield Problem(("tables",), "tables need JetStream")
    names: set[str] = set()
    urls: set[str] = set()
    accounts = {account.name for account in options.accounts} | {"", *RESERVED_ACCOUNTS}
    is_by_token = bool(options.operator.jwts or options.operator.trusted_keys)
    for index, table in enumerate(options.tables):
        path = ("tables", index)
        if table.name in names:
            yield Problem((*path, "name"), f'Duplicate table "{table.name}"')
        if table.url.rstrip("/") in urls:
            yield Problem((*path, "url"), f'another table is at "{table.url}" too')
        names.add(table.name)
        urls.add(table.url.rstrip("/"))
        if not is_by_token and table.account not in accounts:
            yield Problem((*path, "account"), f'account "{table.account}" is not configured')
        for name in table.partition_by:
            kind = table.columns.get(name, "")
            if kind != "date" and not kind.startswith("token("):
                text = f"{name}: expected a column of the kind date or token(N)"
                yield Problem((*path, "partition_by"), text)
