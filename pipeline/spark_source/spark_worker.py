"""Run in Spark's Python workers: errors of one line, and no trace when Spark stops reading."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from midge.protocol.errors import MidgeError

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_Item = TypeVar("_Item")


def is_spark_worker() -> bool:
    """Return whether Spark started this process to run Python for it."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return getattr(spec, "name", "").startswith("pyspark.")


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Make Spark show an error of ours without a traceback before it.

    Spark looks for the variable when an exception has left the worker's code, and then ends the
    process: no other error is concerned.
    """
    try:
        yield
    except MidgeError:
        if is_spark_worker():
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def plain_errors(
    method: Callable[_Arguments, _Result],
) -> Callable[_Arguments, _Result]:
    """Return `method` for Spark to call: its errors are one line."""

    @wraps(method)
    def called(*args: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
        with _plain_errors():
            return method(*args, **options)

    return called


def handed_to_spark(items: Iterator[_Item]) -> Iterator[_Item]:
    """Yield the items to the worker that writes them to Spark.

    When a query has a limit, Spark closes the socket in the middle. Python would raise a broken
    pipe and the worker print its traceback; while Spark has an item, the signal ends the process
    instead, as it does other programs. Our own sockets are not written to meanwhile.
    """
    with _plain_errors():
        for item in items:
            if is_spark_worker() and hasattr(signal, "SIGPIPE"):
                before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
                yield item
                signal.signal(signal.SIGPIPE, before)
            else:
                yield item
