"""Work of a stream that would take long, done in pieces: a piece of all that waits in each turn."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from midge.jetstream import errors
from midge.jetstream.errors import ApiError
from midge.jetstream.store.interface import StoreError
from midge.jetstream.stream.host import StreamHost

Result = TypeVar("Result")
Pieces = Generator[None, None, Result]
"""Does a piece, of up to some 5 ms, until each ``yield``; what it returns is the result."""


def in_turns(
    stream: StreamHost,
    pieces: Pieces[Result],
    done: Callable[[Result], object],
    refused: Callable[[ApiError], object],
    failure: ApiError = errors.STREAM_STORE_FAILED,
) -> None:
    """Do the first piece now and the others in later turns; `done` is told the result.

    `refused` is called if the stream is deleted before the end, or, with `failure`, if its store
    fails.
    """

    def go_on() -> bool:
        if stream.is_closed:
            refused(errors.STREAM_NOT_FOUND)
            return False
        try:
            next(pieces)
        except StopIteration as end:
            done(end.value)
            return False
        except StoreError as error:
            refused(failure.fill(err=error))
            return False
        return True

    if go_on():
        stream.surroundings.turns.add(go_on)
