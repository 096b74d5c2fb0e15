"""The durable consumer that keeps the messages of an interest stream until they are in the table.

An interest stream removes a message when every consumer has acknowledged it. The table still reads
by sequence, from its own position on, so that nothing depends on what the consumer delivers. Only
after a commit the consumer is pulled up to the position, headers alone, and the last message is
acknowledged with all before it. When that fails, the next landing does it.
"""

import json
import logging
from typing import Any

from midge.client.errors import StreamError
from midge.client.jetstream import JetStreamApi, parse_deliveries
from midge.protocol.client_side import ReceivedMessage, publish_frame

_PULL_MESSAGES = 4096
_PULL_SILENCE_S = 2.0
_ACK_WAIT_NS = 30_000_000_000
_NOT_FOUND = 10014
_ACK_PREFIX = b"$JS.ACK."

_log = logging.getLogger(__name__)


def make_consumer(
    jetstream: JetStreamApi, stream: str, name: str, subjects: tuple[str, ...]
) -> None:
    """Make the durable consumer of a table; one that is there already is kept.

    Raises:
        StreamError: there is another consumer of this name.
    """
    config: dict[str, Any] = {
        "durable_name": name,
        "name": name,
        "ack_policy": "all",
        "ack_wait": _ACK_WAIT_NS,
        "max_ack_pending": -1,
        "headers_only": True,
    }
    if subjects:
        config["filter_subjects"] = list(subjects)
    request = {"stream_name": stream, "config": config}
    jetstream.call(f"CONSUMER.DURABLE.CREATE.{stream}.{name}", request)


def acknowledge(
    jetstream: JetStreamApi, stream: str, name: str, subjects: tuple[str, ...], position: int
) -> None:
    """Acknowledge all messages up to the table's position.

    Raises:
        ServerError: the connection broke, or no answer came in time.
        StreamError: JetStream refused.
    """
    while True:
        try:
            info = jetstream.call(f"CONSUMER.INFO.{stream}.{name}")
        except StreamError as error:
            if error.code != _NOT_FOUND:
                raise
            _log.warning("consumer %s of stream %s was deleted; it is made again", name, stream)
            make_consumer(jetstream, stream, name, subjects)
            return
        delivered = info["delivered"]["stream_seq"]
        is_new = info["num_pending"] > 0 and delivered < position
        is_open = info["num_ack_pending"] > 0 and info["ack_floor"]["stream_seq"] < position
        if not (is_new or is_open):
            return
        if not _acknowledge_some(jetstream, stream, name, position):
            return


def _acknowledge_some(jetstream: JetStreamApi, stream: str, name: str, position: int) -> bool:
    """Pull messages once; acknowledge those up to the position, and give the others back."""
    client = jetstream.client
    inbox = client.new_inbox().replace(b"_INBOX.", b"_INBOX.pull.")
    sid = client.subscribe(inbox)
    request = {"batch": _PULL_MESSAGES, "no_wait": True}
    subject = f"{jetstream.prefix}.CONSUMER.MSG.NEXT.{stream}.{name}".encode()
    client.send(publish_frame(subject, inbox, b"", json.dumps(request).encode()))
    pulled: list[ReceivedMessage] = []
    is_done = False
    while not is_done and len(pulled) < _PULL_MESSAGES:
        received = [one for one in client.receive(_PULL_SILENCE_S) if one.sid == sid]
        data = [one for one in received if one.reply.startswith(_ACK_PREFIX)]
        pulled += data
        is_done = len(data) < len(received) or not received  # a status ends the pull
    client.unsubscribe(sid)
    if not pulled:
        return False
    seqs = parse_deliveries(pulled).seqs
    known = [one for one, seq in zip(pulled, seqs, strict=True) if seq <= position]
    for one, seq in zip(pulled, seqs, strict=True):
        if seq > position:
            client.send(publish_frame(one.reply, b"", b"", b"-NAK"))
    if known:
        client.request(known[-1].reply, b"+ACK")
    return bool(known)
