"""Consumers do what nats-server's did, in requests and in random programs."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from midge.jetstream.account.account import JetStreamAccount
from midge.jetstream.api import dispatch, routes
from midge.jetstream.consumer.consumer import Consumer
from midge.jetstream.environment.surroundings import Surroundings
from midge.jetstream.store.memory_store import MemoryStore
from midge.server.jetstream.message_requests import MessageRequests
from tests.differential.jetstream.consumer_programs import (
    INBOXES,
    NANOSECONDS_OF_AN_HOUR,
    Deliveries,
    Program,
    Step,
    prefixed,
    shown_info,
)
from tests.differential.jetstream.test_recorded_streams import masked
from tests.support.consumer_rig import CollectingSink, TurnedClock
from tests.support.each import each

RECORDED = Path(__file__).parent / "consumers"
SHOWN = 5
REPLY = b"_INBOX.reply"
BUDGET = 1 << 20


class Core:
    """JetStream of one account without a server."""

    def __init__(self) -> None:
        self.clock = TurnedClock()
        self.sink = CollectingSink()
        self.turns: list[Consumer] = []
        around = Surroundings(self.sink, self.clock, Random(1), ready=self.turns.append)
        self.account = JetStreamAccount("$G", around, lambda _: MemoryStore())

    def run(self) -> None:
        while self.turns:
            self.turns.pop(0).deliver(BUDGET)

    def request(self, subject: str, body: str, headers: bytes = b"") -> bytes | None:
        found: list[bytes] = []
        dispatch.handle(self.account, subject.encode(), headers, body.encode(), found.append)
        return found[0] if found else None

    def ask(self, subject: str, body: Any = "") -> dict[str, Any]:
        text = body if isinstance(body, str) else json.dumps(body)
        answer: dict[str, Any] = json.loads(self.request(subject, text) or b"{}")
        return answer


class Run:
    """A program here; see `record_consumers.Run`."""

    def __init__(self, seed: int) -> None:
        self._core = Core()
        self._name = f"S{seed}"
        self._prefix = f"p{seed}."
        self._deliveries = Deliveries(self._name, self._prefix)
        self._inboxes = [f"_INBOX.{number}".encode() for number in range(INBOXES)]

    def answers(self, steps: list[Step]) -> list[Any]:
        return [getattr(self, "_" + step[0])(*step[1:]) for step in steps]

    def _shown(self, *, with_pending: bool = True) -> dict[str, list[list[str]]]:
        self._core.run()
        sent, self._core.sink.sent = self._core.sink.sent, []
        messages = []
        for one in sent:
            if one.to in self._inboxes:
                parts = (one.subject, one.reply, one.headers, one.payload)
                texts = [part.decode() for part in parts]
                messages.append((self._inboxes.index(one.to), *texts))
        shown = self._deliveries.shown(messages, with_pending=with_pending)  # type: ignore[arg-type]
        found: dict[str, list[list[str]]] = json.loads(json.dumps(shown))
        return found

    def _stream(self, keys: dict[str, Any]) -> bool:
        fields = {"name": self._name, "subjects": [self._prefix + "s.>"], "storage": "memory"}
        return "error" in self._core.ask(f"$JS.API.STREAM.CREATE.{self._name}", {**fields, **keys})

    def _create(self, name: str, keys: dict[str, Any]) -> Any:
        config = {**prefixed(keys, self._prefix), "durable_name": name}
        config["ack_wait"] = NANOSECONDS_OF_AN_HOUR
        body = {"stream_name": self._name, "config": config}
        info = self._core.ask(f"$JS.API.CONSUMER.CREATE.{self._name}.{name}", body)
        return [shown_info(info), self._shown()]

    def _publish(self, subjects: list[str]) -> Any:
        stream = self._core.account.lookup(self._name)
        for subject in subjects:
            stream.publish((self._prefix + subject).encode(), REPLY, b"", b"data")
            self._core.run()
        return self._shown(with_pending=False)

    def _pull(self, name: str, body: dict[str, Any], inbox: int) -> Any:
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._name}.{name}".encode()
        text = json.dumps(body).encode()
        MessageRequests(self._core.account).take(subject, self._inboxes[inbox], b"", text)
        return self._shown()

    def _ack(self, name: str, number: int, body: str) -> Any:
        subject = self._deliveries.ack_subject(name, number)
        if subject is None:
            return None
        reply = self._inboxes[0] if body.startswith("+NXT") else REPLY
        consumer = routes.consumer_of_ack(self._core.account, subject.encode())
        is_taken = consumer is not None and consumer.acks.takes_acks()
        if consumer is not None and is_taken:
            consumer.ack(subject.encode(), reply, body.encode())
        if body.startswith("+NXT"):
            return self._shown()
        self._core.run()
        answers = [one for one in self._core.sink.sent if one.to == REPLY]
        answer = answers[0].headers.decode() if answers else None
        return ["NATS/1.0 503" if not is_taken else answer, self._shown()]

    def _info(self, name: str) -> Any:
        return shown_info(self._core.ask(f"$JS.API.CONSUMER.INFO.{self._name}.{name}"))

    def _delete(self, seq: int) -> Any:
        answer = self._core.ask(f"$JS.API.STREAM.MSG.DELETE.{self._name}", {"seq": seq})
        return ["error" in answer, self._shown()]

    def _purge(self, keys: dict[str, Any]) -> Any:
        body = prefixed(keys, self._prefix)
        answer = self._core.ask(f"$JS.API.STREAM.PURGE.{self._name}", body)
        return [answer["purged"], self._shown()]

    def _reset(self, name: str, seq: int) -> Any:
        body = {"seq": seq} if seq else ""
        fields = self._core.ask(f"$JS.API.CONSUMER.RESET.{self._name}.{name}", body)
        error = fields.get("error", {}).get("description")
        return [error or fields.get("reset_seq"), self._shown()]

    def _state(self) -> Any:
        state = self._core.ask(f"$JS.API.STREAM.INFO.{self._name}")["state"]
        return [state["messages"], state["first_seq"], state["last_seq"]]


def programs() -> list[tuple[int, list[Any]]]:
    lines = (RECORDED / "programs.jsonl").read_text().splitlines()
    return [tuple(json.loads(line)) for line in lines]


@each("seed, recorded", programs())
def test_a_program_does_what_it_did_on_nats_server(seed: int, recorded: list[Any]) -> None:
    steps = Program(seed).steps()
    found = Run(seed).answers(steps)
    differing = [one for one in zip(steps, recorded, found, strict=True) if one[1] != one[2]]
    assert differing[:1] == []


def test_requests_about_consumers_are_answered_as_nats_server_did() -> None:
    core = Core()
    differences = []
    for number, line in enumerate((RECORDED / "api.jsonl").read_text().splitlines(), 1):
        subject, body, headers, _, recorded = json.loads(line)
        answer = core.request(subject, body, (headers or "").encode())
        found = [] if answer is None else [["", masked_pause(masked(answer))]]
        if found != recorded:
            differences.append((number, subject, body, recorded, found))
    assert differences[:SHOWN] == []


def masked_pause(text: str) -> str:
    """Return an answer without the time that a pause has left."""
    head, key, tail = text.partition('"pause_remaining":')
    return head + key + "0" + tail.lstrip("0123456789") if key else text
