"""The messages that a stream sends, held until every change they rest on is durable.

Acks, refusals, answers to requests and republished messages leave in the order they were made. None
leaves before the group is durable that holds the last change of the stream: a duplicate or a wrong
last sequence may rest on a message that a crash would still take away.
"""

from __future__ import annotations

from functools import partial

from midge.jetstream.environment.sink import Sink
from midge.jetstream.store.store import Store


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
