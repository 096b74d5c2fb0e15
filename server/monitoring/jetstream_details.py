"""The contents of JetStream, in total and by account, stream and consumer, as pages show them."""

import hashlib
import string
from typing import TYPE_CHECKING, Any

from midge.jetstream.config.versions import API_LEVEL
from midge.jetstream.consumer.info import info_of
from midge.jetstream.json.times import format_time
from midge.jetstream.stream import details as shown
from midge.jetstream.stream.pieces import until_first_time
from midge.server.config.jetstream import JetStreamLimits
from midge.server.monitoring import go_format
from midge.server.monitoring.long_lists import StepBudget, finish

if TYPE_CHECKING:
    from midge.jetstream.consumer.consumer import Consumer
    from midge.jetstream.stream.stream import Stream
    from midge.server.jetstream.account import AccountEngine
    from midge.server.jetstream.engine import Engine
    from midge.server.monitoring.state import State

_DEFAULT_MAX_CONSUMERS = 1000
_UNSIGNED = 1 << 64
_STREAM_STEPS = 50  # of describing a stream, about 50 us
_CONSUMER_STEPS = 10  # of describing a consumer, about 10 us
_PEER_LETTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SYNC_INTERVAL_S = 120  # nats-server's page shows 120 s for `always`


async def page(
    state: "State", engine: "Engine", given: dict[str, bool], name: str, offset: int, limit: int
) -> dict[str, Any]:
    """Return the page, of one account if `name` is given; make it in pieces for many streams."""
    made = {
        **statistics(engine),
        "server_id": state.broker.keys.server_id,
        "now": go_format.timestamp(state.broker.clock.wall()),
        "config": configuration(engine),
        "limits": _limits(engine),
        **_totals(engine, with_leaders=given["raft"]),
        **meta_cluster(state),
    }
    used = [one for one in engine.accounts.values() if one.limits is not None]
    homes = sorted(used, key=lambda one: one.account.name)
    # An unknown account filters nothing, and only `accounts` lists all then, as on nats-server.
    wants_all = given["accounts"] or (not name and (given["streams"] or given["consumers"]))
    named = [one for one in homes if one.account.name == name]
    shown = named or homes[offset : offset + limit]
    if (wants_all or named) and shown:
        steps = StepBudget()
        made["account_details"] = [await _account(engine, one, given, steps) for one in shown]
    made["total"] = len(used)
    return made


def meta_cluster(state: "State") -> dict[str, Any]:
    """Return nats-server's group of servers that place streams; midge's has this server alone."""
    if state.cluster is None:
        return {}
    found = hashlib.sha256(state.server_name.encode()).digest()[:8]
    alone = {
        "name": state.cluster.name,
        "leader": state.server_name,
        "peer": "".join(_PEER_LETTERS[byte % len(_PEER_LETTERS)] for byte in found),
        "cluster_size": 1,
        "quorum_needed": 1,
        "pending": 0,
        "pending_requests": 0,
        "pending_infos": 0,
        "snapshot": {"pending_entries": 0, "pending_size": 0, "last_time": "0001-01-01T00:00:00Z"},
    }
    return {"meta_cluster": alone}


def _limits(engine: "Engine") -> dict[str, Any]:
    """Return the bounds of all streams and consumers that are set."""
    asked = engine.context.options.limits
    default = JetStreamLimits()
    shown = {
        "max_request_batch": asked.max_request_batch,
        "max_ack_pending": asked.max_ack_pending,
        "max_ha_assets": asked.max_ha_assets,
        "max_duplicate_window": round(asked.duplicate_window_s * 10**9),
    }
    if asked.max_batch_inflight_per_stream != default.max_batch_inflight_per_stream:
        shown["max_batch_inflight_per_stream"] = asked.max_batch_inflight_per_stream
    if asked.max_batch_inflight_total != default.max_batch_inflight_total:
        shown["max_batch_inflight_total"] = asked.max_batch_inflight_total
    if asked.max_batch_messages != default.max_batch_messages:
        shown["max_batch_size"] = asked.max_batch_messages
    if asked.max_batch_timeout_s != default.max_batch_timeout_s:
        shown["max_batch_timeout"] = round(asked.max_batch_timeout_s * 10**9)
    shown = {name: value for name, value in shown.items() if value}
    return {**shown, "default_max_consumers": _DEFAULT_MAX_CONSUMERS}


def configuration(engine: "Engine") -> dict[str, Any]:
    """Return the settings, as pages show them."""
    options = engine.context.options
    shown: dict[str, Any] = {
        "max_memory": engine.context.limits.max_memory,
        "max_storage": engine.context.limits.max_storage,
        "store_dir": str(engine.context.store_directory),
        "sync_interval": options.sync_interval_ns or _SYNC_INTERVAL_S * 10**9,
    }
    if options.max_memory_bytes > 0 and options.max_file_bytes > 0:
        shown["compress_ok"] = True  # as on nats-server, where both limits are set
    if options.sync_interval == "always":
        shown["sync_always"] = True
    shown["strict"] = options.strict
    if options.domain:
        shown["domain"] = options.domain
    return shown


def statistics(engine: "Engine") -> dict[str, Any]:
    """Return the used and reserved bytes, and the number of API requests."""
    used = [one.streams for one in engine.accounts.values() if one.limits is not None]
    return {
        "memory": engine.context.memory.used,
        "storage": engine.context.storage.used,
        "reserved_memory": engine.context.limits.reserved_memory,
        "reserved_storage": engine.context.limits.reserved_storage,
        "accounts": len(used),
        "ha_assets": 0,
        "api": {
            "level": API_LEVEL,
            "total": sum(one.api_total for one in used),
            "errors": sum(one.api_errors for one in used),
        },
    }


def section(engine: "Engine") -> dict[str, Any]:
    """Return what `/varz` shows of JetStream."""
    return {
        "config": configuration(engine),
        "stats": statistics(engine),
        "limits": _limits(engine),
    }


def _totals(engine: "Engine", *, with_leaders: bool) -> dict[str, Any]:
    streams = [one for home in engine.accounts.values() for one in home.streams.streams.values()]
    consumers = sum(len(one.consumers) for one in streams)
    return {
        "streams": len(streams),
        **({"streams_leader": len(streams)} if with_leaders and streams else {}),
        "consumers": consumers,
        **({"consumers_leader": consumers} if with_leaders and consumers else {}),
        "messages": sum(one.store.messages for one in streams),
        "bytes": sum(one.store.bytes for one in streams),
    }


async def _account(
    engine: "Engine", home: "AccountEngine", given: dict[str, bool], steps: StepBudget
) -> dict[str, Any]:
    streams = home.streams
    detail: dict[str, Any] = {
        "name": home.account.name,
        "id": home.account.name,
        "memory": streams.memory.used,
        "storage": streams.storage.used,
        "reserved_memory": streams.memory.limit % _UNSIGNED,
        "reserved_storage": streams.storage.limit % _UNSIGNED,
        "accounts": 0,
        "ha_assets": 0,
        "api": {"level": 0, "total": streams.api_total, "errors": streams.api_errors},
    }
    if given["streams"] or given["consumers"]:
        shown = []
        for name in sorted(streams.streams):
            await steps.charge(_STREAM_STEPS)
            stream = streams.streams.get(name)
            if stream is not None:
                await finish(until_first_time(stream.store))
            if stream is not None and not stream.is_closed:
                shown.append(await _stream(engine, stream, given, steps))
        if shown:
            detail["stream_detail"] = shown
    return detail


async def _stream(
    engine: "Engine", stream: "Stream", given: dict[str, bool], steps: StepBudget
) -> dict[str, Any]:
    detail: dict[str, Any] = {
        "name": stream.config.name,
        "created": format_time(stream.created_ns),
        "cluster": {"leader": engine.context.server_name},
    }
    if given["config"]:
        detail["config"] = stream.config.fields()
    detail["state"] = shown.state(stream)
    if given["consumers"]:
        listed = await _consumers(stream.consumers.listed(), given, steps)
        detail |= {"consumer_detail": listed} if listed else {}
        if given["direct-consumers"]:
            direct = await _consumers(stream.consumers.direct(), given, steps)
            detail |= {"direct_consumer_detail": direct} if direct else {}
    return detail | stream.origins.info()


async def _consumers(
    consumers: "list[Consumer]", given: dict[str, bool], steps: StepBudget
) -> list[dict[str, Any]]:
    """Return the infos of consumers, with their configurations if those are asked for."""
    infos = []
    for one in consumers:
        await steps.charge(_CONSUMER_STEPS)
        info = info_of(one, with_versions=False)
        if not given["config"]:
            del info["config"]
        infos.append(info)
    return infos
