"""Repeat an operation on copies of a table, with a disk that is full after 0, 1, 2, … writes.

`python -m tests.pipeline.tables.filling LIBRARY TABLE OPERATION [ARGUMENT...]`, with the library of
kill_points.c preloaded. Copy number n is the table's URL with n behind it. Each output line says in
JSON what the operation wrote, up to the one that had room enough. An operation is a command of
`midge`, in which TABLE is replaced by the copy's URL, or `land` with a server's URL.
"""

import contextlib
import ctypes
import io
import json
import shutil
import sys
import tempfile
from pathlib import Path

from midge import cli
from midge.pipeline.errors import TableError
from midge.pipeline.tables.table_handle import QUARANTINE_SUFFIX
from midge.tables import land

WRITES_MAX = 60


def main(library, url, *operation):
    """Run the operation until the disk had room."""
    full_disk = ctypes.CDLL(library).full_disk
    full_disk.argtypes = [ctypes.c_long]
    tempfile.gettempdir()  # Python finds it by writing, and does not say why it cannot
    for writes in range(WRITES_MAX):
        copy = f"{url}{writes}"
        for suffix in ("", QUARANTINE_SUFFIX):
            if Path(url + suffix).exists():
                shutil.copytree(url + suffix, copy + suffix)
        full_disk(writes)
        try:
            said = done(copy, *operation)
        finally:
            full_disk(-1)
        print(json.dumps(said), flush=True)
        if not said:
            return
    raise AssertionError(f"{WRITES_MAX} writes were not enough")


def done(copy, name, *words):
    """Return the lines with which the operation fails on a copy; none where it does not."""
    if name == "land":
        try:
            land(copy, *words)
        except TableError as error:
            return str(error).splitlines()
        return []
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        code = cli.main([name, *(copy if word == "TABLE" else word for word in words)])
    return text.getvalue().splitlines() if code else []


if __name__ == "__main__":
    main(*sys.argv[1:])
