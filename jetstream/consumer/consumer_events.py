"""The events of consumers: advisories, and metrics of acks."""

from __future__ import annotations

from typing import Any

from midge.jetstream.consumer.consumer_host import ConsumerHost
from midge.jetstream.json import type_names
from midge.jetstream.json.encode import encode, text
from midge.jetstream.json.times import ZERO_TIME, Timestamp, format_time


class ConsumerEvents:
    """The events of one consumer. An event without a subscriber is not made."""

    __slots__ = ("_host", "name")

    def __init__(self, host: ConsumerHost, name: bytes) -> None:
        self._host = host
        self.name = name

    def created(self) -> None:
        """Publish the advisory of the consumer's creation."""
        self._advise(b"CREATED", "consumer_action", {"action": "create"})

    def deleted(self) -> None:
        """Publish the advisory of the consumer's deletion."""
        self._advise(b"DELETED", "consumer_action", {"action": "delete"})

    def paused(self, until: Timestamp | None) -> None:
        """Publish the advisory of a pause, or of its end."""
        moment = ZERO_TIME if until is None else format_time(until.ns)
        is_paused = until is not None and self._host.clock.wall_ns() < until.ns
        self._advise(b"PAUSE", "consumer_pause", {"paused": is_paused, "pause_until": moment})

    def pinned(self, group: str, pin_id: str) -> None:
        """Return which client a priority group is pinned to."""
        self._advise(
            b"PINNED",
            "consumer_group_pinned",
            {"group": group, "pinned_id": pin_id},
            {"account": self._host.around.account},
        )

    def unpinned(self, group: str, reason: str) -> None:
        """Publish the advisory that a priority group has lost its pin."""
        self._advise(
            b"UNPINNED",
            "consumer_group_unpinned",
            {"group": group, "reason": reason},
            {"account": self._host.around.account},
        )

    def max_deliveries(self, seq: int, deliveries: int) -> None:
        """Publish the advisory that a message has reached `max_deliver`."""
        fields = {"stream_seq": seq, "deliveries": deliveries}
        self._advise(b"MAX_DELIVERIES", "max_deliver", fields)

    def naked(self, seq: int, consumer_seq: int, deliveries: int) -> None:
        """Publish the advisory of a NAK."""
        fields = _sequences(seq, consumer_seq, deliveries)
        self._advise(b"MSG_NAKED", "nak", fields)

    def terminated(self, seq: int, consumer_seq: int, deliveries: int, reason: str) -> None:
        """Publish the advisory of a terminated message."""
        fields: dict[str, Any] = _sequences(seq, consumer_seq, deliveries)
        if reason:
            fields["reason"] = reason
        self._advise(b"MSG_TERMINATED", "terminated", fields)

    def acked(self, seq: int, consumer_seq: int, deliveries: int, ack_time_ns: int) -> None:
        """Return how long an ack took."""
        host = self._host
        subject = b"$JS.EVENT.METRIC.CONSUMER.ACK.%b.%b" % (host.stream, self.name)
        if not host.sink.has_interest(subject):
            return
        fields = {"consumer_seq": consumer_seq, "stream_seq": seq, "ack_time": ack_time_ns}
        fields["deliveries"] = deliveries
        self._send(subject, f"{type_names.METRIC}consumer_ack", fields, {})

    def _advise(
        self,
        kind: bytes,
        type_name: str,
        fields: dict[str, Any],
        first: dict[str, Any] | None = None,
    ) -> None:
        host = self._host
        subject = b"$JS.EVENT.ADVISORY.CONSUMER.%b.%b.%b" % (kind, host.stream, self.name)
        if host.sink.has_interest(subject):
            self._send(subject, type_names.ADVISORY + type_name, fields, first or {})

    def _send(
        self, subject: bytes, type_name: str, fields: dict[str, Any], first: dict[str, Any]
    ) -> None:
        host = self._host
        now = format_time(host.clock.wall_ns())
        event = {"type": type_name, "id": host.around.new_id(), "timestamp": now, **first}
        event |= {"stream": text(host.stream), "consumer": text(self.name)}
        if host.around.domain and "group" in fields:
            event["domain"] = host.around.domain
        event |= fields
        if host.around.domain:
            event.setdefault("domain", host.around.domain)
        host.sink.send(subject, b"", b"", encode(event))


def _sequences(seq: int, consumer_seq: int, deliveries: int) -> dict[str, Any]:
    return {"consumer_seq": consumer_seq, "stream_seq": seq, "deliveries": deliveries}
