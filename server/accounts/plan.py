"""Accounts as configured: check how they share subjects, and plan the server's links.

An import is valid only when the other account exports the subjects it covers, publicly or to this
account, and with the same kind; no chain of imports may form a cycle, or be longer than
`CHAIN_MAX`. Every fault is an error, none a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct, structs

from midge.server.accounts.latency import LatencyRule
from midge.server.config.account_names import GLOBAL_ACCOUNT, SYSTEM_ACCOUNT
from midge.server.config.jetstream import AccountJetStream
from midge.server.errors import ConfigError
from midge.server.routing.mapping import Mappings
from midge.sublist.subjects import covers, is_valid_publish_subject, is_valid_subject, overlaps

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

    from midge.server.config import options
    from midge.sublist.transform import Transform

CHAIN_MAX = 16
"""Most accounts that one message may pass through by imports."""

RESPONSE_THRESHOLD_S = 120.0
"""Time limit for a response when the export does not set one."""

_JETSTREAM_API = "$JS.API.>"

ResponseType = Literal["singleton", "stream", "chunked"]


class ImportPlan(Struct, frozen=True, kw_only=True):
    """One import, checked: messages that match `source` in one account appear in another.

    For a stream, the source is the exporter and the target is the importer; for a service, requests
    go the other way. `transform` turns a subject of the source into one of the target.
    """

    source_account: str
    target_account: str
    source: bytes
    """Pattern in the source account."""
    target: bytes
    """Pattern in the target account that holds every subject `transform` may give."""
    transform: Transform
    allows_trace: bool = False
    """Whether the trace of a message goes on in the target account."""


class StreamImport(ImportPlan, frozen=True, kw_only=True):
    """Messages of the exporter that the importer sees."""


class ServiceImport(ImportPlan, frozen=True, kw_only=True):
    """Requests of the importer that the exporter answers."""

    response_type: ResponseType
    response_threshold_s: float
    shares_client: bool
    """Whether requests carry a description of the requesting connection."""
    latency: LatencyRule | None = None
    """Where the latencies of requests go; None if they are not measured."""


class AccountPlan(Struct, frozen=True, kw_only=True):
    """The target state of one account."""

    name: str
    max_connections: int = -1
    max_subscriptions: int = -1
    max_payload_bytes: int = -1
    max_leafnodes: int = -1
    messages_per_s: int = 0
    bytes_per_s: int = 0
    mappings: tuple[options.Mapping, ...] = ()
    stream_imports: tuple[StreamImport, ...] = ()
    service_imports: tuple[ServiceImport, ...] = ()
    is_system: bool = False
    jetstream: dict[str, AccountJetStream] = {}
    """The account's limits on JetStream, by tier (one without a name is for all streams); empty
    where it may not use JetStream."""


def plan_accounts(
    accounts: Sequence[options.Account],
    *,
    mappings: tuple[options.Mapping, ...] = (),
    system_account: str = "",
    cluster: str = "",
    is_lenient: bool = False,
) -> dict[str, AccountPlan]:
    """Check `accounts` and return their plans by name, the global and the system account included.

    `mappings` belong to the global account, and `cluster` is this server's. With `is_lenient`,
    for accounts with different owners, invalid entries are left out, so that one owner's mistake
    affects no other account.

    Raises:
        ConfigError: a name, an export or an import is invalid; names the account and the entry.
    """
    tables = _by_name(accounts)
    system = system_account or SYSTEM_ACCOUNT
    if system_account and system_account not in tables:
        raise ConfigError(f"{system_account!r} is no configured account", key="system_account")
    if not is_lenient:
        for index, account in enumerate(accounts):
            _check_exports(account, f"accounts[{index}]")
    # As on nats-server: it is for the accounts that enable it once there are others.
    for_all = {"": AccountJetStream(enabled=True)}
    global_mappings = _checked_mappings("mappings", mappings)
    plans = {
        GLOBAL_ACCOUNT: AccountPlan(
            name=GLOBAL_ACCOUNT,
            mappings=global_mappings,
            jetstream=for_all if tables.keys() <= {system} else {},
        ),
        system: AccountPlan(name=system, is_system=True),
    }
    for index, account in enumerate(accounts):
        where = f"accounts[{index}]"
        is_system = account.name == system
        plan = _plan(account, where, tables, is_system=is_system, is_lenient=is_lenient)
        plans[account.name] = plan
    plans = {
        name: structs.replace(plan, mappings=_of_cluster(plan.mappings, cluster))
        for name, plan in plans.items()
    }
    excess = _excess_imports(plans.values())
    if not excess:
        return plans
    if not is_lenient:
        raise _excess_error(excess[0], accounts)
    return {name: _without(plan, excess) for name, plan in plans.items()}


def _by_name(accounts: Sequence[options.Account]) -> dict[str, options.Account]:
    """Index `accounts`; refuse reserved and repeated names, and names with control characters."""
    tables: dict[str, options.Account] = {}
    for account in accounts:
        name = account.name
        if name == GLOBAL_ACCOUNT:
            raise ConfigError(f"{name!r} is reserved", key="accounts")
        if not name or any(
            character.isspace() or not character.isprintable() for character in name
        ):
            raise ConfigError(f"expected a name without blanks, got {name!r}", key="accounts")
        if name in tables:
            raise ConfigError(f"duplicate account {name!r}", key="accounts")
        tables[name] = account
    return tables


def plan_configured(configured: options.Options) -> dict[str, AccountPlan]:
    """Return the plans of the configured accounts; those of tokens are added later.

    Raises:
        ConfigError: see `plan_accounts`.
    """
    by_tokens = configured.operator.jwts or configured.operator.trusted_keys
    plans = plan_accounts(
        configured.accounts,
        mappings=configured.mappings,
        system_account="" if by_tokens else configured.system_account,
        cluster=configured.cluster.name,
    )
    return with_api_of_cluster(plans) if asks_cluster(configured) else plans


def asks_cluster(configured: options.Options) -> bool:
    """Return whether requests to JetStream are answered by other servers of the cluster only."""
    return bool(configured.cluster.port) and not configured.jetstream.enabled


def with_api_of_cluster(plans: dict[str, AccountPlan]) -> dict[str, AccountPlan]:
    """Add an import of the JetStream API to every account; other servers export it in `$SYS`.

    nats-server has the same import built in. The servers read the requester's account from the
    header ``Nats-Request-Info``.
    """
    system = next(name for name, plan in plans.items() if plan.is_system)
    return {
        name: plan
        if plan.is_system
        else structs.replace(
            plan, service_imports=(*plan.service_imports, _import_of_api(name, system))
        )
        for name, plan in plans.items()
    }


def _import_of_api(account: str, system: str) -> ServiceImport:
    transform = _inverted(_JETSTREAM_API, _JETSTREAM_API)
    return ServiceImport(
        source_account=account,
        target_account=system,
        source=transform.source,
        target=_JETSTREAM_API.encode(),
        transform=transform,
        response_type="singleton",
        response_threshold_s=RESPONSE_THRESHOLD_S,
        shares_client=True,
    )


def _check_exports(account: options.Account, path: str) -> None:
    """Refuse invalid exports."""
    for i, export in enumerate(account.exports):
        where = f"{path}.exports[{i}]"
        if bool(export.stream) == bool(export.service):
            raise ConfigError("expected either a stream or a service", key=where)
        subject = (export.stream or export.service).encode()
        if not is_valid_subject(subject):
            raise ConfigError(f"expected a subject, got {subject.decode()!r}", key=where)
        position = export.account_token_position
        tokens = subject.split(b".")
        if position and (position > len(tokens) or tokens[position - 1] != b"*"):
            raise ConfigError(f"token {position} of {subject.decode()!r} is no '*'", key=where)
        if export.stream and export.allow_trace:
            raise ConfigError("the import of a stream allows traces, not its export", key=where)
        if export.latency_subject:
            _check_latency(export, subject.decode(), where)


def _check_latency(export: options.Export, name: str, where: str) -> None:
    """Refuse a latency that cannot be measured, or that goes nowhere."""
    what = f'Error adding service latency sampling for "{name}" on subject'
    text = f'{what} "{export.latency_subject}"'
    if export.response_type != "singleton":
        raise ConfigError(f"{text}: bad service response type", key=where)
    if not is_valid_publish_subject(export.latency_subject.encode()):
        raise ConfigError(f"{text}: invalid publish subject", key=where)


def _plan(
    account: options.Account,
    path: str,
    tables: dict[str, options.Account],
    *,
    is_system: bool,
    is_lenient: bool,
) -> AccountPlan:
    """Check what `account` imports and return its plan."""
    streams: list[StreamImport] = []
    services: dict[tuple[bytes, str], ServiceImport] = {}
    for i, table in enumerate(account.imports):
        try:
            planned = _plan_import(account, table, tables)
            if isinstance(planned, StreamImport):
                streams.append(planned)
                continue
            key = planned.source, planned.target_account
            if key in services:
                # The same account would answer a request twice.
                raise ValueError(f"duplicate service import {planned.source.decode()!r}")
            services[key] = planned
        except ValueError as error:
            if not is_lenient:
                raise ConfigError(str(error), key=f"{path}.imports[{i}]") from error
    mappings = account.mappings
    try:
        _checked_mappings(f"{path}.mappings", mappings)
    except ConfigError:
        if not is_lenient:
            raise
        mappings = ()
    return AccountPlan(
        name=account.name,
        max_connections=account.limits.max_connections,
        max_leafnodes=account.limits.max_leafnodes,
        max_subscriptions=account.limits.max_subscriptions,
        max_payload_bytes=account.limits.max_payload_bytes,
        messages_per_s=account.limits.messages_per_s,
        bytes_per_s=account.limits.bytes_per_s,
        mappings=mappings,
        stream_imports=tuple(streams),
        service_imports=tuple(services.values()),
        is_system=is_system,
        jetstream={"": account.jetstream} if account.jetstream.enabled else {},
    )


def _plan_import(
    account: options.Account, table: options.Import, tables: dict[str, options.Account]
) -> StreamImport | ServiceImport:
    """Check one import; raises ValueError."""
    if table.stream is not None and table.service is None:
        return _plan_stream(account, table, table.stream, tables)
    if table.service is not None and table.stream is None:
        return _plan_service(account, table, table.service, tables)
    raise ValueError("expected either a stream or a service")


def _plan_stream(
    account: options.Account,
    table: options.Import,
    source: options.ImportSource,
    tables: dict[str, options.Account],
) -> StreamImport:
    """Check the import of a stream; raises ValueError."""
    if table.prefix and table.to:
        raise ValueError("expected either a prefix or a local subject, got both")
    _find_export(account, source, "stream", tables)
    local = table.to or source.subject
    if table.prefix:
        prefix = table.prefix.removesuffix(".")
        if not is_valid_subject(f"{prefix}.x".encode()) or "*" in prefix.split("."):
            raise ValueError(f"expected a prefix without wildcards, got {table.prefix!r}")
        local = f"{prefix}.{source.subject}"
    transform = _reversible(source.subject, _numbered(local))
    return StreamImport(
        source_account=source.account,
        target_account=account.name,
        source=source.subject.encode(),
        target=_pattern_of(transform),
        transform=transform,
        allows_trace=table.allow_trace,
    )


def _plan_service(
    account: options.Account,
    table: options.Import,
    source: options.ImportSource,
    tables: dict[str, options.Account],
) -> ServiceImport:
    """Check the import of a service; raises ValueError."""
    if table.prefix:
        raise ValueError("a service takes no prefix")
    if table.allow_trace:
        raise ValueError("the export of a service allows traces, not its import")
    export = _find_export(account, source, "service", tables)
    local = table.to or source.subject
    # A local subject may name the wildcards of the service, in any order.
    transform = _inverted(source.subject, local)
    return ServiceImport(
        source_account=account.name,
        target_account=source.account,
        source=transform.source,
        target=source.subject.encode(),
        transform=transform,
        response_type=export.response_type,
        response_threshold_s=export.response_threshold_s or RESPONSE_THRESHOLD_S,
        shares_client=table.share,
        allows_trace=export.allow_trace,
        latency=(
            LatencyRule(export.latency_subject.encode(), export.latency_sampling_percent)
            if export.latency_subject
            else None
        ),
    )


def _find_export(
    account: options.Account,
    source: options.ImportSource,
    kind: Literal["stream", "service"],
    tables: dict[str, options.Account],
) -> options.Export:
    """Return the export that lets `account` import `source`; raises ValueError."""
    exporter = tables.get(source.account)
    if exporter is None:
        raise ValueError(f"{source.account!r} is no configured account")
    subject = source.subject.encode()
    if not is_valid_subject(subject):
        raise ValueError(f"expected a subject, got {source.subject!r}")
    for export in _deciding_exports(exporter, kind, subject):
        if _is_for(export, account.name, subject):
            return export
    raise ValueError(f"{source.account!r} exports no {kind} {source.subject!r} to {account.name!r}")


def _deciding_exports(
    exporter: options.Account, kind: Literal["stream", "service"], subject: bytes
) -> list[options.Export]:
    """List the exports that decide which accounts may import `subject`.

    Exports of exactly that subject outweigh wider ones, and a subject that is exported to some
    accounts stays limited to them even if a public export also covers it.
    """
    offers = [(getattr(export, kind).encode(), export) for export in exporter.exports]
    private = {offered for offered, export in offers if export.accounts}
    offers = [each for each in offers if each[1].accounts or each[0] not in private]
    exact = [export for offered, export in offers if offered == subject]
    return exact or [export for offered, export in offers if offered and covers(offered, subject)]


def _is_for(export: options.Export, importer: str, subject: bytes) -> bool:
    """Return whether `importer` may use `export` by `subject`."""
    if export.accounts and importer not in export.accounts:
        return False
    position = export.account_token_position
    tokens = subject.split(b".")
    return not position or (
        0 < position <= len(tokens) and tokens[position - 1] == importer.encode()
    )


def _numbered(subject: str) -> str:
    """Convert ``a.*.*`` to ``a.$1.$2``, a destination."""
    tokens = subject.split(".")
    count = 0
    for i, token in enumerate(tokens):
        if token == "*":
            count += 1
            tokens[i] = f"${count}"
    return ".".join(tokens)


def _pattern_of(transform: Transform) -> bytes:
    """Return the pattern of the subjects that a reversible `transform` returns."""
    tokens = transform.destination.split(b".")
    return b".".join(b"*" if _is_placeholder(token) else token for token in tokens)


def _is_placeholder(token: bytes) -> bool:
    """Return whether a token of a reversible destination represents a wildcard."""
    return token.startswith(b"{{") or (token.startswith(b"$") and token[1:].isdigit())


def _reversible(source: str, destination: str) -> Transform:
    """Compile a transform that uses each wildcard once; raises ValueError."""
    from midge.sublist.transform import Transform  # noqa: PLC0415 - most accounts import nothing

    return Transform(source, destination, _unused_random(), is_reversible=True)


def _unused_random() -> Random:
    """Return a generator to compile with, from which nothing is drawn."""
    from random import Random  # noqa: PLC0415 - as above

    return Random(0)  # noqa: S311 - see above


def _inverted(service: str, local: str) -> Transform:
    """Return the transform from the local subject of a service to the exporter's subject."""
    if "*" in local.split("."):
        return _reversible(local, _numbered(service))
    return inverse_of(_reversible(service, local))


def inverse_of(transform: Transform) -> Transform:
    """Return what turns the subjects that the reversible `transform` returns back."""
    destination = transform.destination.decode()
    order = [
        _wildcard_number(token)
        for token in destination.split(".")
        if _is_placeholder(token.encode())
    ]
    tokens = transform.source.decode().split(".")
    count = 0
    for i, token in enumerate(tokens):
        if token == "*":
            count += 1
            tokens[i] = f"${order.index(count) + 1}"
    return _reversible(_pattern_of(transform).decode(), ".".join(tokens))


def _wildcard_number(token: str) -> int:
    """Return the n of ``$n`` or ``{{wildcard(n)}}``."""
    return int("".join(character for character in token if character.isdigit()))


def _of_cluster(mappings: tuple[options.Mapping, ...], cluster: str) -> tuple[options.Mapping, ...]:
    """Return `mappings` with the destinations that hold in `cluster`, or else everywhere."""
    found = []
    for mapping in mappings:
        here = tuple(one for one in mapping.destinations if one.cluster == cluster)
        everywhere = tuple(one for one in mapping.destinations if not one.cluster)
        if here or everywhere or not mapping.destinations:
            found.append(structs.replace(mapping, destinations=here or everywhere))
    return tuple(found)


def _checked_mappings(
    where: str, mappings: tuple[options.Mapping, ...]
) -> tuple[options.Mapping, ...]:
    """Return `mappings`; refuse those that do not compile."""
    try:
        Mappings(mappings, _unused_random())
    except ValueError as error:
        raise ConfigError(str(error), key=where) from error
    return mappings


def _without(plan: AccountPlan, excess: list[ImportPlan]) -> AccountPlan:
    """Return `plan` without the imports in `excess`."""
    left_out = set(excess)
    return structs.replace(
        plan,
        stream_imports=tuple(each for each in plan.stream_imports if each not in left_out),
        service_imports=tuple(each for each in plan.service_imports if each not in left_out),
    )


def _excess_error(plan: ImportPlan, accounts: Sequence[options.Account]) -> ConfigError:
    """Return the error text for an import in a cycle or in too long a chain."""
    importer, exporter, taken = plan.target_account, plan.source_account, plan.source.decode()
    if isinstance(plan, ServiceImport):
        importer, exporter, taken = exporter, importer, plan.target.decode()
    account = next(i for i, each in enumerate(accounts) if each.name == importer)
    sources = [each.stream or each.service for each in accounts[account].imports]
    index = next(
        i
        for i, source in enumerate(sources)
        if source is not None and (source.account, source.subject) == (exporter, taken)
    )
    return ConfigError(
        f"{taken!r} of {exporter!r} is in or behind a cycle of imports, or in a chain of more than "
        f"{CHAIN_MAX}",
        key=f"accounts[{account}].imports[{index}]",
    )


def _excess_imports(plans: Iterable[AccountPlan]) -> list[ImportPlan]:
    """List the imports in a cycle or in too long a chain."""
    plans = list(plans)
    found: list[ImportPlan] = []
    for kind in ("stream_imports", "service_imports"):
        imports: list[ImportPlan] = [each for plan in plans for each in getattr(plan, kind)]
        leaving: dict[str, list[int]] = {}
        for i, one in enumerate(imports):
            leaving.setdefault(one.source_account, []).append(i)
        following = [
            [
                j
                for j in leaving.get(one.target_account, ())
                if overlaps(one.target, imports[j].source)
            ]
            for one in imports
        ]
        found += [imports[i] for i in _out_of_reach(following)]
    return found


def _out_of_reach(following: list[list[int]]) -> list[int]:
    """List the nodes of a graph that are in or behind a cycle, or more than `CHAIN_MAX` deep.

    Removes the nodes without incoming edges, layer by layer, in time linear in the edges.
    """
    leading_to = [0] * len(following)
    for after in following:
        for j in after:
            leading_to[j] += 1
    layer = [i for i, count in enumerate(leading_to) if count == 0]
    remaining = set(range(len(following)))
    for _ in range(CHAIN_MAX):
        remaining.difference_update(layer)
        next_layer = []
        for i in layer:
            for j in following[i]:
                leading_to[j] -= 1
                if leading_to[j] == 0:
                    next_layer.append(j)
        layer = next_layer
    return sorted(remaining)
