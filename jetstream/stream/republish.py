"""Publishing stored messages again under another subject."""

from __future__ import annotations

from random import Random

from midge.jetstream import headers
from midge.jetstream.config import names as config_names
from midge.jetstream.config.stream import StreamConfig
from midge.jetstream.json.times import format_time
from midge.jetstream.stream.incoming import Incoming
from midge.jetstream.stream.stream_host import StreamHost
from midge.jetstream.transform import StreamTransform
from midge.sublist.subjects import is_valid_publish_subject


class Republisher:
    """The `republish` of a stream: subjects and headers of the messages published again."""

    def __init__(self, transform: StreamTransform, headers_only: bool) -> None:
        self._transform = transform
        self._headers_only = headers_only
        self._waiting = 0  # messages of the stream that are published again in later turns

    @classmethod
    def of(cls, config: StreamConfig, random: Random) -> Republisher | None:
        """Return what does it for a stream; None when nothing is to be published again."""
        given = config.republish
        if given is None or not given.destination:
            return None
        if any(config_names.collide(given.destination, subject) for subject in config.subjects):
            return None  # each message would come back
        return cls(StreamTransform(given.source, given.destination, random), given.headers_only)

    def subject_for(self, subject: bytes) -> bytes | None:
        """Return where a message of `subject` is published again, None for nowhere."""
        made = self._transform.apply(subject)
        return made if made is not None and is_valid_publish_subject(made) else None

    def send(self, stream: StreamHost, subject: bytes, headers: bytes, payload: bytes) -> None:
        """Publish a message again.

        Streams may republish to each other without end. So a message that was stored while another
        one was published again is published again in a later turn, with the messages behind it.
        """
        around = stream.surroundings
        if not self._waiting and not around.is_republishing:
            self._send(stream, subject, headers, payload)
            return
        self._waiting += 1

        def later() -> bool:
            self._waiting -= 1
            if not stream.is_closed:
                self._send(stream, subject, headers, payload)
            return False

        around.turns.add(later)

    def _send(self, stream: StreamHost, subject: bytes, headers: bytes, payload: bytes) -> None:
        around = stream.surroundings
        around.is_republishing = True
        try:
            stream.answers.send(subject, headers, payload, False)
        finally:
            around.is_republishing = False

    def headers_for(self, stream: StreamHost, message: Incoming, seq: int, before: int) -> bytes:
        """Return the message's headers, with headers for its stream, subject and sequence."""
        lines = b"Nats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\n" % (
            stream.name,
            message.subject,
            seq,
        )
        time = format_time(stream.store.last_time_ns).encode()
        lines += b"Nats-Time-Stamp: %b\r\nNats-Last-Sequence: %d\r\n" % (time, before)
        if self._headers_only:
            lines += b"Nats-Msg-Size: %d\r\n" % len(message.payload)
        stream.store.work += len(message.headers)
        return headers.add_lines(message.headers, lines)

    def payload_for(self, message: Incoming) -> bytes:
        """Return the payload to publish again."""
        return b"" if self._headers_only else message.payload
