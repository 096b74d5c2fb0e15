"""Messages stored many at once, as from a publisher's buffer."""

from __future__ import annotations

from midge.jetstream.store.published import PublishedLines
from midge.jetstream.store.store import Store


def store_lines(store: Store, messages: list[tuple[bytes, bytes]], time_ns: int) -> int:
    """Store the first of `messages`, subjects and payloads, at once; return how many were taken."""
    data = bytearray(b"+OK\r\n")
    start = len(data)
    for subject, payload in messages:
        data += b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload)
    data += b"PING\r\nPING\r\n"  # a short line is not looked at before some bytes follow it
    epoch = store.begin_epoch()
    for subject, _ in messages:
        store.remember_subject(subject, 0, len(subject), epoch)
    lines = PublishedLines()
    stored, position = 0, start
    while lines.find(data, position, len(data), 4096, -1):
        found = lines.count
        assert 0 < found <= 128
        kept = store.resolve_lines(lines, epoch)
        taken = store.append_lines(lines, time_ns) if kept else 0
        stored += taken
        position = lines.end_of(taken)
        if taken < found:
            break
    return stored
