"""What a stream tells about itself: advisories in its account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midge.jetstream.json.encode import encode, text
from midge.jetstream.json.times import format_time

if TYPE_CHECKING:
    from midge.jetstream.stream.stream import Stream

_ADVISORY = b"$JS.EVENT.ADVISORY.STREAM."


class StreamEvents:
    """The events of one stream. Nothing is made of an event that has no subscriber."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def created(self) -> None:
        """Tell that the stream has been made."""
        self._advise(b"CREATED.", "stream_action", {"action": "create"})

    def updated(self) -> None:
        """Tell that the configuration has changed."""
        self._advise(b"UPDATED.", "stream_action", {"action": "modify"})

    def deleted(self) -> None:
        """Tell that the stream is gone."""
        self._advise(b"DELETED.", "stream_action", {"action": "delete"})

    def batch_abandoned(self, batch_id: bytes, reason: str) -> None:
        """Tell that an open batch was given up."""
        fields = {"batch": text(batch_id), "reason": reason}
        self._advise(b"BATCH_ABANDONED.", "stream_batch_abandoned", fields)

    def _advise(self, kind: bytes, type_name: str, fields: dict[str, Any]) -> None:
        stream = self._stream
        subject = _ADVISORY + kind + stream.name
        if not stream.sink.has_interest(subject):
            return
        event: dict[str, Any] = {
            "type": f"io.nats.jetstream.advisory.v1.{type_name}",
            "id": stream.surroundings.new_id(),
            "timestamp": format_time(stream.clock.wall_ns()),
            "stream": text(stream.name),
        }
        if "batch" in fields and stream.surroundings.domain:
            event["domain"] = stream.surroundings.domain
        event |= fields
        if stream.surroundings.domain:
            event["domain"] = stream.surroundings.domain
        stream.answers.send(subject, b"", encode(event), False)
