"""Keep tables up to date: each in a thread of its own, so that one that hangs holds up no other."""

import logging
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple

from midge.pipeline.delta import KEEP_HOURS
from midge.pipeline.tables.landing import Landed, Server, create_table, land
from midge.pipeline.tables.table_handle import LOCK_WAIT_S, TableHandle, locked

EVERY_S = 60.0
_BACK_OFF_S = 1.0
_BACK_OFF_MAX_S = 60.0

_log = logging.getLogger(__name__)


class Job(NamedTuple):
    """A table to keep up to date. With a stream, the table is made where there is none."""

    url: str
    server: Server
    every_s: float = EVERY_S
    """The time between two landings."""
    stream: str = ""
    subject: str = ""
    columns: Mapping[str, str] | None = None
    infer: bool = False
    partition_by: tuple[str, ...] = ()
    consumer: str = ""
    compact_commits: int = 0
    """Commits after which small files are joined; 0 means never."""
    keep_hours: float = KEEP_HOURS
    """How long compaction keeps the files of earlier versions."""


class TableTask:
    """Lands one table again and again until it is stopped.

    A table that fails is tried again after 1 s, 2 s, 4 s and so on, up to 60 s; each new reason is
    logged once.
    """

    def __init__(self, name: str, job: Job, before: "TableTask | None" = None) -> None:
        """Take the table; `start` begins it, once the task `before` of the same table has ended."""
        self.name = name
        self.job = job
        self.landed = Landed()
        """The rows landed since the start, and the table's position."""
        self.error = ""
        """The reason why the table cannot be landed now."""
        self.runs = 0
        """The landings that succeeded."""
        self._before = before
        self._is_made = not job.stream
        self._uncompacted = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)

    def start(self) -> None:
        """Start to land."""
        self._thread.start()

    def stop(self) -> None:
        """Land a last time, and end."""
        self._stopped.set()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the end."""
        self._thread.join(timeout_s)

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended yet."""
        return self._thread.is_alive()

    def _serve(self) -> None:
        if self._before is not None:
            self._before.join()
            self._before = None
        back_off_s = _BACK_OFF_S
        is_last = False
        while not is_last:
            is_last = self._stopped.is_set()
            if self._try():
                pause_s, back_off_s = self.job.every_s, _BACK_OFF_S
            else:
                pause_s, back_off_s = back_off_s, min(2 * back_off_s, _BACK_OFF_MAX_S)
            if not is_last:
                self._stopped.wait(pause_s)

    def _try(self) -> bool:
        try:
            self._land()
        except Exception as error:  # noqa: BLE001 - of one table; the others go on
            if self.error != str(error):
                _log.warning("%s: not landed: %s", self.name, error)
            self.error = str(error) or repr(error)
            return False
        if self.error:
            _log.warning("%s: landed again", self.name)
        self.error = ""
        self.runs += 1
        return True

    def _land(self) -> None:
        job = self.job
        if not self._is_made:
            create_table(
                job.url,
                job.stream,
                job.server,
                columns=job.columns,
                infer=job.infer,
                subject=job.subject,
                partition_by=job.partition_by,
                consumer=job.consumer,
            )
            self._is_made = True
        done = land(job.url, job.server)
        total = self.landed
        total.rows += done.rows
        total.quarantined += done.quarantined
        total.lost += done.lost
        total.commits += done.commits
        total.position = done.position
        self._uncompacted += done.commits
        if job.compact_commits and self._uncompacted >= job.compact_commits:
            with locked(job.url, LOCK_WAIT_S):
                TableHandle(job.url).compact(job.keep_hours)
            self._uncompacted = 0


class TableServer:
    """Keeps several tables up to date until it is stopped."""

    def __init__(self) -> None:
        self.tasks: dict[str, TableTask] = {}
        """The tables by name."""
        self._ending: list[TableTask] = []

    def change(self, jobs: Mapping[str, Job]) -> None:
        """Serve these tables from now on; those removed or changed are landed once more."""
        ending: dict[str, TableTask] = {}
        for name, task in list(self.tasks.items()):
            if jobs.get(name) != task.job:
                task.stop()
                ending[name] = self.tasks.pop(name)
        for name, job in jobs.items():
            if name not in self.tasks:
                self.tasks[name] = TableTask(name, job, ending.get(name))
                self.tasks[name].start()
        ended = [*self._ending, *ending.values()]
        self._ending = [task for task in ended if task.is_alive]

    def stop(self, timeout_s: float) -> list[str]:
        """Land each table a last time; return the tables that did not end in time."""
        for task in self.tasks.values():
            task.stop()
        tasks = [*self.tasks.values(), *self._ending]
        deadline = time.monotonic() + timeout_s
        for task in tasks:
            task.join(max(0.0, deadline - time.monotonic()))
        return [task.name for task in tasks if task.is_alive]
