"""Work of a stream that would take long, done in pieces: a piece of all that waits in each turn."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol, TypeVar

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


class Arrival:
    """A message that is fetched from the disk, and the work that waits for it."""

    __slots__ = ("_then",)

    def __init__(self) -> None:
        self._then: Callable[[], object] | None = None

    def fetched(self) -> None:
        """Continue the waiting work."""
        if self._then is not None:
            self._then()

    def tell(self, then: Callable[[], object]) -> None:
        """Call `then` once the message is there."""
        self._then = then


Pieces = Generator[None, None, Result]
"""Does a piece, of up to some 5 ms, until each ``yield``; what it returns is the result."""

WaitingPieces = Generator[Arrival | None, None, Result]
"""The same where the next piece may have to wait: for the arrival that is yielded."""


def until_cached(store: Store, seq: int, arrival: Arrival | None = None) -> WaitingPieces[None]:
    """Wait until a message can be loaded without waiting for a disk.

    It may be that it is already being fetched for `arrival`.
    """
    arrival = arrival or Arrival()
    while not store.is_cached(seq, arrival):
        yield arrival


def until_time_cached(store: Store, seq: int, arrival: Arrival) -> WaitingPieces[None]:
    """Wait until the time of a message can be read without waiting for a disk."""
    while not store.is_time_cached(seq, arrival):
        yield arrival


def until_first_time(store: Store) -> WaitingPieces[None]:
    """Wait until the time of the first message can be read without waiting for a disk.

    After `_TRIES` waits it ends even if the first message has changed each time.
    """
    arrival = Arrival()
    for _ in range(_TRIES):
        if store.is_first_time_cached(arrival):
            break
        yield arrival


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
    is_begun = False

    def go_on() -> bool:
        nonlocal is_begun
        if is_begun and not is_wanted():
            pieces.close()
            return False
        is_begun = True
        if owner.is_closed:
            refused(errors.STREAM_NOT_FOUND)
            return False
        if not is_wanted():
            pieces.close()
            return False
        try:
            arrival = next(pieces)
        except StopIteration as end:
            done(end.value)
            return False
        except StoreError as error:
            refused(failure.fill(err=error))
            return False
        if arrival is not None:
            arrival.tell(go_on_later)
        return arrival is None

    def go_on_later() -> None:
        owner.surroundings.turns.add(go_on)

    owner.surroundings.turns.start(go_on)
