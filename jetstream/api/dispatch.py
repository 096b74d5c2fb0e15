"""Which request is meant by a subject, and the checks that all of them share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from midge.jetstream import errors
from midge.jetstream.account import JetStreamAccount
from midge.jetstream.api import consumers, messages, streams
from midge.jetstream.api.call import Call, Family
from midge.jetstream.config.versions import is_known_level
from midge.jetstream.errors import ApiError, JetStreamError
from midge.jetstream.json.encode import encode, text
from midge.jetstream.json.structure import is_empty_request
from midge.jetstream.stream import headers as header_block

if TYPE_CHECKING:
    from midge.jetstream.consumer.consumer import Consumer

PREFIX = b"$JS.API."
_REQUIRED_LEVEL = b"Nats-Required-Api-Level"
_LEVEL_REQUIRED = b"NATS/1.0 412 Required Api Level\r\n\r\n"
_SECOND_FORMAT_TOKENS = 11


def account_info(call: Call) -> None:
    """INFO: tell what the account uses, and its limits."""
    call.answer(call.account.info())


ACCOUNT_INFO = Family("account_info_response", account_info)


def find(tokens: list[str]) -> Family | None:
    """Return the request that the tokens behind ``$JS.API`` stand for; None for none."""
    if tokens == ["INFO"]:
        return ACCOUNT_INFO
    if len(tokens) < 2:
        return None
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
) -> bool:
    """Answer a request to `subject`, which begins with ``$JS.API.``, by calling `respond`.

    It gets the answer, and with some answers a header block.
    The call may come later, when what was asked for is durable.

    Returns:
        False when there is no such request: nothing is answered.
    """
    tokens = text(subject[len(PREFIX) :]).split(".")
    family = find(tokens)
    if family is None:
        return False
    call = Call(account, family, tokens, headers, body, respond)
    try:
        _check(call)
        family.handle(call)
    except JetStreamError as error:
        call.refuse(error.api)
    return True


def refuse(subject: bytes, error: ApiError) -> bytes | None:
    """Return the answer that refuses a request, as where JetStream is off; None for none."""
    family = find(text(subject[len(PREFIX) :]).split("."))
    if family is None:
        return None
    return encode({"type": family.type, "error": error.fields(), **family.with_error})


def take(
    account: JetStreamAccount, subject: bytes, reply: bytes, headers: bytes, body: bytes
) -> bool:
    """Take a pull or a direct request, which are answered by messages.

    Returns:
        False when there is no such consumer, or no stream that is read directly: the sender is told
        that there are no responders.
    """
    tokens = subject[len(PREFIX) :].split(b".", 3)
    if tokens[:2] == [b"DIRECT", b"GET"] and len(tokens) > 2:
        return _take_direct(account, tokens, reply, headers, body)
    if tokens[:3] == [b"CONSUMER", b"MSG", b"NEXT"] and len(tokens) > 3:
        return _take_pull(account, tokens[3], reply, headers, body)
    return False


def take_ack(account: JetStreamAccount, subject: bytes, reply: bytes, body: bytes) -> bool:
    """Take an ack of either format; False when there is no such consumer."""
    consumer = _consumer_of_ack(account, subject)
    if consumer is None or not consumer.takes_acks():
        return False
    consumer.ack(subject, reply, body)
    return True


def take_flow_control(account: JetStreamAccount, subject: bytes, headers: bytes = b"") -> bool:
    """Take the answer to a flow control request; False when there is no such consumer."""
    tokens = subject.split(b".")
    if len(tokens) < 5:
        return False
    stream = account.streams.get(text(tokens[2]))
    consumer = stream.consumers.get(tokens[3]) if stream is not None else None
    answered = getattr(consumer, "flow_control", None)
    if answered is None:
        return False
    answered(subject, headers)
    return True


def _take_direct(
    account: JetStreamAccount, tokens: list[bytes], reply: bytes, headers: bytes, body: bytes
) -> bool:
    """Answer a direct request, if the stream allows it."""
    stream = account.streams.get(text(tokens[2]))
    if stream is None or not stream.config.allow_direct:
        return False
    if not reply:
        return True
    level = header_block.find(headers, _REQUIRED_LEVEL) if headers else None
    if level and not is_known_level(text(level)):
        stream.sink.send(reply, b"", _LEVEL_REQUIRED, b"")
    elif len(tokens) > 3:
        stream.direct_get.get_last(reply, tokens[3], body)
    else:
        stream.direct_get.get(reply, body)
    return True


def _take_pull(
    account: JetStreamAccount, names: bytes, reply: bytes, headers: bytes, body: bytes
) -> bool:
    """Hand a pull request to its consumer."""
    stream_name, _, name = names.partition(b".")
    stream = account.streams.get(text(stream_name))
    consumer = stream.consumers.get(name) if stream is not None else None
    if stream is None or consumer is None:
        return False
    level = header_block.find(headers, _REQUIRED_LEVEL) if headers else None
    if level and not is_known_level(text(level)):
        stream.sink.send(reply, b"", _LEVEL_REQUIRED, b"")
    else:
        consumer.request(reply, body)
    return True


def _consumer_of_ack(account: JetStreamAccount, subject: bytes) -> Consumer | None:
    """Return the consumer that an ack subject belongs to.

    The old format names stream and consumer behind ``$JS.ACK``, the new one domain and account
    before them; it has eleven tokens at least.
    """
    tokens = subject.split(b".")
    at = 2 if len(tokens) < _SECOND_FORMAT_TOKENS else 4
    if len(tokens) < at + 2:
        return None
    stream = account.streams.get(text(tokens[at]))
    return stream.consumers.get(tokens[at + 1]) if stream is not None else None


def _check(call: Call) -> None:
    """Refuse a request that needs a newer API, or a body where none belongs."""
    if call.headers:
        level = header_block.find(call.headers, _REQUIRED_LEVEL)
        if level and not is_known_level(text(level)):
            raise errors.REQUIRED_API_LEVEL.error()
    if not call.family.takes_body and not is_empty_request(call.body):
        raise errors.NOT_EMPTY_REQUEST.error()
