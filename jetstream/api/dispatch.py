"""Find the request for a subject, and make the checks that all requests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from midge.jetstream import errors
from midge.jetstream import headers as header_block
from midge.jetstream.account.account import JetStreamAccount
from midge.jetstream.api import consumers, messages, streams
from midge.jetstream.api.call import Call, Family
from midge.jetstream.config.versions import is_known_level
from midge.jetstream.errors import ApiError, JetStreamError
from midge.jetstream.json.encode import encode, text
from midge.jetstream.json.structure import is_empty_request

PREFIX = b"$JS.API."
_PREFIX_SIZE = len(PREFIX)  # a C number where this is compiled
_REQUIRED_LEVEL = b"Nats-Required-Api-Level"


def account_info(call: Call) -> None:
    """INFO: report the account's usage and limits."""
    call.answer(call.account.info())


ACCOUNT_INFO = Family("account_info_response", account_info)


def find(tokens: list[str]) -> Family | None:
    """Return the family of the request with these tokens behind ``$JS.API``, or None."""
    if len(tokens) < 2:
        return ACCOUNT_INFO if tokens[0] == "INFO" else None
    if tokens[0] == "CONSUMER":
        return consumers.find(tokens)
    return _find_stream(tokens) if tokens[0] == "STREAM" else None


def _find_stream(tokens: list[str]) -> Family | None:
    second = tokens[1]
    if second in {"NAMES", "LIST"}:
        return streams.FAMILIES[second] if len(tokens) == 2 else None
    if len(tokens) == 3:
        return streams.FAMILIES.get(second)
    if len(tokens) != 4:
        return None
    if second == "MSG":
        return messages.FAMILIES.get(tokens[2])
    if second == "LEADER" and tokens[2] == "STEPDOWN":
        return streams.LEADER_STEPDOWN
    return streams.PEER_REMOVE if second == "PEER" and tokens[2] == "REMOVE" else None


def handle(
    account: JetStreamAccount,
    subject: bytes,
    headers: bytes,
    body: bytes,
    respond: Callable[..., object],
    client: Callable[[], dict[str, Any]] = dict,
) -> bool:
    """Answer a request to `subject`, which begins with ``$JS.API.``, by calling `respond`.

    `respond` gets the answer, and with some answers a header block. `client` returns the
    description of the requester. The call may come later, once the change is durable.

    Returns:
        False if the request is unknown and gets no answer.
    """
    tokens = subject[_PREFIX_SIZE:].decode("utf-8", "surrogateescape").split(".")  # like `text`
    family = find(tokens)
    if family is None:
        return False
    call = Call(account, family, tokens, headers, body, respond, client)
    try:
        _check(call)
        family.handle(call)
    except JetStreamError as error:
        call.refuse(error.api)
    return True


def refuse(subject: bytes, error: ApiError) -> bytes | None:
    """Return the answer that refuses a request, for example while JetStream is off, or None."""
    family = find(text(subject[len(PREFIX) :]).split("."))
    if family is None:
        return None
    return encode({"type": family.type, "error": error.fields(), **family.with_error})


def _check(call: Call) -> None:
    """Refuse a request that requires a newer API, or that has an unexpected body."""
    if call.headers:
        level = header_block.find(call.headers, _REQUIRED_LEVEL)
        if level and not is_known_level(text(level)):
            raise errors.REQUIRED_API_LEVEL.error()
    if not call.family.takes_body and not is_empty_request(call.body):
        raise errors.NOT_EMPTY_REQUEST.error()
