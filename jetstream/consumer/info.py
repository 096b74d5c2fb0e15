"""The info of a consumer, as API answers and monitoring show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midge.jetstream.config import consumer as configuration
from midge.jetstream.json.encode import text
from midge.jetstream.json.object_writer import ObjectWriter
from midge.jetstream.json.times import format_time

if TYPE_CHECKING:
    from midge.jetstream.consumer.consumer import Consumer


_out = ObjectWriter()


def written_report(consumer: Consumer, head: bytes) -> bytes | None:
    """Return what `info_of` with versions says as JSON, behind `head`, which has the brace.

    None for what it would take a closer look to write: unusual texts, times, pauses and groups.
    """
    acks = consumer.acks
    acks.recount()
    receivers = consumer.receivers
    config = acks.config
    if config.priority_groups or consumer.paused_until_ns:
        return None
    out = _out
    out.begin(head)
    out.bytes_always(b'"stream_name":', consumer.host.stream)
    out.bytes_always(b'"name":', acks.name)
    out.time_always(b'"created":', acks.created_ns)
    if not configuration.write_versioned(config, out):
        return None
    consumer_seq, seq = acks.delivered_consumer_seq, acks.reported_seq()
    _write_sequence(out, b'"delivered":', consumer_seq, seq, acks.last_delivery_ns)
    consumer_seq, seq = acks.shown_floor_consumer_seq, acks.shown_floor_seq
    _write_sequence(out, b'"ack_floor":', consumer_seq, seq, acks.last_ack_ns)
    out.count_always(b'"num_ack_pending":', len(acks.pending))
    out.count_always(b'"num_redelivered":', acks.num_redelivered())
    out.count_always(b'"num_waiting":', receivers.num_waiting())
    out.count_always(b'"num_pending":', max(acks.num_pending, 0))
    out.flag(b'"push_bound":', receivers.is_bound())
    out.time_always(b'"ts":', consumer.host.clock.wall_ns())
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
    acks = consumer.acks
    receivers = consumer.receivers
    acks.recount()
    clock = consumer.host.clock
    info: dict[str, Any] = {
        "stream_name": text(consumer.host.stream),
        "name": text(acks.name),
        "created": format_time(acks.created_ns),
        "config": configuration.fields(acks.config, with_versions=with_versions),
        "delivered": _sequence(
            acks.delivered_consumer_seq, acks.reported_seq(), acks.last_delivery_ns
        ),
        "ack_floor": _sequence(
            acks.shown_floor_consumer_seq, acks.shown_floor_seq, acks.last_ack_ns
        ),
        "num_ack_pending": len(acks.pending),
        "num_redelivered": acks.num_redelivered(),
        "num_waiting": receivers.num_waiting(),
        "num_pending": max(acks.num_pending, 0),
    }
    if receivers.is_bound():
        info["push_bound"] = True
    if consumer.is_paused():
        info["paused"] = True
        info["pause_remaining"] = consumer.pause_remaining_ns()
    info["ts"] = format_time(clock.wall_ns())
    groups = receivers.priority_groups()
    if groups:
        info["priority_groups"] = groups
    return info


def _sequence(consumer_seq: int, stream_seq: int, last_active_ns: int) -> dict[str, Any]:
    fields: dict[str, Any] = {"consumer_seq": consumer_seq, "stream_seq": stream_seq}
    if last_active_ns:
        fields["last_active"] = format_time(last_active_ns)
    return fields
