"""Find the stream or consumer for a message to one of JetStream's subjects.

Pulls, direct gets, acks and flow control arrive at the rate of messages. They are therefore passed
on at once, by the bytes of the subject, and do not wait for API requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.jetstream import headers as header_block
from midge.jetstream.config.versions import is_known_level
from midge.jetstream.consumer.push import DeliverSubject
from midge.jetstream.consumer.statuses import REQUIRED_API_LEVEL
from midge.jetstream.json.encode import text

if TYPE_CHECKING:
    from midge.jetstream.account.account import JetStreamAccount
    from midge.jetstream.consumer.consumer import Consumer
    from midge.jetstream.stream.stream import Stream

NEXT = b"$JS.API.CONSUMER.MSG.NEXT."
DIRECT_GET = b"$JS.API.DIRECT.GET."

_NEXT_SIZE = len(NEXT)  # a C number where this is compiled

_REQUIRED_LEVEL = b"Nats-Required-Api-Level"
ACK_NAMES_SECOND = 6
_ACK_NAMES_FIRST = 4
_ACK_NUMBERS = 5
_FLOW_CONTROL_TOKENS = 5  # of $JS.FC.<stream>.<consumer>.<id>


def stream_of(account: JetStreamAccount, name: bytes) -> Stream | None:
    """Return a stream by its name in a subject, decoded as `encode.text` does."""
    return account.streams.get(name.decode("utf-8", "surrogateescape"))


def consumer_of(account: JetStreamAccount, stream: bytes, name: bytes) -> Consumer | None:
    """Return a consumer by the names in a subject."""
    found = stream_of(account, stream)
    return None if found is None else found.consumers.get(name)


def consumer_of_pull(account: JetStreamAccount, subject: bytes) -> Consumer | None:
    """Return the consumer that the subject of a pull request names."""
    stream, _, name = subject[_NEXT_SIZE:].partition(b".")
    return consumer_of(account, stream, name)


def pull(
    account: JetStreamAccount, consumer: Consumer, reply: bytes, headers: bytes, body: bytes
) -> None:
    """Pass a pull request to its consumer."""
    if headers and not _is_level_known(headers):
        account.surroundings.sink.send(reply, b"", REQUIRED_API_LEVEL, b"")
    else:
        consumer.request(reply, body)


def direct_get(
    account: JetStreamAccount,
    stream: Stream,
    subject: bytes | None,
    reply: bytes,
    headers: bytes,
    body: bytes,
) -> None:
    """Answer a direct get: of the last message of `subject`, if the request's subject names one."""
    if headers and not _is_level_known(headers):
        account.surroundings.sink.send(reply, b"", REQUIRED_API_LEVEL, b"")
    elif subject is None:
        stream.direct_get.get(reply, body)
    else:
        stream.direct_get.get_last(reply, subject, body)


def consumer_of_ack(account: JetStreamAccount, subject: bytes) -> Consumer | None:
    """Return the consumer that an ack subject names."""
    names = subject.split(b".", ACK_NAMES_SECOND)
    count = ack_names(subject)
    if len(names) < count:
        return None
    return consumer_of(account, names[count - 2], names[count - 1])


def ack_names(subject: bytes) -> int:
    """Return the number of tokens in an ack subject up to the name of the consumer.

    ``$JS.ACK.<stream>.<consumer>`` comes before five numbers. The second form has the domain and
    a hash of the account before the stream, and may have more tokens behind the numbers.
    """
    is_second = subject.count(b".") >= ACK_NAMES_SECOND + _ACK_NUMBERS - 1
    return ACK_NAMES_SECOND if is_second else _ACK_NAMES_FIRST


def take_flow_control(account: JetStreamAccount, subject: bytes, headers: bytes) -> bool:
    """Pass on the answer to a flow control request; return False without such a consumer."""
    tokens = subject.split(b".")
    names = tokens[2:4] if len(tokens) <= _FLOW_CONTROL_TOKENS else tokens[4:6]
    consumer = consumer_of(account, *names) if len(names) == 2 else None
    receivers = None if consumer is None else consumer.receivers
    if not isinstance(receivers, DeliverSubject):
        return False
    receivers.flow_control(subject, headers)
    return True


def _is_level_known(headers: bytes) -> bool:
    """Return whether midge has the API level that a request's headers require."""
    level = header_block.find(headers, _REQUIRED_LEVEL)
    return not level or is_known_level(text(level))
