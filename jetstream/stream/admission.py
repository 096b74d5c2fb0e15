"""Checks of everything that enters a store by another way than a client's own request.

A client's messages pass the protocol's parser, and its configurations the checks of their requests.
Archives, another server's files, origins of mirrors and sources, transforms and the records of a
store at its start bring names and subjects that no parser has read. They are checked here, so that
no store holds anything that the API would refuse. Otherwise two kinds of harm follow:

* A subject or a name with a line end in it becomes a line of the protocol where it is written: on
  a route or a leaf link that line may name any account.
* A configuration that no check has seen makes the code that relies on these checks fail.

`message_problem`, `name_problem` and `stored_problem` return a text for errors and logs, which is
empty when nothing is wrong. `check_message` and `check_consumer` raise the error to answer.

Any message is allowed here that a client could have published: its subject may hold ``*`` and
``>``, and control bytes other than TAB, CR and LF, as with nats-server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from midge.jetstream import errors, headers
from midge.jetstream.config import consumer as consumer_config
from midge.jetstream.config import consumer_rules, names
from midge.jetstream.config.consumer_config import Allowance, ConsumerConfig
from midge.jetstream.config.names import SEQ_MAX
from midge.jetstream.json.encode import decode, text
from midge.jetstream.store import lookups
from midge.jetstream.stream.incoming import Incoming, Refused
from midge.protocol import lines
from midge.protocol.errors import quote
from midge.sublist.subjects import has_empty_token

if TYPE_CHECKING:
    from midge.jetstream.config.stream import StreamConfig
    from midge.jetstream.store.store import Store

SUBJECT_MAX_BYTES = 32 * 1024
"""Half of what a line of a link may have, so that the ack subject has room beside it."""

_HEADERS_MAX = 65535  # nats-server notes the length of the headers in 16 bits
_INTERNAL = "\x00"  # what a stream keeps of its own begins so, beside the names of consumers
_ODD = re.compile(rb"\\(?!u003[ce]|u0026)| ")
"""What a stored configuration without blanks and control characters has nothing of."""

_SUBJECTS = ("deliver_subject", "filter_subject")
_NAMES = ("name", "durable_name")


def subject_problem(subject: bytes) -> str:
    """Return why no client can have published to `subject`."""
    if lines.has_blank(subject, 0, len(subject)) or has_empty_token(subject):
        return f"the subject {quote(subject)} is invalid"
    if len(subject) > SUBJECT_MAX_BYTES:
        return f"a subject of {len(subject)} bytes is too long"
    return ""


def message_problem(subject: bytes, block: bytes) -> str:
    """Return why no client can have published a message with this subject and header block."""
    if len(block) > _HEADERS_MAX:
        return f"a header block of {len(block)} bytes is too long"
    if block and headers.to_store(block) != block:
        return "the header block has a status"
    return subject_problem(subject)


def check_message(message: Incoming) -> None:
    """Refuse a message that no client can have published; raises Refused."""
    if problem := message_problem(message.subject, message.headers):
        raise Refused(errors.STREAM_STORE_FAILED.fill(err=problem))


def name_problem(name: str) -> str:
    """Return why no stream and no consumer can have this name."""
    if not names.is_valid_name(name) or name.startswith(_INTERNAL):
        return f"the name {quote(names.to_bytes(name))} is invalid"
    if names.size(name) > names.NAME_MAX_BYTES:
        return f"a name of {names.size(name)} bytes is too long"
    return ""


def check_consumer(
    name: bytes,
    config: ConsumerConfig,
    stream: StreamConfig,
    allowed: Allowance,
    others: consumer_rules.WorkQueue,
) -> None:
    """Fill in the defaults of a consumer that comes as a whole, and check it.

    `others` has the filters of the stream's other consumers, direct ones aside.

    Raises:
        JetStreamError: a request for this consumer would be refused.
    """
    if problem := name_problem(text(name)):
        raise errors.STREAM_INVALID_CONFIG.error(err=f"consumer: {problem}")
    if any(names.to_bytes(one) != name for one in (config.name, config.durable_name) if one):
        raise errors.CONSUMER_CREATE_DURABLE_AND_NAME_MISMATCH.error()
    if config.num_replicas > 1:
        raise errors.STREAM_REPLICAS_NOT_SUPPORTED.error()
    consumer_config.set_defaults(config, stream, allowed, False)
    consumer_rules.check(config, stream, allowed)
    if stream.retention == "workqueue" and not (config.direct or config.sourcing):
        consumer_rules.check_work_queue(config, others, is_new=True)


def stored_name(store: Store) -> str:
    """Return the name in the stored configuration of a stream; empty if that cannot be read."""
    try:
        return str(decode(store.config())["config"]["name"])
    except (ValueError, KeyError, TypeError):
        return ""


def stored_problem(store: Store) -> str:
    """Return what the store of a stream holds that no line of the protocol can carry.

    A version that did not check archives may have written it.
    """
    try:
        config = decode(store.config())["config"]
        problem = name_problem(config["name"]) or _subjects_problem(config.get("subjects") or ())
    except (ValueError, KeyError, TypeError) as error:
        return f"its configuration cannot be read: {error}"
    if problem:
        return problem
    if store.last_seq > SEQ_MAX:
        return f"its last sequence {store.last_seq} is invalid: the largest is {SEQ_MAX}"
    subject = lookups.unsendable_subject(store)
    if subject is not None:
        return f"a message has the subject {quote(subject)}, which is invalid"
    for name, snapshot, _ in store.consumers():
        if not name.startswith(_INTERNAL.encode()) and (
            problem := _consumer_problem(name, snapshot)
        ):
            return f"of the consumer {quote(name)}: {problem}"
    return ""


def _consumer_problem(name: bytes, snapshot: bytes) -> str:
    """Return what the stored state of a consumer has of invalid names and subjects."""
    if problem := name_problem(text(name)):
        return problem
    head = snapshot[4 : 4 + int.from_bytes(snapshot[:4], "little")]
    if _ODD.search(head) is None:
        return ""  # of 20,000 consumers nearly all, whose configurations are read later anyway
    try:
        config: dict[str, Any] = decode(head)["config"]
    except (ValueError, KeyError, TypeError) as error:
        return f"its state cannot be read: {error}"
    for one in [config.get(key) for key in _NAMES]:
        if one and (problem := name_problem(one)):
            return problem
    found = [config.get(key) for key in _SUBJECTS] + list(config.get("filter_subjects") or ())
    return _subjects_problem(one for one in found if one)


def _subjects_problem(subjects: Iterable[str]) -> str:
    for one in subjects:
        if not names.is_valid_subject(one):
            return f"the subject {quote(names.to_bytes(one))} is invalid"
    return ""
