"""The messages that a stream sends, held until every change they rest on is durable.

Acks, refusals, answers to requests, republished messages and advisories leave in the order they
were made. None leaves before the group is durable that holds the last change of the stream: a
duplicate or a wrong last sequence may rest on a message that a crash would still take away.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from midge.jetstream.environment.sink import Sink
from midge.jetstream.environment.surroundings import Surroundings
from midge.jetstream.json import type_names
from midge.jetstream.json.encode import encode, text
from midge.jetstream.json.times import format_time
from midge.jetstream.store.store import Store

_ADVISORY = b"$JS.EVENT.ADVISORY.STREAM."


class WaitingAnswers:
    """The messages that wait for one group, each at one index of the four lists.

    A lost group turns acks into refusals. An object for each message took 200 of the 5,300
    instructions that a message and its ack take.
    """

    __slots__ = ("are_acks", "headers", "payloads", "subjects")

    def __init__(self) -> None:
        self.subjects: list[bytes] = []
        self.headers: list[bytes] = []
        self.payloads: list[bytes] = []
        self.are_acks: list[bool] = []

    def add(self, subject: bytes, headers: bytes, payload: bytes, is_ack: bool) -> None:
        """Add a message behind the others."""
        self.subjects.append(subject)
        self.headers.append(headers)
        self.payloads.append(payload)
        self.are_acks.append(is_ack)


class Answers:
    """The answers of one stream, in order."""

    __slots__ = ("_group", "_is_immediate", "_open", "_store", "_waiting", "sink")

    def __init__(self, store: Store, sink: Sink, is_immediate: bool) -> None:
        """Send by `sink`; `is_immediate` says that every change is durable at once."""
        self.sink = sink
        self._store = store
        self._is_immediate = is_immediate
        self._group = 0
        self._open: WaitingAnswers | None = None
        self._waiting: list[WaitingAnswers] = []

    def send(self, subject: bytes, headers: bytes, payload: bytes, is_ack: bool) -> None:
        """Send a message as soon as all changes of the stream so far are durable."""
        if self._is_immediate:
            self.sink.send(subject, b"", headers, payload)
        elif self._open is not None and self._group == self._store.group:
            self._open.add(subject, headers, payload, is_ack)
        else:
            held = WaitingAnswers()
            held.add(subject, headers, payload, is_ack)
            self._open = held
            self._group = self._store.group
            self._waiting.append(held)
            self._store.barrier(partial(self._release, held))  # at once, if nothing is to come

    def fail(self, refusal: bytes) -> None:
        """Answer all acks that wait with `refusal`, for the messages are lost; drop the rest."""
        waiting, self._waiting = self._waiting, []
        self._open = None
        for held in waiting:
            for subject, is_ack in zip(held.subjects, held.are_acks, strict=True):
                if is_ack:
                    self.sink.send(subject, b"", b"", refusal)

    def _release(self, held: WaitingAnswers) -> None:
        """Send the answers in `held`, and the earlier ones that still wait."""
        while self._waiting:
            first = self._waiting.pop(0)
            if first is self._open:
                self._open = None
            subjects = first.subjects
            headers = first.headers
            payloads = first.payloads
            for index in range(len(subjects)):
                self.sink.send(subjects[index], b"", headers[index], payloads[index])
            if first is held:
                break


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
        event = _advisory(around, type_name, self._name, fields)
        self._answers.send(subject, b"", event, False)


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
    around.sink.send(subject, b"", b"", _advisory(around, type_name, stream, fields))


def _advisory(around: Surroundings, type_name: str, stream: bytes, fields: dict[str, Any]) -> bytes:
    """Return the advisory with these fields; the domain stands before a batch's, else behind."""
    event: dict[str, Any] = {
        "type": type_names.ADVISORY + type_name,
        "id": around.new_id(),
        "timestamp": format_time(around.clock.wall_ns()),
        "stream": text(stream),
    }
    if "batch" in fields and around.domain:
        event["domain"] = around.domain
    event |= fields
    if around.domain:
        event["domain"] = around.domain
    return encode(event)
