"""`/connz`: the open connections, and the last closed ones."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeGuard

from msgspec import Struct, structs

from midge.server.clients.client_info import CLIENT_TYPES, issuer_key_of, user_of
from midge.server.clients.closed_clients import (
    SUBSCRIPTIONS_KEPT,
    ConnectionRecord,
    is_tls_first,
    stalls_of,
)
from midge.server.clients.connection import Connection
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.monitoring import go_format
from midge.server.monitoring.arguments import Arguments, BadArgument
from midge.server.monitoring.long_lists import (
    DETAIL_STEPS,
    SizeBudget,
    StepBudget,
    first_in_order,
    subscription_detail,
)
from midge.server.monitoring.routez import links_of
from midge.sublist import subjects

if TYPE_CHECKING:
    from midge.server.monitoring.state import State

Client = Connection | ConnectionRecord
SortKey = Callable[[Client], Any]

_ENTRY_STEPS = 16  # steps per entry
_BATCH = 1024  # subscriptions examined at a time

_STATES = {
    "": (True, False),
    "open": (True, False),
    "closed": (False, True),
    "any": (True, True),
    "all": (True, True),
}


def _is_closed(client: Client) -> TypeGuard[ConnectionRecord]:
    return isinstance(client, ConnectionRecord) and client.stopped_at > 0.0


def _stopped_at(client: Client) -> float:
    return client.stopped_at if isinstance(client, ConnectionRecord) else 0.0


def _round_trip(client: Client) -> float:
    if isinstance(client, ConnectionRecord):
        return client.round_trip_s or 0.0
    return client.channel.keepalive.round_trip_s or 0.0


def _pending(client: Client) -> int:
    if isinstance(client, ConnectionRecord):
        return client.pending_bytes
    return client.outbound.pending_bytes()


def _uptime(client: Client, now: float) -> float:
    return (client.stopped_at if _is_closed(client) else now) - client.started_at


_SORT_KEYS: dict[str, SortKey] = {
    "cid": lambda client: client.cid,
    "start": lambda client: client.started_at,
    "subs": lambda client: -_subscription_count(client),
    "pending": lambda client: -_pending(client),
    "msgs_to": lambda client: -client.out_messages,
    "msgs_from": lambda client: -client.in_messages,
    "bytes_to": lambda client: -client.out_bytes,
    "bytes_from": lambda client: -client.in_bytes,
    "last": lambda client: -client.last_active_at,
    "idle": lambda client: client.last_active_at,
    "rtt": lambda client: -_round_trip(client),
    "stop": lambda client: -_stopped_at(client),
    "reason": lambda client: client.reason if isinstance(client, ConnectionRecord) else "",
}
_SORTS = _SORT_KEYS.keys() | {"uptime"}
_ONLY_CLOSED = frozenset({"stop", "reason"})


class ConnzOptions(Struct, frozen=True, kw_only=True):
    """The arguments of the page."""

    sort: str = "cid"
    offset: int = 0
    limit: int = 1024
    auth: bool = False
    subscriptions: bool = False
    detail: bool = False
    cid: int = 0
    live: bool = True
    closed: bool = False
    is_mqtt: bool = False
    """Whether only MQTT clients are asked for, of which there are none."""
    user: str = ""
    account: str = ""
    filter_subject: str = ""
    search: str = ""
    """A part of cid, name, address, user or account, in small letters; not in nats-server."""


def read_options(arguments: Arguments) -> ConnzOptions:
    """Read the arguments of a request.

    Raises:
        BadArgument: one of them is invalid.
    """
    auth = arguments.flag("auth")
    subscriptions, detail = arguments.subscriptions()
    offset, limit = arguments.page()
    cid = arguments.cid()
    state = arguments.text("state")
    if state.lower() not in _STATES:
        raise BadArgument(f"Error decoding state for {state[:64]}")
    live, closed = _STATES[state.lower()]
    sort = arguments.text("sort") or "cid"
    if sort not in _SORTS:
        raise BadArgument(f"invalid sorting option: {sort[:64]}")
    if sort in _ONLY_CLOSED and live:
        raise BadArgument(f"sort by {sort} only valid on closed connections")
    subject = arguments.text("filter_subject")
    if not subjects.is_valid_subject(subject.encode("utf-8", "replace")):
        subject = ""
    return ConnzOptions(
        sort=sort,
        offset=offset,
        limit=limit,
        auth=auth,
        subscriptions=subscriptions,
        detail=detail,
        cid=cid,
        live=live,
        closed=closed,
        is_mqtt=bool(arguments.text("mqtt_client")),
        user=arguments.text("user"),
        account=arguments.text("acc"),
        filter_subject=subject,
        search=arguments.text("search").lower(),
    )


async def connz(state: "State", options: ConnzOptions) -> dict[str, Any]:
    """Return the page; yield to the event loop between slices of a long one."""
    page, _ = await ordered_connz(state, options)
    return page


async def ordered_connz(state: "State", options: ConnzOptions) -> tuple[dict[str, Any], list[Any]]:
    """Return the page, and by what each of its connections is sorted, to merge it with others."""
    broker = state.broker
    now = broker.clock.monotonic()
    if options.cid:
        chosen = _by_cid(state, options)[options.offset :]
        total, offset, limit = len(_candidates(state, options)), options.offset, 1
    else:
        candidates = _candidates(state, options)
        offset, limit = options.offset, options.limit
        found = await _select(candidates, options)
        total = len(found if options.search else candidates)
        ordered = await first_in_order(found, _key_of(options.sort, now), offset + limit)
        chosen = ordered[offset:]
    wall_offset = state.wall_offset()
    entries, steps, room = [], StepBudget(), SizeBudget(detail=options.detail)
    for client in chosen:
        entry = _entry(client, options, now, wall_offset)
        most = len(client.subscriptions) if options.subscriptions else 0
        held = room.take(_subscriptions(client), most)
        if held:
            entry |= _interest(client, held, detail=options.detail)
        entries.append(entry)
        await steps.charge(_ENTRY_STEPS + len(held) * (DETAIL_STEPS if options.detail else 1))
    page = {
        "server_id": broker.keys.server_id,
        "now": go_format.timestamp(now + wall_offset),
        "num_connections": len(entries),
        "total": total,
        "offset": offset,
        "limit": limit,
        "connections": entries,
    }
    if room.left_out:
        # A field of midge's own, only present when the page would have been too long.
        page["subscriptions_left_out"] = room.left_out
    return page, list(map(_key_of(options.sort, now), chosen))


def _key_of(sort: str, now: float) -> SortKey:
    """Return the key of a sort; by uptime the shortest comes first, closed or not."""
    return (lambda client: _uptime(client, now)) if sort == "uptime" else _SORT_KEYS[sort]


def _by_cid(state: "State", options: ConnzOptions) -> list[Client]:
    """Return the requested client, if it is in the requested account."""
    live = state.broker.clients.get(options.cid)
    if live is not None and options.live:
        return [live] if options.account in {"", live.account.name} else []
    candidates = _leafnodes(state, options) if options.live else []
    if options.closed:
        candidates += _candidates(state, structs.replace(options, live=False))
    return [client for client in candidates if client.cid == options.cid]


def _candidates(state: "State", options: ConnzOptions) -> list[Client]:
    """List the clients in the requested state and account."""
    broker = state.broker
    found: list[Client] = []
    if options.live and options.account:
        account = broker.accounts.get(options.account)
        found += broker.clients_of(account) if account else ()
    elif options.live:
        found += broker.clients.values()
    if options.live:
        found += _leafnodes(state, options)
    if options.closed:
        named = options.account
        found += [client for client in broker.closed if not named or client.account_name == named]
    return found


def _leafnodes(state: "State", options: ConnzOptions) -> list[Client]:
    """Describe the leaf nodes and hubs that are linked, in the requested account."""
    most = SUBSCRIPTIONS_KEPT if options.subscriptions or options.filter_subject else 0
    from midge.server.peers.leaf_nodes import leafnode_record  # noqa: PLC0415 - few have any

    return [leafnode_record(link, 0.0, most) for link in links_of(state, options.account)]


async def _select(candidates: list[Client], options: ConnzOptions) -> list[Client]:
    """Filter by the requested user, subject of interest and part of a name."""
    if options.is_mqtt:
        return []
    if not options.user and not options.filter_subject and not options.search:
        return candidates
    found, steps = [], StepBudget()
    pattern = options.filter_subject.encode("utf-8", "replace")
    for client in candidates:
        await steps.charge(1)
        if options.user and _user(client) != options.user:
            continue
        if options.search and options.search not in _searched(client):
            continue
        # A closed one is never left out, as on nats-server.
        if not pattern or _is_closed(client) or await _is_interested(client, pattern, steps):
            found.append(client)
    return found


def _searched(client: Client) -> str:
    """Return what a search looks at, in small letters."""
    if isinstance(client, ConnectionRecord):
        name, account = client.name, client.account_name
    else:
        name, account = client.options.name, client.account.name
    address = f"{client.peer_host}:{client.peer_port}"
    return f"{client.cid} {name} {address} {_user(client)} {account}".lower()


async def _is_interested(client: Client, pattern: bytes, steps: StepBudget) -> bool:
    """Return whether a subscription of the client overlaps with `pattern`."""
    held = list(_subscriptions(client))
    for start in range(0, len(held), _BATCH):
        batch = held[start : start + _BATCH]
        if any(subjects.overlaps(one.subject, pattern) for one in batch):
            return True
        await steps.charge(len(batch))
    return False


def _subscriptions(client: Client) -> Iterable[Any]:
    held = client.subscriptions
    return held if isinstance(held, list) else held.values()


def _subscription_count(client: Client) -> int:
    if isinstance(client, ConnectionRecord):
        return client.subscription_count
    return len(client.subscriptions)


def _user(client: Client) -> str:
    return client.user if isinstance(client, ConnectionRecord) else user_of(client)


def _entry(client: Client, options: ConnzOptions, now: float, wall_offset: float) -> dict[str, Any]:
    """Return the applicable fields of one connection, in nats-server's order."""
    until = client.stopped_at if _is_closed(client) else now
    kind = client.kind if isinstance(client, ConnectionRecord) else "Client"
    entry: dict[str, Any] = {
        "cid": client.cid,
        "kind": kind,
        **({"type": CLIENT_TYPES.get(client.listener_kind, "nats")} if kind == "Client" else {}),
        "ip": client.peer_host,
        "port": client.peer_port,
        "start": go_format.timestamp(client.started_at + wall_offset),
        "last_activity": go_format.timestamp(client.last_active_at + wall_offset),
    }
    if _is_closed(client):
        entry["stop"] = go_format.timestamp(client.stopped_at + wall_offset)
        entry["reason"] = client.reason
    entry |= {
        "rtt": go_format.duration(_round_trip(client)),
        "uptime": go_format.uptime(until - client.started_at),
        "idle": go_format.uptime(until - client.last_active_at),
        "pending_bytes": _pending(client),
        "in_msgs": client.in_messages,
        "out_msgs": client.out_messages,
        "in_bytes": client.in_bytes,
        "out_bytes": client.out_bytes,
        **_stalls(client),
        "subscriptions": _subscription_count(client),
    }
    entry |= _introduction(client)
    if options.auth:
        entry |= _peer_certificates(client) | _identity(client)
    elif isinstance(client, ConnectionRecord) and (token := _token(client)):
        entry |= {**token, **({"name_tag": client.display_name} if client.display_name else {})}
    if isinstance(client, ConnectionRecord):
        proxy_key = client.proxy_key
    else:
        proxy_key = client.identity.proxy_key if client.identity else ""
    return entry | ({"proxy": {"key": proxy_key}} if proxy_key else {})


def _stalls(client: Client) -> dict[str, int]:
    """Return how often the client was paused; nothing if it never was."""
    count = client.stalls if isinstance(client, ConnectionRecord) else stalls_of(client)
    return {"stalls": count} if count else {}


def _introduction(client: Client) -> dict[str, Any]:
    """Return the fields of the client's CONNECT and of its encryption."""
    said: Any = client if isinstance(client, ConnectionRecord) else client.options
    facts = {"name": said.name, "lang": said.lang, "version": said.version}
    tls = client.tls if isinstance(client, ConnectionRecord) else client.channel.tls_facts()
    if tls is not None:
        facts["tls_version"] = tls[0].removeprefix("TLSv")
        facts["tls_cipher_suite"] = tls[1]
    facts["tls_first"] = (
        client.tls_first if isinstance(client, ConnectionRecord) else is_tls_first(client)
    )
    return {name: value for name, value in facts.items() if value}


def _peer_certificates(client: Client) -> dict[str, Any]:
    """Return the chain of the client's certificate; nothing for a closed client."""
    chain = () if isinstance(client, ConnectionRecord) else client.channel.peer_chain()
    if not chain:
        return {}
    from midge.server.auth.certificates import fingerprints  # noqa: PLC0415 - only TLS needs it

    return {"tls_peer_certs": [fingerprints(one) for one in chain[:1]]}


def _token(client: Client) -> dict[str, Any]:
    """Return the client's JWT, its tags, and the key that made it; for an nkey its account."""
    if isinstance(client, ConnectionRecord):
        facts = {"jwt": client.jwt, "issuer_key": client.issuer_key, "tags": client.tags}
    else:
        tags = client.identity.tags if client.identity else ()
        facts = {"jwt": client.options.jwt, "issuer_key": issuer_key_of(client), "tags": tags}
    return {name: value for name, value in facts.items() if value}


def _identity(client: Client) -> dict[str, Any]:
    name = client.account_name if isinstance(client, ConnectionRecord) else client.account.name
    facts = {"authorized_user": _user(client), "account": name, **_token(client), "name_tag": name}
    if name == GLOBAL_ACCOUNT:
        del facts["account"]
        if isinstance(client, ConnectionRecord):
            del facts["name_tag"]
    return {field: value for field, value in facts.items() if value}


def _interest(client: Client, held: list[Any], *, detail: bool) -> dict[str, Any]:
    """List the client's subscriptions."""
    if not detail:
        return {"subscriptions_list": [go_format.text(one.subject) for one in held]}
    account = {}
    if _is_closed(client) and (client.account_name != GLOBAL_ACCOUNT or client.kind == "Leafnode"):
        account = {"account": client.account_name, "account_tag": client.account_name}
    details = [account | subscription_detail(one, client.cid) for one in held]
    return {"subscriptions_list_detail": details}
