"""The events of a stream: advisories in its account."""

from __future__ import annotations

from typing import Any

from midge.jetstream.json import type_names
from midge.jetstream.json.encode import encode, text
from midge.jetstream.json.times import format_time
from midge.jetstream.stream.answers import Answers
from midge.jetstream.stream.surroundings import Surroundings

_ADVISORY = b"$JS.EVENT.ADVISORY.STREAM."


class StreamEvents:
    """The events of one stream. Nothing is made of an event that has no subscriber."""

    def __init__(self, stream: bytes, around: Surroundings, answers: Answers) -> None:
        """Send the events of `stream` by `answers`, so that they wait for their change's sync."""
        self._name = stream
        self._around = around
        self._answers = answers

    def created(self) -> None:
        """Publish the advisory of the stream's creation."""
        self._advise(b"CREATED.", "stream_action", {"action": "create"})

    def updated(self) -> None:
        """Publish the advisory of a changed configuration."""
        self._advise(b"UPDATED.", "stream_action", {"action": "modify"})

    def deleted(self) -> None:
        """Publish the advisory of the stream's deletion."""
        self._advise(b"DELETED.", "stream_action", {"action": "delete"})

    def batch_abandoned(self, batch_id: bytes, reason: str) -> None:
        """Publish the advisory of an abandoned batch."""
        fields = {"batch": text(batch_id), "reason": reason}
        self._advise(b"BATCH_ABANDONED.", "stream_batch_abandoned", fields)

    def snapshot_created(self, shown_state: dict[str, Any], client: dict[str, Any]) -> None:
        """Publish the advisory that a snapshot begins, which `client` has requested."""
        fields = {"state": shown_state, "client": client}
        self._advise(b"SNAPSHOT_CREATE.", "snapshot_create", fields)

    def snapshot_complete(self, begun_ns: int, error: str, client: dict[str, Any]) -> None:
        """Publish the advisory that a snapshot has been sent, or the reason why not."""
        end_ns = self._around.clock.wall_ns()
        fields: dict[str, Any] = {"start": format_time(begun_ns), "end": format_time(end_ns)}
        if error:
            fields["error"] = error
        fields["client"] = client
        self._advise(b"SNAPSHOT_COMPLETE.", "snapshot_complete", fields)

    def _advise(self, kind: bytes, type_name: str, fields: dict[str, Any]) -> None:
        around = self._around
        subject = _ADVISORY + kind + self._name
        if not around.sink.has_interest(subject):
            return
        event: dict[str, Any] = {
            "type": type_names.ADVISORY + type_name,
            "id": around.new_id(),
            "timestamp": format_time(around.clock.wall_ns()),
            "stream": text(self._name),
        }
        if "batch" in fields and around.domain:
            event["domain"] = around.domain
        event |= fields
        if around.domain:
            event["domain"] = around.domain
        self._answers.send(subject, b"", encode(event), False)


def advise_restore_create(around: Surroundings, stream: bytes, client: dict[str, Any]) -> None:
    """Publish the advisory that a client begins to restore a stream."""
    _advise_restore(around, b"RESTORE_CREATE.", "restore_create", stream, {"client": client})


def advise_restore_complete(
    around: Surroundings, stream: bytes, begun_ns: int, size: int, client: dict[str, Any]
) -> None:
    """Publish the advisory that a restore has succeeded or failed."""
    fields = {
        "start": format_time(begun_ns),
        "end": format_time(around.clock.wall_ns()),
        "bytes": size,
        "client": client,
    }
    _advise_restore(around, b"RESTORE_COMPLETE.", "restore_complete", stream, fields)


def _advise_restore(
    around: Surroundings, kind: bytes, type_name: str, stream: bytes, fields: dict[str, Any]
) -> None:
    subject = _ADVISORY + kind + stream
    if not around.sink.has_interest(subject):
        return
    event: dict[str, Any] = {
        "type": type_names.ADVISORY + type_name,
        "id": around.new_id(),
        "timestamp": format_time(around.clock.wall_ns()),
        "stream": text(stream),
        **fields,
    }
    if around.domain:
        event["domain"] = around.domain
    around.sink.send(subject, b"", b"", encode(event))
