"""One request to the API, and its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from midge.jetstream import errors
from midge.jetstream import headers as header_block
from midge.jetstream.config.versions import is_known_level
from midge.jetstream.errors import ApiError, JetStreamError
from midge.jetstream.json import structure, type_names
from midge.jetstream.json.encode import encode, text
from midge.jetstream.store.interface import StoreError
from midge.jetstream.store.store import Store
from midge.jetstream.stream.pieces import PieceOwner, WaitingPieces, in_turns

if TYPE_CHECKING:
    from midge.jetstream.account.account import JetStreamAccount

Result = TypeVar("Result")


BODY_MAX_BYTES = 64 << 10
"""The largest body of a request with no larger limit of its own: such bodies have 100 bytes."""

CONFIG_MAX_BYTES = 8 << 20
"""The largest body of a request with a stream's configuration: 100,000 subjects of 80 bytes."""

_REQUIRED_LEVEL = b"Nats-Required-Api-Level"


def always() -> bool:
    """Return True: the answer is wanted."""
    return True


class Family:
    """One kind of request: the type of its answers, and their members besides an error.

    `head` is the begin of an answer, up to the end of its type.
    """

    def __init__(
        self,
        kind: str,
        handle: Callable[[ApiCall], None],
        with_error: dict[str, Any] | None = None,
        *,
        takes_body: bool = True,
        body_max: int = BODY_MAX_BYTES,
        is_body_first: bool = False,
        is_checked: bool = True,
    ) -> None:
        """Set the parts; with `takes_body` False, a request with a body is refused.

        `body_max` is the size of the largest body in bytes. With `is_body_first`, a wrong body is
        refused with its own error even where the account may not use JetStream. With `is_checked`
        False, the handler calls `Call.check` when it needs to, or not at all.
        """
        self.type = type_names.API + kind
        self.head = encode({"type": self.type})[:-1]
        self.handle = handle
        self.with_error = with_error or {}
        self.takes_body = takes_body
        self.body_max = body_max
        self.is_body_first = is_body_first
        self.is_checked = is_checked


class ApiCall:
    """A request: its subject's `tokens` behind ``$JS.API``, and the requester's description.

    `is_wanted` returns False once no subscription takes the answer any more.
    """

    __slots__ = (
        "_respond",
        "_response",
        "_response_headers",
        "account",
        "body",
        "client",
        "family",
        "headers",
        "is_counted",
        "is_wanted",
        "tokens",
    )

    def __init__(
        self,
        account: JetStreamAccount,
        family: Family,
        tokens: list[str],
        headers: bytes,
        body: bytes,
        respond: Callable[..., object],
        client: Callable[[], dict[str, Any]] = dict,
        is_wanted: Callable[[], bool] = always,
    ) -> None:
        self.client = client
        self.is_wanted = is_wanted
        self.account = account
        self.family = family
        self.tokens = tokens
        self.headers = headers
        self.body = body
        self.is_counted = True
        self._respond = respond
        self._response = b""
        self._response_headers = b""

    def check(self) -> None:
        """Refuse a request that requires a newer API, or has an unexpected body or account.

        Raises:
            JetStreamError: the request is refused.
        """
        if self.headers:
            level = header_block.find(self.headers, _REQUIRED_LEVEL)
            if level and not is_known_level(text(level)):
                raise errors.REQUIRED_API_LEVEL.error()
        if not self.family.is_body_first:
            self.account.require_enabled()
        size, most = len(self.body), self.family.body_max
        if size > most:
            problem = f"a body of {size} bytes is larger than the {most} of this request"
            raise errors.INVALID_JSON.error(err=problem)
        if not self.family.takes_body and not structure.is_empty_request(self.body):
            raise errors.NOT_EMPTY_REQUEST.error()

    def decode(self, kind: structure.Structure, into: Any) -> Any:
        """Read the body into `into`.

        Raises:
            JetStreamError: it cannot be read.
        """
        try:
            return structure.decode(self.body, kind, into, is_strict=self.account.is_strict)
        except structure.JsonProblem as problem:
            raise errors.INVALID_JSON.error(err=problem) from None

    def decode_optional(self, kind: structure.Structure, into: Any) -> Any:
        """Read the body into `into` if it looks like JSON; raises JetStreamError."""
        return self.decode(kind, into) if structure.is_object_or_array(self.body) else into

    def go_on_after(
        self, owner: PieceOwner, pieces: WaitingPieces[Result], work: Callable[[Result], object]
    ) -> None:
        """Call `work` with the result of `pieces`, in a later turn if they take several.

        A JetStreamError or StoreError in `work` refuses the request.
        """

        def done(result: Result) -> None:
            try:
                work(result)
            except JetStreamError as error:
                self.refuse(error.api)
            except StoreError as error:
                self.refuse(errors.STREAM_STORE_FAILED.fill(err=error))

        in_turns(owner, pieces, done, self.refuse)

    def answer(
        self, fields: dict[str, Any], after: Store | None = None, headers: bytes = b""
    ) -> None:
        """Answer; with `after`, wait until everything in that store so far is durable."""
        self.respond(encode({"type": self.family.type, **fields}), after, headers)

    def respond(self, response: bytes, after: Store | None = None, headers: bytes = b"") -> None:
        """Answer with an already encoded response."""
        if self.is_counted:
            self.account.api_total += 1
        self._response = response
        self._response_headers = headers
        if after is None:
            self._give()
        else:
            self.account.unanswered[self] = self.fail
            after.barrier(self._give)

    def fail(self, error: ApiError) -> None:
        """Answer with an error, for the disk has lost what the request changed."""
        self.account.api_errors += 1
        fields = {"type": self.family.type, "error": error.fields(), **self.family.with_error}
        self._respond(encode(fields))

    def _give(self) -> None:
        self.account.unanswered.pop(self, None)
        if self._response_headers:
            self._respond(self._response, self._response_headers)
        else:
            self._respond(self._response)

    def refuse(self, error: ApiError) -> None:
        """Answer with an error."""
        self.account.api_total += 1
        self.account.api_errors += 1
        fields = {"type": self.family.type, "error": error.fields(), **self.family.with_error}
        self._respond(encode(fields))


def clustering_required(_: ApiCall) -> None:
    """Refuse a request that needs a cluster."""
    raise errors.CLUSTER_REQUIRED.error()
