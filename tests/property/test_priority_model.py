"""Waiting pull requests, round-robin and by priority, against a model of their order.

The model is a list of requests. A message goes to the first that may have it, which then stands
behind the others; those that are passed over do so at once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from midge.jetstream.consumer.pull import PullRequests
from tests.support.consumer_rig import Rig, Sent

POLICIES = ("none", "overflow", "prioritized", "pinned_client")
PIN_TIMEOUT_S = 20
WRONG_PIN = -1
NOBODY = 0
STRANGER = 99
"""Pins are counted from 1 on; a stranger's is none of them."""

Outcome = tuple[int, int, int]
"""The inbox, the sequence or `WRONG_PIN`, and the pin that the message carries."""


@dataclass
class Request:
    """A request that waits at an inbox."""

    inbox: int
    left: int
    priority: int = 0
    min_pending: int = 0
    min_ack_pending: int = 0
    pin: int = NOBODY


@dataclass
class Model:
    """Whose turn it is."""

    policy: str
    new: list[int] = field(default_factory=list)
    again: list[int] = field(default_factory=list)
    unacked: set[int] = field(default_factory=set)
    waiting: list[Request] = field(default_factory=list)
    last_seq: int = 0
    pin: int = NOBODY
    pins: int = 0
    pin_due_s: int = 0

    def add(self, request: Request) -> None:
        place = len(self.waiting)
        if self.policy == "prioritized":
            while place and self.waiting[place - 1].priority > request.priority:
                place -= 1
        self.waiting.insert(place, request)

    def deliver(self, now_s: int) -> list[Outcome]:
        """Return the deliveries that are made now."""
        found: list[Outcome] = []
        while self.new or self.again:
            request = self.target(found, now_s)
            if request is None:
                break
            self.waiting.remove(request)
            request.left -= 1
            if request.left:
                self.add(request)
            seq = self.again.pop(0) if self.again else self.new.pop(0)
            self.unacked.add(seq)
            found.append((request.inbox, seq, self.pin))
        return found

    def target(self, found: list[Outcome], now_s: int) -> Request | None:
        for _ in range(len(self.waiting)):
            request = self.waiting[0]
            if request.pin and request.pin != self.pin:
                found.append((request.inbox, WRONG_PIN, NOBODY))
                del self.waiting[0]
            elif self.policy == "pinned_client" and not self.pin:
                self.pins += 1
                self.pin = request.pin = self.pins
                self.pin_due_s = now_s + PIN_TIMEOUT_S
                return request
            elif self.may_have(request):
                return request
            else:
                self.waiting.append(self.waiting.pop(0))
        return None

    def may_have(self, request: Request) -> bool:
        if self.policy == "pinned_client":
            return request.pin == self.pin
        if not request.min_pending and not request.min_ack_pending:
            return True
        return 0 < request.min_pending <= len(self.new) or 0 < request.min_ack_pending <= len(
            self.unacked
        )


class Machine(RuleBasedStateMachine):
    """Does the same to a consumer and to its model."""

    @initialize(policy=st.sampled_from(POLICIES))
    def begin(self, policy: str) -> None:
        self.rig = Rig()
        keys: dict[str, Any] = (
            {} if policy == "none" else {"priority_policy": policy, "priority_groups": ["g"]}
        )
        if policy == "pinned_client":
            keys["priority_timeout_ns"] = PIN_TIMEOUT_S * 10**9
        consumer = self.rig.create(max_ack_pending=-1, ack_wait_ns=3600 * 10**9, **keys)
        assert isinstance(consumer.receivers, PullRequests)
        self.consumer = consumer
        self.model = Model(policy)
        self.delivered: dict[int, Sent] = {}
        self.ids = {STRANGER: "stranger"}
        self.now_s = 0
        self.inboxes = 0

    def compare(self) -> None:
        """See that the same went out on both sides."""
        expected = self.model.deliver(self.now_s)
        sent = self.rig.taken()
        assert len(sent) == len(expected), (sent, expected)
        # A message for which no request is there goes to the end of those to be delivered again,
        # as on nats-server: how often depends on when the consumer looks, so any of them may come.
        again = [seq for _, seq, _ in expected if seq in self.delivered] + self.model.again
        for one, (inbox, seq, pin) in zip(sent, expected, strict=True):
            assert one.to == b"_INBOX.%d" % inbox
            if seq == WRONG_PIN:
                assert one.status == b"423 Nats-Wrong-Pin-Id"
                continue
            got = one.numbers[1]
            assert got == seq or (seq in self.delivered and got in again)
            if got in again:
                again.remove(got)
            assert self.pin_of(one) == self.ids.setdefault(pin, self.pin_of(one))
            self.delivered[got] = one
        self.model.again = again

    def pin_of(self, one: Sent) -> str:
        for line in one.headers.split(b"\r\n"):
            if line.startswith(b"Nats-Pin-Id: "):
                return line.removeprefix(b"Nats-Pin-Id: ").decode()
        return ""

    @rule(count=st.integers(min_value=1, max_value=3))
    def publish(self, count: int) -> None:
        for _ in range(count):
            self.model.last_seq += 1
            self.model.new.append(self.model.last_seq)
            self.rig.publish("a.1")
            self.compare()

    @rule(
        batch=st.integers(min_value=1, max_value=3),
        least=st.sampled_from([(0, 0), (0, 0), (2, 0), (0, 2), (3, 1)]),
        priority=st.integers(min_value=0, max_value=3),
        pin=st.sampled_from(["", "", "current", "old", "stranger"]),
    )
    def pull(self, batch: int, least: tuple[int, int], priority: int, pin: str) -> None:
        model = self.model
        self.inboxes += 1
        request = Request(self.inboxes, batch)
        body: dict[str, object] = {"batch": batch}
        if model.policy != "none":
            body["group"] = "g"
        if model.policy == "overflow":
            request.min_pending, request.min_ack_pending = least
            body |= {"min_pending": least[0], "min_ack_pending": least[1]}
        elif model.policy == "prioritized":
            body["priority"] = request.priority = priority
        elif model.policy == "pinned_client":
            request.pin = {"current": model.pin, "old": max(model.pins - 1, 0)}.get(pin, NOBODY)
            request.pin = STRANGER if pin == "stranger" else request.pin
            if request.pin:
                body["id"] = self.ids[request.pin]
        self.rig.pull(self.consumer, json.dumps(body), reply=b"_INBOX.%d" % self.inboxes)
        if model.pin and request.pin not in {NOBODY, model.pin}:
            (refused,) = self.rig.taken()
            assert refused.status == b"423 Nats-Pin-Id mismatch"
            return
        if model.pin and request.pin:
            model.pin_due_s = self.now_s + PIN_TIMEOUT_S
        model.add(request)
        self.compare()

    @precondition(lambda self: self.model.unacked)
    @rule(draw=st.integers(min_value=0, max_value=100), is_wanted_again=st.booleans())
    def answer(self, draw: int, is_wanted_again: bool) -> None:
        waiting = sorted(self.model.unacked)
        seq = waiting[draw % len(waiting)]
        self.rig.ack(self.consumer, self.delivered[seq], b"-NAK" if is_wanted_again else b"")
        if not is_wanted_again:
            self.model.unacked.remove(seq)
            self.model.again = [one for one in self.model.again if one != seq]
        elif seq not in self.model.again:
            self.model.again.append(seq)
        self.compare()

    @rule(seconds=st.sampled_from([1, 5, 30]))
    def advance(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now_s += 1
            self.rig.advance(1)
            if self.model.pin and self.now_s >= self.model.pin_due_s:
                self.model.pin = NOBODY
            self.compare()

    @rule()
    def unpin(self) -> None:
        if self.model.policy == "pinned_client":
            self.consumer.receivers.pin.unpin("g", "admin")
            self.rig.run()
            self.model.pin = NOBODY
            self.compare()

    @invariant()
    def same_state(self) -> None:
        if hasattr(self, "model"):
            assert self.consumer.receivers.num_waiting() == len(self.model.waiting)
            assert len(self.consumer.acks.pending) == len(self.model.unacked)
            assert self.rig.info(self.consumer)["num_pending"] == len(self.model.new)
            pin = self.consumer.receivers.pin
            assert bool(pin is not None and pin.pin_id) == bool(self.model.pin)


Machine.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestPriorityModel = Machine.TestCase
