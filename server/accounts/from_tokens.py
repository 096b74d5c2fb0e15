"""Accounts of operator mode, converted to configured ones, so that both are planned alike.

A private export needs an activation token: a token of the exporter (or one of its signing keys)
about the importer, for the imported subject, not expired and not revoked. Without one the import is
left out; the rest of the account is served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

from msgspec import structs

from midge.server.accounts.plan import plan_accounts
from midge.server.auth.claims import (
    AccountBody,
    AccountLimitsClaim,
    BadTokenError,
    Claims,
    ExportClaim,
    ImportClaim,
    JetStreamLimitsClaim,
    LatencyClaim,
    ScopedKey,
    decode_activation,
)
from midge.server.config.jetstream import AccountJetStream
from midge.server.config.security import (
    Account,
    AccountLimits,
    Export,
    Import,
    ImportSource,
    Mapping,
    MappingDestination,
)
from midge.sublist.subjects import covers, is_valid_subject

if TYPE_CHECKING:
    from midge.server.accounts.links import AccountLinks
    from midge.server.auth.operator import OperatorMode

ACCOUNTS_MAX = 10_000
"""Most accounts that are followed through imports."""

Fetch = Callable[[str], "Claims[AccountBody]"]
"""Returns the verified claims of an account by its key; raises `BadTokenError`."""

Kind = Literal["stream", "service"]


class TokenAccounts:
    """The accounts of one server that tokens describe, by key; `links` has their plans in force."""

    def __init__(self, links: AccountLinks) -> None:
        self.claims: dict[str, Claims[AccountBody]] = {}
        self._links = links

    def include(self, mode: OperatorMode, key: str, now_s: float) -> bool:
        """Make the plan of an account, if it is new or has changed.

        False where its token has expired, or has been taken back.
        """
        try:
            claims = mode.account(key, now_s)
        except BadTokenError:
            return False
        if self.claims.get(key) is not claims:
            self.plan(mode, {*self.claims, key}, now_s)
        return True

    def plan(self, mode: OperatorMode, wanted: set[str], now_s: float) -> None:
        """Read the tokens of the accounts `wanted`, and of the accounts that they import from."""
        self.claims = token_accounts(lambda key: mode.account(key, now_s), wanted)
        plans = plan_accounts(account_tables(self.claims, now_s), is_lenient=True)
        for name, claims in self.claims.items():
            tiers = jetstream_tiers(claims.nats.limits)
            plans[name] = structs.replace(plans[name], jetstream=tiers)
        self._links.apply(plans)


def token_accounts(fetch: Fetch, wanted: Iterable[str]) -> dict[str, Claims[AccountBody]]:
    """Return the claims of the accounts `wanted` and of all that they import from, by key.

    Accounts without a valid token are left out.
    """
    found: dict[str, Claims[AccountBody]] = {}
    pending = list(wanted)
    seen = set(pending)
    while pending and len(found) < ACCOUNTS_MAX:
        key = pending.pop()
        try:
            found[key] = fetch(key)
        except BadTokenError:
            continue
        for each in found[key].nats.imports or ():
            if each.account not in seen:
                seen.add(each.account)
                pending.append(each.account)
    return found


def account_tables(claims: dict[str, Claims[AccountBody]], now_s: float) -> list[Account]:
    """Return the tables of the accounts in `claims`, with the imports allowed at `now_s`."""
    return [_table(account, claims, now_s) for account in claims.values()]


def jetstream_tiers(limits: AccountLimitsClaim) -> dict[str, AccountJetStream]:
    """Return what an account may use of JetStream by tier, as a plan has it.

    Limits for all streams count only without tiers, as in nats-server.
    """
    tiers = limits.tiered_limits or {"": limits}
    if not any(tier.mem_storage or tier.disk_storage for tier in tiers.values()):
        return {}
    return {name: _jetstream(tier) for name, tier in tiers.items()}


def _jetstream(claim: JetStreamLimitsClaim) -> AccountJetStream:
    return AccountJetStream(
        enabled=True,
        max_memory_bytes=claim.mem_storage,
        max_file_bytes=claim.disk_storage,
        max_streams=claim.streams,
        max_consumers=claim.consumer,
        max_ack_pending=claim.max_ack_pending if claim.max_ack_pending > 0 else -1,
        memory_max_stream_bytes=max(claim.mem_max_stream_bytes, 0) or -1,
        file_max_stream_bytes=max(claim.disk_max_stream_bytes, 0) or -1,
        max_bytes_required=claim.max_bytes_required,
    )


def _table(
    account: Claims[AccountBody], known: dict[str, Claims[AccountBody]], now_s: float
) -> Account:
    """Return one account's table, with the imports that are allowed."""
    imports = [
        _import(each) for each in account.nats.imports or () if _may(account, each, known, now_s)
    ]
    exports = [_export(each, known) for each in account.nats.exports or () if _kind(each.type)]
    limits = account.nats.limits
    return Account(
        name=account.sub,
        limits=AccountLimits(
            max_connections=limits.conn,
            max_leafnodes=limits.leaf,
            max_subscriptions=limits.subs,
            max_payload_bytes=limits.payload,
        ),
        exports=tuple(each for each in exports if each is not None),
        imports=tuple(imports),
        mappings=_mappings(account.nats),
    )


def _kind(written: str | int) -> Kind | None:
    """Return whether a claim is about a stream or a service."""
    if written in {"stream", 1}:
        return "stream"
    return "service" if written in {"service", 2} else None


def _export(claim: ExportClaim, known: dict[str, Claims[AccountBody]]) -> Export | None:
    """Return an export's table; the token of a private one is checked with each import."""
    if not is_valid_subject(claim.subject.encode()):
        return None
    is_stream = _kind(claim.type) == "stream"
    responses: dict[str, Literal["singleton", "stream", "chunked"]] = {
        "stream": "stream",
        "chunked": "chunked",
    }
    latency = claim.service_latency
    is_single = claim.response_type.lower() not in responses
    measured = latency is not None and not is_stream and is_single
    return Export(
        stream=claim.subject if is_stream else "",
        service="" if is_stream else claim.subject,
        accounts=tuple(known) if claim.token_req else (),
        response_type=responses.get(claim.response_type.lower(), "singleton"),
        response_threshold_s=max(claim.response_threshold, 0) / 1e9,
        account_token_position=claim.account_token_position,
        latency_subject=latency.results if latency is not None and measured else "",
        latency_sampling_percent=_sampling(latency) if latency is not None else 100,
        allow_trace=claim.allow_trace and not is_stream,
    )


def _sampling(claim: LatencyClaim) -> int:
    """Return how many of a hundred requests are measured; 0 by their headers."""
    return min(max(claim.sampling, 0), 100) if isinstance(claim.sampling, int) else 0


def _import(claim: ImportClaim) -> Import:
    """Return an import's table."""
    source = ImportSource(account=claim.account, subject=claim.subject)
    if _kind(claim.type) == "service":
        # In tokens a service's `subject` is the exporter's, `local_subject` the importer's.
        return Import(service=source, to=claim.local_subject or claim.to, share=claim.share)
    return Import(
        stream=source, to=claim.local_subject, prefix=claim.to, allow_trace=claim.allow_trace
    )


def _may(
    account: Claims[AccountBody],
    claim: ImportClaim,
    known: dict[str, Claims[AccountBody]],
    now_s: float,
) -> bool:
    """Return whether `account` may make the import of `claim`."""
    exporter = known.get(claim.account)
    kind = _kind(claim.type)
    subject = claim.subject.encode()
    if exporter is None or kind is None or not is_valid_subject(subject):
        return False
    for export in exporter.nats.exports or ():
        offered = export.subject.encode()
        if _kind(export.type) != kind or not is_valid_subject(offered):
            continue
        if covers(offered, subject):
            return not export.token_req or _is_activated(account, claim, exporter, export, now_s)
    return False


def _is_activated(
    account: Claims[AccountBody],
    claim: ImportClaim,
    exporter: Claims[AccountBody],
    export: ExportClaim,
    now_s: float,
) -> bool:
    """Return whether the import's activation token is valid."""
    try:
        activation = decode_activation(claim.token)
    except BadTokenError:
        return False
    issuer_account = activation.nats.issuer_account or activation.iss
    granted = activation.nats.subject.encode()
    revoked = max(export.revocations.get(account.sub, -1), export.revocations.get("*", -1))
    return (
        activation.why_not_now(now_s) is None
        and activation.sub == account.sub
        and issuer_account == exporter.sub
        and activation.iss in _signing_keys(exporter)
        and _kind(activation.nats.kind) == _kind(claim.type)
        and is_valid_subject(granted)
        and covers(granted, claim.subject.encode())
        and revoked < activation.iat
    )


def _signing_keys(account: Claims[AccountBody]) -> set[str]:
    """Return the keys that may sign for `account`."""
    keys = account.nats.signing_keys or ()
    return {account.sub, *(key.key if isinstance(key, ScopedKey) else key for key in keys)}


def _mappings(body: AccountBody) -> tuple[Mapping, ...]:
    """Return the mappings' tables."""
    return tuple(
        Mapping(
            source=source,
            destinations=tuple(
                MappingDestination(destination=each.subject, weight_percent=each.weight or 100)
                for each in destinations
                if not each.cluster
            ),
        )
        for source, destinations in (body.mappings or {}).items()
    )
