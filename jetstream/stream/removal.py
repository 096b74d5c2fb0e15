"""Removals that would take long, done in pieces, a piece a turn: wildcard purges, lowered limits.

Nothing that is stored meanwhile is removed but by the limits, and the request is answered behind
the last piece. A crash in between leaves what the pieces before it have left.
"""

from __future__ import annotations

from collections.abc import Callable

from midge.jetstream import errors
from midge.jetstream.errors import ApiError
from midge.jetstream.store import lookups
from midge.jetstream.store.store import Store
from midge.jetstream.stream.contents import Contents
from midge.jetstream.stream.host import StreamHost
from midge.jetstream.stream.pieces import Pieces, in_turns

PIECE_MESSAGES = 100_000
"""Messages looked at in one piece: some 5 ms, at up to 50 ns for one with a subject of its own."""

PIECE_TRIMMED = 5_000
"""Messages removed one by one in one piece: some 5 ms, at 0.3 us each and 1 with consumers."""


def purge_now(stream: StreamHost, subject: bytes | None, upto_seq: int, keep: int) -> int:
    """Remove messages of a subject, below a sequence, but the newest; return how many."""
    if subject == b">" and not keep:
        subject = None
    stream.save_origins()
    return stream.contents.purge(subject, upto_seq, keep)


def purge(
    stream: StreamHost,
    subject: bytes | None,
    upto_seq: int,
    keep: int,
    done: Callable[[int], object],
    refused: Callable[[ApiError], object],
) -> None:
    """Purge as `purge_now` does; `done` is called with the number of removed messages.

    A small stream is purged at once. `refused` is called if the stream is deleted before the end,
    or its store fails.
    """
    store = stream.store
    is_simple = not keep and upto_seq <= 1 and subject in (None, b">")
    if is_simple or store.messages <= PIECE_MESSAGES:
        done(purge_now(stream, subject, upto_seq, keep))
        return
    pieces = _purging(stream, subject, upto_seq, keep)
    in_turns(stream, pieces, done, refused, errors.STREAM_PURGE_FAILED)


def enforce(stream: StreamHost) -> None:
    """Remove the messages beyond the limits, after these were lowered.

    A large stream is trimmed in pieces; `when_enforced` waits for the end. Until then a publish
    does not enforce the limits itself beyond its own message, because it would do all the rest at
    once.
    """
    contents = stream.contents
    contents.enforcing += 1
    number = contents.enforcing
    pieces = _enforcing(contents, number)
    if stream.store.messages <= PIECE_MESSAGES:
        for _ in pieces:
            pass
        _enforced(contents, number)
        return
    contents.is_enforcing = True

    def done(_: object) -> None:
        _enforced(contents, number)

    in_turns(stream, pieces, done, done)


def when_enforced(contents: Contents, callback: Callable[[], object]) -> None:
    """Call back as soon as the limits hold."""
    if contents.is_enforcing:
        contents.waiting.append(callback)
    else:
        callback()


def _purging(stream: StreamHost, subject: bytes | None, upto_seq: int, keep: int) -> Pieces[int]:
    """Purge in pieces; return how many messages have gone.

    With `keep` the newest at the end of it are kept, of those that match then. The last piece is
    an ordinary purge.
    """
    store = stream.store
    upto = min(upto_seq or store.last_seq + 1, store.last_seq + 1)
    ends = _ends(store, upto)
    if keep:
        ends = yield from _whole(store, subject, keep, ends)
    stream.save_origins()
    purged = 0
    for end in ends[:-1] if not keep else ends:
        purged += store.purge(subject, end, 0)
        stream.contents.account()
        yield
    return purged + purge_now(stream, subject, upto_seq if keep or upto_seq else upto, keep)


def _ends(store: Store, upto: int) -> list[int]:
    """Return where pieces end that together are all messages below `upto`."""
    ends = [store.seq_after(store.first_seq, PIECE_MESSAGES)]
    while ends[-1] < upto:
        ends.append(store.seq_after(ends[-1], PIECE_MESSAGES))
    ends[-1] = upto
    return ends


def _whole(store: Store, subject: bytes | None, keep: int, ends: list[int]) -> Pieces[list[int]]:
    """Return the ends of those pieces behind which at least `keep` messages match."""
    filters = () if subject is None else (subject,)
    left = 0
    for i in range(len(ends) - 1, 0, -1):
        left += store.count_pending(filters, ends[i - 1], False, ends[i] - 1)
        if left >= keep:
            return ends[:i]
        yield
    return []


def _enforcing(contents: Contents, number: int) -> Pieces[int]:
    """Remove the messages beyond the limits in pieces; a later change of the limits ends it.

    As in nats-server the stream's limits come first, and then the limit of each subject: if both
    are lowered, fewer messages than either allows may be left.
    """
    store = contents.store
    while contents.enforce_some(PIECE_MESSAGES):
        yield
        if contents.enforcing != number:
            return 0
    at = 0
    while at >= 0 and contents.max_per_subject > 0:
        crowded, at = lookups.subjects_over_limit(
            store, contents.max_per_subject, at, PIECE_MESSAGES
        )
        yield from _trimming(contents, crowded, number)
        yield
        if contents.enforcing != number:
            return 0
    contents.trimmed()
    return 0


def _trimming(contents: Contents, crowded: list[bytes], number: int) -> Pieces[None]:
    """Remove the oldest messages of subjects that have more than they may."""
    room = PIECE_TRIMMED
    for subject in crowded:
        limit = contents.max_per_subject
        surplus = contents.store.count_for_subject(subject) - limit
        while surplus > 0 and contents.enforcing == number:
            gone = min(surplus, room)
            surplus -= gone
            room -= gone
            contents.trim_to(subject, limit + surplus)
            if not room:
                contents.account()
                room = PIECE_TRIMMED
                yield


def _enforced(contents: Contents, number: int) -> None:
    """Tell those that wait for it, unless the limits have been changed again."""
    if contents.enforcing != number:
        return
    contents.is_enforcing = False
    waiting, contents.waiting = contents.waiting, []
    for callback in waiting:
        callback()
