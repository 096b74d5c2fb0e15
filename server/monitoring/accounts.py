"""`/accountz` and `/accstatz`: the accounts and their traffic."""

import base64
from typing import TYPE_CHECKING, Any

from msgspec import json

from midge.server.monitoring import go_format
from midge.server.monitoring.arguments import Arguments, BadArgument
from midge.server.monitoring.routez import links_of
from midge.server.monitoring.subsz import combined_statistics

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker
    from midge.server.config import options
    from midge.server.monitoring.state import State
    from midge.server.routing.account import Account

_RESPONSE_TYPES = {"singleton": "Singleton", "stream": "Streamed", "chunked": "Chunked"}
_NOTHING = {"msgs": 0, "bytes": 0}
_NO_OTHERS = {"gateways": _NOTHING, "routes": _NOTHING, "leafs": _NOTHING}


def accountz(state: "State", arguments: Arguments) -> dict[str, Any]:
    """Return the list of accounts, or the page of one.

    Raises:
        BadArgument: the account does not exist.
    """
    broker = state.broker
    page: dict[str, Any] = {
        "server_id": broker.keys.server_id,
        "now": go_format.timestamp(broker.clock.wall()),
        "system_account": broker.system_account.name,
    }
    name = arguments.text("acc")
    if not name:
        return page | {"accounts": sorted(known_accounts(broker))}
    account = known_accounts(broker).get(name)
    if account is None:
        raise BadArgument(f"Account {name[:64]} does not exist")
    return page | {"account_detail": _detail(state, account)}


def accstatz(state: "State", arguments: Arguments) -> dict[str, Any]:
    """Return the page of each account's traffic; `unused=1` adds those without any.

    Raises:
        BadArgument: `unused` is not a boolean.
    """
    broker = state.broker
    unused = arguments.flag("unused")
    chosen = [account for _, account in sorted(known_accounts(broker).items())]
    return {
        "server_id": broker.keys.server_id,
        "now": go_format.timestamp(broker.clock.wall()),
        "account_statz": [
            account_statistics(state, account) for account in chosen if unused or account.clients
        ],
    }


def known_accounts(broker: "Broker") -> "dict[str, Account]":
    """Return the accounts by name, without those that a reload has removed from the configuration.

    Such an account is kept in memory, because it comes back with its streams.
    """
    plans = broker.admission.links.plans
    return {
        name: account
        for name, account in broker.accounts.items()
        if name in plans or account.clients
    }


def account_statistics(state: "State", account: "Account") -> dict[str, Any]:
    """Return one account's traffic."""
    totals = state.account_totals.totals(state.broker, account.name)
    links = len(links_of(state, account.name))
    return {
        "acc": account.name,
        "name": account.name,
        "conns": len(account.clients),
        "leafnodes": links,
        "total_conns": len(account.clients) + links,
        "num_subscriptions": len(account.sublist),
        "sent": {"msgs": totals.out_messages, "bytes": totals.out_bytes, **_NO_OTHERS},
        "received": {"msgs": totals.in_messages, "bytes": totals.in_bytes, **_NO_OTHERS},
        "slow_consumers": totals.slow_consumers,
        **_quotas(state, account.name),
    }


def _quotas(state: "State", name: str) -> dict[str, Any]:
    """Return the quotas of an account and its users, a field of midge's own; nothing if none."""
    found = {
        user or "*": {
            "messages_per_s": quota.rate.messages_per_s,
            "bytes_per_s": quota.rate.bytes_per_s,
            "holds": quota.holds,
        }
        for user, quota in state.broker.quotas.of_account(name).items()
    }
    return {"quotas": found} if found else {}


def _detail(state: "State", account: "Account") -> dict[str, Any]:
    detail: dict[str, Any] = {
        "account_name": account.name,
        "update_time": go_format.timestamp(state.configured_at),
        "is_system": account is state.broker.system_account,
        "expired": False,
        "complete": True,
        "jetstream_enabled": _has_jetstream(state, account.name),
        "leafnode_connections": len(links_of(state, account.name)),
        "client_connections": len(account.clients),
        "subscriptions": len(account.sublist),
        **_token(state, account.name),
        **_sharing(state, account.name),
        "name_tag": account.name,
        "sublist_stats": combined_statistics([account]),
    }
    if not detail["is_system"]:
        del detail["is_system"]
    return detail


def claims_in(token: str) -> Any:
    """Return the claims of a verified `token`, as they are in it."""
    payload = token.split(".")[1]
    return json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


def _token(state: "State", name: str) -> dict[str, Any]:
    """Return the account's token in operator mode, encoded and decoded."""
    mode = state.broker.admission.authenticator.operator
    token = mode.token_of(name) if mode is not None else ""
    if not token:
        return {}
    claims = claims_in(token)
    return {"issuer_key": claims["iss"], "jwt": token, "decoded_jwt": claims}


def _sharing(state: "State", name: str) -> dict[str, Any]:
    """Return the account's mappings, exports and imports, by its token or the configuration."""
    for table in (*state.broker.options.accounts, *state.broker.admission.token_tables(name)):
        if table.name == name:
            exports = [_export(one) for one in table.exports]
            imports = [_import(one) for one in table.imports]
            facts = {"mappings": _mappings(table), "exports": exports, "imports": imports}
            return {name: fact for name, fact in facts.items() if fact}
    return {}


def _export(table: "options.Export") -> dict[str, Any]:
    shown: dict[str, Any] = {"subject": table.service or table.stream}
    shown["type"] = "service" if table.service else "stream"
    if table.accounts:
        shown["approved_accounts"] = list(table.accounts)
    if table.service:
        shown["response_type"] = _RESPONSE_TYPES[table.response_type]
    return shown


def _import(table: "options.Import") -> dict[str, Any]:
    source = table.service or table.stream
    assert source is not None
    prefix = f"{table.prefix}." if table.prefix else ""
    local = table.to or prefix + source.subject
    return {
        "subject": source.subject,
        "account": source.account,
        **({"to": local} if table.service else {}),
        "local_subject": local,
        "type": "service" if table.service else "stream",
        "invalid": False,
        "share": table.share,
        "tracking": False,
    }


def _mappings(table: "options.Account") -> dict[str, Any]:
    return {
        mapping.source: [
            {"subject": one.destination, "weight": one.weight_percent}
            for one in mapping.destinations
        ]
        for mapping in table.mappings
    }


def _has_jetstream(state: "State", name: str) -> bool:
    """Return whether an account may use JetStream."""
    home = state.jetstream.accounts.get(name) if state.jetstream is not None else None
    return home is not None and home.limits is not None
