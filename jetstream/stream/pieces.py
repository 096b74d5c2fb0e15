"""Work of a stream that would take long, done in pieces: a piece of all that waits in each turn."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic, Protocol, TypeVar

from midge.jetstream import errors
from midge.jetstream.environment.surroundings import Surroundings
from midge.jetstream.errors import ApiError
from midge.jetstream.store.interface import StoreError
from midge.jetstream.store.store import Store

Result = TypeVar("Result")

_TRIES = 8
"""Most waits for the time of a first message; each fetches 1 MiB from it on."""


class PieceOwner(Protocol):
    """The owner of work done in pieces: a stream, or an account for all of its streams."""

    @property
    def is_closed(self) -> bool:
        """Return whether it has been deleted, which cancels its work."""

    @property
    def surroundings(self) -> Surroundings:
        """Return the surroundings, which have the turns."""


class PendingFetch:
    """A message that is fetched from the disk, and the work that waits for it."""

    __slots__ = ("_then",)

    def __init__(self) -> None:
        self._then: Callable[[], object] | None = None

    def fetched(self) -> None:
        """Continue the waiting work."""
        then, self._then = self._then, None
        if then is not None:
            then()

    def then(self, callback: Callable[[], object]) -> None:
        """Call `callback` once the message is there."""
        self._then = callback


Pieces = Generator[None, None, Result]
"""Does a piece, of up to some 5 ms, until each ``yield``; what it returns is the result."""

WaitingPieces = Generator[PendingFetch | None, None, Result]
"""The same where the next piece may have to wait: for the fetch that is yielded."""


def until_cached(store: Store, seq: int, fetch: PendingFetch | None = None) -> WaitingPieces[None]:
    """Wait until a message can be loaded without waiting for a disk.

    It may be that it is already being fetched for `fetch`.
    """
    fetch = fetch or PendingFetch()
    while not store.is_cached(seq, fetch):
        yield fetch


def until_time_cached(store: Store, seq: int, fetch: PendingFetch) -> WaitingPieces[None]:
    """Wait until the time of a message can be read without waiting for a disk."""
    while not store.is_time_cached(seq, fetch):
        yield fetch


def until_first_time(store: Store) -> WaitingPieces[None]:
    """Wait until the time of the first message can be read without waiting for a disk.

    After `_TRIES` waits it ends even if the first message has changed each time.
    """
    fetch = PendingFetch()
    for _ in range(_TRIES):
        if store.is_first_time_cached(fetch):
            break
        yield fetch


def in_turns(
    owner: PieceOwner,
    pieces: WaitingPieces[Result],
    done: Callable[[Result], object],
    refused: Callable[[ApiError], object],
    failure: ApiError = errors.STREAM_STORE_FAILED,
    is_wanted: Callable[[], bool] = lambda: True,
) -> None:
    """Do the first piece now, if there is time, and the others later; `done` gets the result.

    Nothing but the pieces waits for what they wait for. They end when `is_wanted` returns False, as
    when the requester has gone: `done` and `refused` are not called then.

    `refused` is called if their owner, a stream, is deleted before the end, or, with `failure`, if
    its store fails. Nothing is called, and no further piece is done, once `is_wanted` returns
    False, because the requester has gone.
    """
    work = _Work(owner, pieces, done, refused, failure, is_wanted)
    owner.surroundings.turns.start(work.go_on)


class _Work(Generic[Result]):
    """Work that `in_turns` has begun; nothing of it refers to itself once it has ended."""

    __slots__ = ("_done", "_failure", "_is_begun", "_is_wanted", "_owner", "_pieces", "_refused")

    def __init__(
        self,
        owner: PieceOwner,
        pieces: WaitingPieces[Result],
        done: Callable[[Result], object],
        refused: Callable[[ApiError], object],
        failure: ApiError,
        is_wanted: Callable[[], bool],
    ) -> None:
        self._owner = owner
        self._pieces = pieces
        self._done = done
        self._refused = refused
        self._failure = failure
        self._is_wanted = is_wanted
        self._is_begun = False

    def go_on(self) -> bool:
        """Do a piece; return whether the next one may follow at once."""
        if self._is_begun and not self._is_wanted():
            self._pieces.close()
            return False
        self._is_begun = True
        if self._owner.is_closed:
            self._refused(errors.STREAM_NOT_FOUND)
            return False
        if not self._is_wanted():
            self._pieces.close()
            return False
        try:
            fetch = next(self._pieces)
        except StopIteration as end:
            self._done(end.value)
            return False
        except StoreError as error:
            self._refused(self._failure.fill(err=error))
            return False
        if fetch is not None:
            fetch.then(self._go_on_later)
        return fetch is None

    def _go_on_later(self) -> None:
        self._owner.surroundings.turns.add(self.go_on)
