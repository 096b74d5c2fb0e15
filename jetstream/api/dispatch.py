"""Find the request for a subject, and hand it to its handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from midge.jetstream import errors
from midge.jetstream.account.account import JetStreamAccount
from midge.jetstream.api import consumers, messages, streams
from midge.jetstream.api.call import ApiCall, Family, always
from midge.jetstream.errors import JetStreamError
from midge.jetstream.store.interface import StoreError

PREFIX = b"$JS.API."
_PREFIX_SIZE = len(PREFIX)  # a C number where this is compiled


def account_info(call: ApiCall) -> None:
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
    is_wanted: Callable[[], bool] = always,
) -> bool:
    """Answer a request to `subject`, which begins with ``$JS.API.``, by calling `respond`.

    `respond` gets the answer, and with some answers a header block. `client` returns the
    description of the requester, and `is_wanted` returns False once no subscription takes the
    answer. The call may come later, once the change is durable.

    Returns:
        False if the request is unknown and gets no answer.
    """
    tokens = subject[_PREFIX_SIZE:].decode("utf-8", "surrogateescape").split(".")  # like `text`
    family = find(tokens)
    if family is None:
        return False
    call = ApiCall(account, family, tokens, headers, body, respond, client, is_wanted)
    try:
        if family.is_checked:
            call.check()
        family.handle(call)
    except JetStreamError as error:
        call.refuse(error.api)
    except StoreError as error:
        call.refuse(errors.STREAM_STORE_FAILED.fill(err=error))
    return True
