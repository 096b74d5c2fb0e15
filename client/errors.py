"""Errors of the NATS client and its commands, one class per action that a user can take.

MidgeError
+-- ClientError                root of the errors that the client raises on purpose
    +-- OptionError            an option or an argument has no meaning
    +-- ServerError            the NATS server cannot be reached or ended the connection
    |   +-- AuthorizationError it refused the credentials, or a permission is missing
    |   +-- NoAnswerError      a request got no answer in time
    +-- StreamError            JetStream refused a request
    |   +-- StreamNotFoundError
    +-- DataLossError          messages that were asked for have been removed
"""

import ssl

from midge.protocol.errors import MidgeError


class ClientError(MidgeError):
    """Root of the errors that the client raises on purpose."""


class OptionError(ClientError):
    """An invalid option; the text names the option and the expected value."""


class ServerError(ClientError):
    """The server could not be reached, broke the connection or did not speak NATS."""


class AuthorizationError(ServerError):
    """The server refused the credentials, or the user lacks a permission."""


class NoAnswerError(ServerError):
    """A request got no answer within the time for it, `timeout_s`."""

    def __init__(self, asked: str, timeout_s: float) -> None:
        super().__init__(f"{asked}: no answer within {timeout_s:g} s")
        self.timeout_s = timeout_s

    def __reduce__(self) -> tuple[type["ServerError"], tuple[str]]:
        """Become a ServerError with the same text between Spark's processes."""
        return ServerError, (str(self),)


class StreamError(ClientError):
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


class DataLossError(ClientError):
    """Messages between the last offset and the next are gone, or the stream was recreated."""


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
