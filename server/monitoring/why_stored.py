"""The part of `/why` about streams: what one stores, and where a stored message is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midge.protocol.text import decode
from midge.sublist import subjects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from midge.jetstream.consumer.consumer import Consumer
    from midge.jetstream.stream.stream import Stream

Row = tuple[bool, str, str, str]
"""Whether the message stops here, the rule, the text, and the setting."""

_SECOND_NS = 1_000_000_000


def stream_findings(stream: Stream, subject: bytes, msg_id: bytes) -> Iterator[Row]:
    """Yield what a stream does with a new message, and which consumers deliver it."""
    config, store = stream.config, stream.store
    name = config.name
    known = stream.dedup.find(msg_id, stream.clock.wall_ns()) if msg_id else 0
    if known:
        text = f"stream {name} has a message with this id, as {known}"
        yield True, "dedup", text, f"stream {name}: duplicate_window"
        return
    if config.sealed:
        yield True, "limits", f"stream {name} is sealed", f"stream {name}: sealed"
        return
    full = _full(config, store) if config.discard == "new" else ""
    if full:
        text = f"stream {name} is full, and refuses new messages (discard=new)"
        yield True, "limits", text, f"stream {name}: {full}"
        return
    yield False, "stream", f"stream {name} stores it as {store.last_seq + 1} or later", ""
    for consumer in stream.consumers:
        if _filters(consumer, subject):
            held = _held(consumer)
            text = f"{_described(consumer, name)} delivers it"
            yield (True, *held) if held else (False, "consumer", text, "")
        else:
            yield _filtered(consumer, name)


def stored_findings(stream: Stream, subject: bytes, seq: int) -> Iterator[Row]:
    """Yield where a stored message is, and what each consumer has done with it."""
    name, store = stream.config.name, stream.store
    message = store.load(seq)
    if message is None:
        if seq > store.last_seq:
            yield True, "stream", f"stream {name} has come to {store.last_seq}", ""
        else:
            yield True, "expiry", f"stream {name} has removed {seq}: {_removal(stream, seq)}", ""
        return
    stored = message.subject
    if stored != subject:
        yield False, "stream", f"{seq} in stream {name} is on {decode(stored)!r}", ""
    else:
        yield False, "stream", f"stream {name} has it as {seq}", ""
    for consumer in stream.consumers:
        yield _state_of(consumer, name, stored, seq)


def _state_of(consumer: Consumer, stream: str, subject: bytes, seq: int) -> Row:
    """Return what a consumer has done with a stored message."""
    who = _described(consumer, stream)
    if not _filters(consumer, subject):
        return _filtered(consumer, stream)
    again = max(consumer.redelivered.get(seq, 0), 0)
    entry = consumer.pending.get(seq)
    left_ns = 0 if entry is None else entry.due_ns - consumer.clock.monotonic_ns()
    is_last = 0 < consumer.max_deliver <= again + 1
    if is_last and left_ns <= 0 and (entry is not None or seq in consumer.redelivered):
        text = f"{who} has given up after {again + 1} deliveries without an ack"
        return True, "max_deliver", text, f"consumer {decode(consumer.name)}: max_deliver"
    if entry is not None:
        due = f"for {max(left_ns, 0) / _SECOND_NS:.1f} s more"
        text = f"{who} has delivered it {again + 1} times, and awaits the ack {due}"
        return False, "ack", text, f"consumer {decode(consumer.name)}: ack_wait"
    if seq >= consumer.next_seq:
        held = _held(consumer)
        return (True, *held) if held else (False, "consumer", f"{who} delivers it next", "")
    if consumer.config.ack_policy == "none":
        return False, "delivery", f"{who} has delivered it", ""
    return False, "ack", f"{who} has delivered it, and it was acknowledged", ""


def _held(consumer: Consumer) -> tuple[str, str, str] | None:
    """Return why a consumer delivers nothing now: the rule, the text, the setting."""
    name = decode(consumer.name)
    if consumer.is_paused():
        return "pause", f"consumer {name} is paused", f"consumer {name}: pause_until"
    most, waiting = consumer.max_ack_pending, len(consumer.pending.entries)
    if 0 < most <= waiting and consumer.config.ack_policy != "none":
        text = f"consumer {name} waits for acks of {waiting} messages"
        return "limits", text, f"consumer {name}: max_ack_pending"
    if consumer.config.is_pull():
        if not consumer.num_waiting():
            return "interest", f"no client asks consumer {name} for messages", ""
    elif not consumer.is_push_bound():
        subject = consumer.config.deliver_subject
        text = f"nobody subscribes to {subject!r}, where consumer {name} delivers"
        return "interest", text, f"consumer {name}: deliver_subject"
    return None


def _filters(consumer: Consumer, subject: bytes) -> bool:
    filters = consumer.config.filters()
    return not filters or any(subjects.matches(subject, one) for one in filters)


def _filtered(consumer: Consumer, stream: str) -> Row:
    name = decode(consumer.name)
    filters = ", ".join(repr(decode(one)) for one in consumer.config.filters())
    text = f"{_described(consumer, stream)} takes only {filters}"
    return False, "filter", text, f"consumer {name}: filter_subjects"


def _described(consumer: Consumer, stream: str) -> str:
    return f"consumer {decode(consumer.name)} of stream {stream}"


def _full(config: Any, store: Any) -> str:
    """Return the limit that a stream has reached, or nothing."""
    if 0 < config.max_msgs <= store.messages:
        return "max_msgs"
    return "max_bytes" if 0 < config.max_bytes <= store.bytes else ""


def _removal(stream: Stream, seq: int) -> str:
    """Return what may have removed a message: the settings that remove any, or a request."""
    config = stream.config
    causes = [
        f"{name}={value}"
        for name, value in (
            ("max_age", f"{config.max_age_ns / _SECOND_NS:g} s" if config.max_age_ns else ""),
            ("max_msgs", config.max_msgs if config.max_msgs > 0 else ""),
            ("max_bytes", config.max_bytes if config.max_bytes > 0 else ""),
            ("max_msgs_per_subject", max(config.max_msgs_per_subject, 0) or ""),
            ("retention", config.retention if config.retention != "limits" else ""),
        )
        if value
    ]
    if seq >= stream.store.first_seq:
        causes.append("a deletion")
    return ", ".join(causes) or "a purge or a deletion"
