"""The info of a consumer, as API answers and monitoring show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midge.jetstream.config import consumer as configuration
from midge.jetstream.json.encode import text
from midge.jetstream.json.times import format_time

if TYPE_CHECKING:
    from midge.jetstream.consumer.consumer import Consumer


def info_of(consumer: Consumer, *, with_versions: bool) -> dict[str, Any]:
    """Return the report on a consumer, its keys in nats-server's order.

    Single reports name the server's version among the metadata, lists of consumers do not.
    """
    consumer.settle_counts()
    clock = consumer.clock
    delivered_seq = consumer.delivered_seq
    if not delivered_seq and not consumer.delivered_consumer_seq:
        # nats-server shows how far a consumer has looked until the first delivery from the start.
        delivered_seq = max(consumer.next_seq, 1) - 1
    info: dict[str, Any] = {
        "stream_name": text(consumer.host.stream),
        "name": text(consumer.name),
        "created": format_time(consumer.created_ns),
        "config": configuration.fields(consumer.config, with_versions=with_versions),
        "delivered": _sequence(
            consumer.delivered_consumer_seq, delivered_seq, consumer.last_delivery_ns
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
