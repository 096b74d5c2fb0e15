"""The process that a server starts for its tables.

It reads the tables from standard input, a JSON document a line, each in place of the one before,
and writes a line to standard output when the state of a table has changed. It lands all tables a
last time and ends at the end of its input, and at SIGTERM or SIGINT.
"""

import json
import logging
import os
import select
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from midge.pipeline.tables import serving
from midge.pipeline.tables.serving import Job, TableServer, TableTask

STOP_S = 10.0
"""A server waits a little longer than this for its worker."""
_LOOK_S = 0.2
_READ_BYTES = 1 << 16


def work(stop_asked: Callable[[], bool]) -> NoReturn:
    """Serve until the server, or `stop_asked`, ends it; then exit."""
    # The server logs the errors that it gets reports of.
    logging.getLogger(serving.__name__).setLevel(logging.CRITICAL)
    tables = TableServer()
    sent: dict[str, dict[str, Any]] = {}
    lines = _Lines(sys.stdin.fileno())
    while not (stop_asked() or lines.is_at_end):
        for line in lines.read(_LOOK_S):
            tables.change({one["name"]: _job(one) for one in json.loads(line)["tables"]})
            sent.clear()
        _report(tables, sent)
    tables.stop(STOP_S)
    _report(tables, sent)
    os._exit(0)  # a table that hangs cannot be waited for


class _Lines:
    """The lines of a file descriptor."""

    def __init__(self, number: int) -> None:
        self.is_at_end = False
        self._number = number
        self._rest = b""

    def read(self, timeout_s: float) -> list[bytes]:
        """Return the whole lines that came within a time."""
        ready, _, _ = select.select([self._number], [], [], timeout_s)
        if not ready:
            return []
        read = os.read(self._number, _READ_BYTES)
        self.is_at_end = not read
        *lines, self._rest = (self._rest + read).split(b"\n")
        return lines


def _job(given: Mapping[str, Any]) -> Job:
    known = {name: given[name] for name in Job._fields if name in given}
    return Job(**known | {"partition_by": tuple(given.get("partition_by", ()))})


def _report(tables: TableServer, sent: dict[str, dict[str, Any]]) -> None:
    for name, task in tables.tasks.items():
        state = _state(task)
        if state != sent.get(name):
            sent[name] = state
            try:
                sys.stdout.write(json.dumps({"name": name, **state}) + "\n")
                sys.stdout.flush()
            except BrokenPipeError:
                return  # the server has ended, and its end of our input says so


def _state(task: TableTask) -> dict[str, Any]:
    done = task.landed
    return {
        "rows": done.rows,
        "quarantined": done.quarantined,
        "lost": done.lost,
        "commits": done.commits,
        "position": done.position,
        "runs": task.runs,
        "error": task.error,
    }
