"""All that a store directory knows, to be compared between two ways of opening it."""

from __future__ import annotations

from typing import Any

from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.file.file_store import FileStore

State = dict[bytes, dict[str, Any]]


def state_of(directory: StoreDirectory) -> State:
    """Return what the streams of a directory and its segments are, without their mere traces."""
    state: State = {stream.name: stream_state(stream) for stream in directory.streams()}
    state[b""] = {
        "segments": {
            one.number: (
                one.end, one.live_bytes, one.holds_more, one.is_rewritten,
                one.purged_group,
            )
            for one in directory.log.segments
            if one.end
        },
        "group": directory.log.group,
    }  # fmt: skip
    return state


def stream_state(stream: FileStore) -> dict[str, Any]:
    """Return what a stream is: its counts, messages, chains, and all that is kept beside them.

    The time of the last message is left out: of one that was erased the log has none.
    """
    messages = {}
    seq = stream.next_seq((), 1)
    while seq:
        message = stream.load(seq)
        assert message is not None, seq
        parts = (message.time_ns, message.subject, message.headers, message.payload)
        messages[seq] = (*parts, stream.size_of(seq), stream.time_of(seq))
        seq = stream.next_seq((), seq + 1) if seq < stream.last_seq else 0
    subjects = {}
    for subject in {message[1] for message in messages.values()}:
        chain = []
        seq = stream.next_seq((subject,), 1)
        while seq:
            chain.append(seq)
            seq = stream.next_seq((subject,), seq + 1) if seq < stream.last_seq else 0
        subjects[subject] = (
            stream.count_for_subject(subject),
            stream.first_for_subject(subject),
            stream.last_for_subject(subject),
            chain,
        )
    return {
        "number": stream.number,
        "version": stream.version,
        "account": stream.account,
        "config": stream.config(),
        "counts": (
            stream.first_seq if stream.messages else 0, stream.last_seq, stream.visible_seq,
            stream.messages, stream.bytes,
            stream.subject_count, stream.first_time_ns(),
        ),
        "messages": messages,
        "subjects": subjects,
        "ids": list(stream.ids()),
        "ttls": list(stream.ttls()),
        "consumers": sorted(stream.consumers()),
        "lost": set(stream.lost),
        "configured_in": stream.records.configured_in,
    }  # fmt: skip


def differences(one: State, other: State) -> list[str]:
    """Name what differs between two states, and show it as far as that is short."""
    return [
        f"{name!r} {field}: {one.get(name, {}).get(field)!r:.300}"
        f" and {other.get(name, {}).get(field)!r:.300}"
        for name in sorted({*one, *other})
        for field in sorted({*one.get(name, {}), *other.get(name, {})})
        if one.get(name, {}).get(field) != other.get(name, {}).get(field)
    ]
