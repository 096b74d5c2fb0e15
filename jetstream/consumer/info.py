"""The info of a consumer, as API answers and monitoring show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midge.jetstream.config import consumer as configuration
from midge.jetstream.json.encode import text
from midge.jetstream.json.times import format_time
from midge.jetstream.json.writer import ObjectWriter

if TYPE_CHECKING:
    from midge.jetstream.consumer.consumer import Consumer


_out = ObjectWriter()


def written_report(consumer: Consumer, head: bytes) -> bytes | None:
    """Return what `info_of` with versions says as JSON, behind `head`, which has the brace.

    None for what it would take a closer look to write: unusual texts, times, pauses and groups.
    """
    consumer.settle_counts()
    config = consumer.config
    if config.priority_groups or consumer.paused_until_ns:
        return None
    out = _out
    out.begin(head)
    out.bytes_always(b'"stream_name":', consumer.host.stream)
    out.bytes_always(b'"name":', consumer.name)
    out.time_always(b'"created":', consumer.created_ns)
    if not configuration.write_versioned(config, out):
        return None
    consumer_seq, seq = consumer.delivered_consumer_seq, consumer.reported_seq()
    _write_sequence(out, b'"delivered":', consumer_seq, seq, consumer.last_delivery_ns)
    consumer_seq, seq = consumer.shown_floor_consumer_seq, consumer.shown_floor_seq
    _write_sequence(out, b'"ack_floor":', consumer_seq, seq, consumer.last_ack_ns)
    out.count_always(b'"num_ack_pending":', len(consumer.pending))
    out.count_always(b'"num_redelivered":', consumer.num_redelivered())
    out.count_always(b'"num_waiting":', consumer.num_waiting())
    out.count_always(b'"num_pending":', max(consumer.num_pending, 0))
    out.flag(b'"push_bound":', consumer.is_push_bound())
    out.time_always(b'"ts":', consumer.clock.wall_ns())
    out.literal(b"}")
    return out.written() if out.is_plain else None


def _write_sequence(
    out: ObjectWriter, name: bytes, consumer_seq: int, stream_seq: int, last_active_ns: int
) -> None:
    """Write what `_sequence` makes."""
    out.name(name)
    out.literal(b"{")
    out.count_always(b'"consumer_seq":', consumer_seq)
    out.count_always(b'"stream_seq":', stream_seq)
    if last_active_ns:
        out.time_always(b'"last_active":', last_active_ns)
    out.literal(b"}")


def info_of(consumer: Consumer, *, with_versions: bool) -> dict[str, Any]:
    """Return the report on a consumer, its keys in nats-server's order.

    Single reports name the server's version among the metadata, lists of consumers do not.
    """
    consumer.settle_counts()
    clock = consumer.clock
    info: dict[str, Any] = {
        "stream_name": text(consumer.host.stream),
        "name": text(consumer.name),
        "created": format_time(consumer.created_ns),
        "config": configuration.fields(consumer.config, with_versions=with_versions),
        "delivered": _sequence(
            consumer.delivered_consumer_seq, consumer.reported_seq(), consumer.last_delivery_ns
        ),
        "ack_floor": _sequence(
            consumer.shown_floor_consumer_seq, consumer.shown_floor_seq, consumer.last_ack_ns
        ),
        "num_ack_pending": len(consumer.pending),
        "num_redelivered": consumer.num_redelivered(),
        "num_waiting": consumer.num_waiting(),
        "num_pending": max(consumer.num_pending, 0),
    }
    if consumer.is_push_bound():
        info["push_bound"] = True
    if consumer.is_paused():
        info["paused"] = True
        info["pause_remaining"] = consumer.paused_until_ns - clock.wall_ns()
    info["ts"] = format_time(clock.wall_ns())
    groups = consumer.priority_groups()
    if groups:
        info["priority_groups"] = groups
    return info


def _sequence(consumer_seq: int, stream_seq: int, last_active_ns: int) -> dict[str, Any]:
    fields: dict[str, Any] = {"consumer_seq": consumer_seq, "stream_seq": stream_seq}
    if last_active_ns:
        fields["last_active"] = format_time(last_active_ns)
    return fields
