"""Streams, consumers and buckets as the console shows them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

from midge.jetstream.config.names import to_bytes
from midge.jetstream.consumer.info import info_of
from midge.jetstream.consumer.pull import PullRequests
from midge.jetstream.json.times import format_time
from midge.jetstream.stream import details as shown_state
from midge.jetstream.stream import searching
from midge.jetstream.stream.details import subject_page
from midge.jetstream.stream.pieces import until_cached, until_first_time
from midge.protocol.text import decode
from midge.server.monitoring.console.shown import headers_of, payload_of
from midge.server.monitoring.long_lists import finish
from midge.server.routing.subscription import RoutedSubscription

if TYPE_CHECKING:
    from midge.jetstream.consumer.consumer import Consumer
    from midge.jetstream.store.interface import LoadedMessage
    from midge.jetstream.stream.stream import Stream
    from midge.server.jetstream.account import AccountEngine
    from midge.server.monitoring.state import State
    from midge.sublist.result import SubListResult

STREAMS_MAX = 200
CONSUMERS_MAX = 200
MESSAGES_MAX = 200
KEYS_MAX = 500

_PAYLOAD_MAX_BYTES = 64 * 1024
_VALUE_MAX_BYTES = 1024
_PAGE_MAX_BYTES = 2 * 1024 * 1024
_PER_TURN = 20  # searches, each some 10 us where a pattern matches few of many subjects
_BOUND_MAX = 20
_SECOND_NS = 1_000_000_000
_INT64_MAX = (1 << 63) - 1


def stream_of(state: State, account: str, name: str) -> Stream | None:
    """Return a stream of an account by name, or None."""
    home = _home(state, account)
    return None if home is None else home.streams.streams.get(name)


async def list_streams(state: State, account: str) -> dict[str, Any]:
    """Return what there is to see of the streams of an account, at most `STREAMS_MAX` of them."""
    home = _home(state, account)
    found = [] if home is None else sorted(home.streams.streams.items())
    page = [stream for _, stream in found[:STREAMS_MAX]]
    for stream in page:
        await finish(until_first_time(stream.store))
    return {
        "total": len(found),
        "streams": [_stream(stream) for stream in page if not stream.is_closed],
    }


def list_consumers(state: State, account: str, name: str) -> dict[str, Any]:
    """Return what there is to see of the consumers of a stream, at most `CONSUMERS_MAX`."""
    home, stream = _home(state, account), stream_of(state, account, name)
    if home is None or stream is None:
        return {"total": 0, "consumers": []}
    found = stream.consumers.listed()
    return {
        "total": len(found),
        "consumers": [_consumer(home, consumer) for consumer in found[:CONSUMERS_MAX]],
    }


async def messages(
    stream: Stream, pattern: bytes, seq: int, since: str, count: int
) -> dict[str, Any]:
    """Return messages of `stream` on `pattern`, all for empty, from a sequence or a time on.

    Without either these are the newest. `next` is where to go on, 0 at the end.

    Raises:
        ValueError: `since` is not a time.
    """
    store = stream.store
    filters = (pattern,) if pattern and pattern != b">" else ()
    count = max(1, min(count, MESSAGES_MAX))
    start = max(min(seq, _INT64_MAX), 1)
    if since:
        start = await finish(searching.seq_at_time(store, _time_ns(since)))
    if not since and seq <= 0:
        start = await _start_of_last(stream, pattern, count)
    found: list[dict[str, Any]] = []
    looked = 0
    room = _PAGE_MAX_BYTES
    while start <= store.visible_seq and len(found) < count and room > 0:
        at = store.next_seq(filters, start, store.visible_seq)
        if not at:
            start = store.visible_seq + 1
            break
        await finish(until_cached(store, at))
        message = store.load(at)
        start = at + 1
        looked += 1
        if message is not None:  # else it has gone meanwhile, or cannot be read
            found.append(_message(at, message))
            room -= min(len(message.payload), _PAYLOAD_MAX_BYTES)
        if looked % _PER_TURN == 0:
            await asyncio.sleep(0)
    return {
        "messages": found,
        "next": start if start <= store.visible_seq else 0,
        "first_seq": store.first_seq,
        "last_seq": store.visible_seq,
    }


async def keys(stream: Stream, pattern: bytes) -> dict[str, Any]:
    """Return the last message of each subject that matches, at most `KEYS_MAX`, by subject."""
    store = stream.store
    page, total = await finish(
        subject_page(store, stream.surroundings.random, pattern, 0, KEYS_MAX)
    )
    shown = []
    for number, subject in enumerate(chain.from_iterable(page)):
        seq = store.last_for_subject(subject)
        await finish(until_cached(store, seq))
        seq = store.last_for_subject(subject)  # a later one that has come meanwhile is in memory
        message = store.load(seq) if seq else None
        if message is not None:
            count = store.count_for_subject(subject)
            shown.append({**_message(seq, message, _VALUE_MAX_BYTES), "count": count})
        if number % _PER_TURN == 0:
            await asyncio.sleep(0)
    return {"total": total, "keys": shown}


async def _start_of_last(stream: Stream, pattern: bytes, count: int) -> int:
    """Return the sequence from which on there are the last `count` messages that match."""
    store = stream.store
    start = store.visible_seq + 1
    for found in range(count):
        seq = store.last_matching(pattern or b">", start - 1) if start > 1 else 0
        if not seq:
            break
        start = seq
        if found % _PER_TURN == 0:
            await asyncio.sleep(0)
    return max(start, 1)


def _home(state: State, account: str) -> AccountEngine | None:
    return None if state.jetstream is None else state.jetstream.accounts.get(account)


def _stream(stream: Stream) -> dict[str, Any]:
    config = stream.config
    return {
        "name": config.name,
        "subjects": config.subjects,
        "storage": config.storage,
        "retention": config.retention,
        "created": format_time(stream.created_ns),
        "state": shown_state.state(stream),
        "limits": {
            "max_msgs": config.max_msgs,
            "max_bytes": config.max_bytes,
            "max_age": config.max_age_ns / _SECOND_NS,
            "max_msgs_per_subject": config.max_msgs_per_subject,
        },
        "is_sealed": config.sealed,
        "deny_purge": config.deny_purge,
        "mirror": "" if config.mirror is None else config.mirror.name,
    }


def _consumer(home: AccountEngine, consumer: Consumer) -> dict[str, Any]:
    info = info_of(consumer, with_versions=False)
    due_ns = consumer.acks.pending.next_due_ns()
    due_s = (due_ns - consumer.host.clock.monotonic_ns()) / _SECOND_NS if due_ns else None
    fields = ("name", "num_pending", "num_ack_pending", "num_redelivered", "num_waiting")
    return {
        **{field: info[field] for field in fields},
        "filters": [decode(one) for one in consumer.acks.filters],
        "ack_policy": consumer.config.ack_policy,
        "deliver_subject": consumer.config.deliver_subject,
        "is_paused": consumer.is_paused(),
        "ack_floor": info["ack_floor"],
        "delivered": info["delivered"],
        "bound": _bound(home, consumer),
        "next_due_s": due_s,
    }


def _bound(home: AccountEngine, consumer: Consumer) -> list[str]:
    """Return the clients that get what the consumer delivers, or wait for it."""
    if isinstance(consumer.receivers, PullRequests):
        subjects = {request.reply for request in consumer.receivers.queue}
    else:
        subjects = {to_bytes(consumer.config.deliver_subject)}
    names: dict[str, None] = {}
    for subject in subjects:
        if len(names) >= _BOUND_MAX:
            break
        for name in _clients_of(home.account.sublist.match(subject)):
            names[name] = None
    return list(names)[:_BOUND_MAX]


def _clients_of(result: SubListResult) -> list[str]:
    members = [*result.plain, *(one for group in result.queues for one in group.members)]
    clients = [one.client for one in members if isinstance(one, RoutedSubscription)]
    return [_client_name(client) if client else "this process" for client in clients]


def _client_name(client: Any) -> str:
    options = getattr(client, "options", None)
    name = "" if options is None else options.name
    return f"{client.cid} {name}".strip()


def _message(
    seq: int, message: LoadedMessage, limit_bytes: int = _PAYLOAD_MAX_BYTES
) -> dict[str, Any]:
    return {
        "seq": seq,
        "time": format_time(message.time_ns),
        "subject": decode(message.subject),
        "headers": headers_of(message.headers),
        **payload_of(message.payload, limit_bytes),
    }


def _time_ns(text: str) -> int:
    """Return a moment, UTC unless it says otherwise. Raises: ValueError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        expected = "expected a time such as 2026-01-31T12:00:00"
        raise ValueError(f"{expected}, got {text!r}") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return min(int(moment.timestamp() * _SECOND_NS), _INT64_MAX)
