"""The messages that a stream sends, held until every change they rest on is durable.

Acks, refusals, answers to requests and republished messages leave in the order they were made. None
leaves before the group is durable that holds the last change of the stream: a duplicate or a wrong
last sequence may rest on a message that a crash would still take away.
"""

from __future__ import annotations

from functools import partial

from midge.jetstream.environment.sink import Sink
from midge.jetstream.store.interface import StreamStore


class Answer:
    """One message to send; `is_ack` tells that a lost group turns it into a refusal."""

    __slots__ = ("headers", "is_ack", "payload", "subject")

    def __init__(self, subject: bytes, headers: bytes, payload: bytes, is_ack: bool) -> None:
        self.subject = subject
        self.headers = headers
        self.payload = payload
        self.is_ack = is_ack


class Answers:
    """The answers of one stream, in order."""

    __slots__ = ("_group", "_is_immediate", "_open", "_store", "_waiting", "sink")

    def __init__(self, store: StreamStore, sink: Sink, is_immediate: bool) -> None:
        """Send by `sink`; `is_immediate` says that every change is durable at once."""
        self.sink = sink
        self._store = store
        self._is_immediate = is_immediate
        self._group = 0
        self._open: list[Answer] | None = None
        self._waiting: list[list[Answer]] = []

    def send(self, subject: bytes, headers: bytes, payload: bytes, is_ack: bool) -> None:
        """Send a message as soon as all changes of the stream so far are durable."""
        if self._is_immediate:
            self.sink.send(subject, b"", headers, payload)
            return
        answer = Answer(subject, headers, payload, is_ack)
        if self._open is not None and self._group == self._store.group:
            self._open.append(answer)
            return
        answers = [answer]
        self._open = answers
        self._group = self._store.group
        self._waiting.append(answers)
        self._store.barrier(partial(self._release, answers))

    def fail(self, refusal: bytes) -> None:
        """Answer all acks that wait with `refusal`, for the messages are lost; drop the rest."""
        waiting, self._waiting = self._waiting, []
        self._open = None
        for answers in waiting:
            for answer in answers:
                if answer.is_ack:
                    self.sink.send(answer.subject, b"", b"", refusal)

    def _release(self, answers: list[Answer]) -> None:
        """Send `answers`, and what waits before them."""
        while self._waiting:
            first = self._waiting.pop(0)
            if first is self._open:
                self._open = None
            for answer in first:
                self.sink.send(answer.subject, b"", answer.headers, answer.payload)
            if first is answers:
                break
