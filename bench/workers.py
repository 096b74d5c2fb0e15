"""Processes of the load generator: forked, asked over a pipe, measured and dismissed."""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import Any

from bench import procfs, wire
from bench.metrics import ScenarioError

STALL_TIMEOUT_S = 20.0
"""Longest time without progress before a scenario fails."""

_fork = multiprocessing.get_context("fork")


class Worker:
    """A forked process that runs `target(pipe, *args)`, and our end of the pipe."""

    def __init__(self, name: str, target: Callable[..., None], *args: object) -> None:
        self.name = name
        self.pipe, theirs = _fork.Pipe()
        self._process: ForkProcess = _fork.Process(
            target=_work, args=(target, theirs, *args), daemon=True
        )
        self._process.start()
        theirs.close()

    def ask(self, request: object) -> None:
        """Send a request."""
        self.pipe.send(request)

    def answer(self, within_s: float = STALL_TIMEOUT_S) -> Any:
        """Return the worker's next answer.

        Raises:
            ScenarioError: it met an error, or does not answer for too long.
        """
        try:
            if not self.pipe.poll(within_s):
                raise ScenarioError(f"{self.name}: nothing has happened for {within_s:g} s")
            answer = self.pipe.recv()
        except EOFError:
            raise ScenarioError(f"{self.name} ended early") from None
        if isinstance(answer, ScenarioError):
            raise answer
        return answer

    def raise_failure(self) -> None:
        """Raise an error that the worker has met since the last answer.

        Raises:
            ScenarioError: it met an error.
        """
        if self.pipe.poll():
            self.answer()

    def cpu_s(self) -> float:
        """Return the CPU time that the process has used so far."""
        assert self._process.pid is not None
        return procfs.cpu_s(self._process.pid)

    def dismiss(self) -> None:
        """End the process and wait until it is gone."""
        self._process.kill()
        self._process.join()
        self.pipe.close()


@contextmanager
def staff() -> Iterator[list[Worker]]:
    """Yield a list for workers; all of them are dismissed when the block ends."""
    workers: list[Worker] = []
    try:
        yield workers
    finally:
        for worker in workers:
            worker.dismiss()


def _work(target: Callable[..., None], pipe: Connection, *args: object) -> None:
    try:
        target(pipe, *args)
    except (OSError, wire.WireError, ScenarioError) as error:
        pipe.send(ScenarioError(f"{type(error).__name__}: {error}"))
