"""Counters: each message adds to the total of its subject, and the stream stores the total.

A counter message from another stream has that stream's total. The stream adds the growth of that
total, which it remembers in ``Nats-Counter-Sources``.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from midge.jetstream import errors, headers
from midge.jetstream.json.encode import encode, text
from midge.jetstream.stream import incoming as names
from midge.jetstream.stream.host import StreamHost
from midge.jetstream.stream.incoming import Incoming, Refused

if TYPE_CHECKING:
    from midge.jetstream.store.interface import StoredMessage

_WHOLE = re.compile(r"[+-]?[0-9]{1,4200}")

Sources = dict[str, dict[str, str]]


def apply(stream: StreamHost, message: Incoming) -> None:
    """Turn an increment into the new total of its subject.

    Raises:
        Refused: the stored or the new message is not a counter.
    """
    if message.increment is None:
        if stream.config.allow_msg_counter:
            raise Refused(errors.MESSAGE_INCR_MISSING)
        return
    if not stream.config.allow_msg_counter:
        return
    last = stream.store.load(stream.store.last_for_subject(message.subject))
    total, sources = read(last)
    source = message.value(names.STREAM_SOURCE)
    if source:
        message.increment = _growth(message, source, sources)
        message.headers = headers.replace(
            message.headers, names.INCREMENT, b"%d" % message.increment
        )
    total += message.increment
    set_total(message, total, sources)
    check_size(stream, message)


def check_size(stream: StreamHost, message: Incoming) -> None:
    """Refuse a total that has become too long; raises Refused."""
    limit = stream.config.max_msg_size
    limit = stream.max_payload if limit < 0 else min(limit, stream.max_payload)
    if len(message.headers) + len(message.payload) > limit:
        raise Refused(errors.STREAM_MESSAGE_EXCEEDS_MAXIMUM)


def read(last: StoredMessage | None) -> tuple[int, Sources]:
    """Return the total in a stored message, and the totals of its source streams.

    Raises:
        Refused: the message is not a counter.
    """
    if last is None:
        return 0, {}
    total = _value(last.payload)
    given = headers.find(last.headers, names.COUNTER_SOURCES)
    if not given:
        return total, {}
    sources = _object(given)
    return total, {str(name): dict(totals) for name, totals in sources.items()}


def set_total(message: Incoming, total: int, sources: Sources) -> None:
    """Replace the payload with the total."""
    message.counter_value = str(total)
    message.payload = b'{"val":"%d"}' % total
    if sources:
        ordered = {name: dict(sorted(sources[name].items())) for name in sorted(sources)}
        message.headers = headers.replace(message.headers, names.COUNTER_SOURCES, encode(ordered))


def _growth(message: Incoming, source: bytes, sources: Sources) -> int:
    """Return what the total that a sourced message brings has grown by since the one before."""
    fields = text(source).split(" ")
    subject = fields[4] if len(fields) >= 5 else text(message.subject)
    total = _value(message.payload)
    totals = sources.setdefault(fields[0], {})
    before = totals.get(subject, "0")
    totals[subject] = str(total)
    return total - (int(before) if _WHOLE.fullmatch(before) else 0)


def _value(payload: bytes) -> int:
    value = _object(payload).get("val", "")
    if not isinstance(value, str):
        raise Refused(errors.MESSAGE_COUNTER_BROKEN)
    return int(value) if _WHOLE.fullmatch(value) else 0


def _object(payload: bytes) -> dict[str, Any]:
    try:
        read = json.loads(payload)
    except (ValueError, RecursionError):
        raise Refused(errors.MESSAGE_COUNTER_BROKEN) from None
    if not isinstance(read, dict):
        raise Refused(errors.MESSAGE_COUNTER_BROKEN)
    return read
