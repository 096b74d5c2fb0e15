"""Which worker gets the next connection, and how many each has."""

from __future__ import annotations


class WorkerLoad:
    """The load of one worker, as the parent knows it.

    A worker reports how many connections it has, and how many it had been handed when it counted.
    The parent adds those that it has handed over since.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.is_ready = False
        self.handed = 0
        self._counted = 0
        self._open = 0

    def load(self) -> int:
        """Return the number of connections that the worker has, or is about to have."""
        return self._open + self.handed - self._counted

    def count(self, received: int, open_now: int) -> None:
        """Take a worker's report: `open_now` connections after `received` handovers."""
        self._counted = received
        self._open = open_now

    def reset(self) -> None:
        """Reset the counts of a worker that has ended with its connections."""
        self.is_ready = False
        self.handed = self._counted = self._open = 0


class Balancer:
    """The workers, by their loads."""

    def __init__(self, count: int) -> None:
        self.workers = [WorkerLoad(index) for index in range(count)]

    def by_load(self) -> list[WorkerLoad]:
        """List the workers that take connections, the least loaded first.

        Of workers with as many connections, the one that has been handed fewest comes first.
        """
        ready = [worker for worker in self.workers if worker.is_ready]
        return sorted(ready, key=lambda worker: (worker.load(), worker.handed, worker.index))

    def load(self) -> int:
        """Return the number of connections of all workers."""
        return sum(worker.load() for worker in self.workers)
