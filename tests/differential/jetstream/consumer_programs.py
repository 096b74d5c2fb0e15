"""Random programs of publishes, pulls and acks, and their results, here or on nats-server.

No step needs a timer. A program works on a stream of its own and ends with reports on all.
"""

from __future__ import annotations

import random
from typing import Any

SUBJECTS = ("s.a", "s.b", "s.c.d")
INBOXES = 3
NANOSECONDS_OF_AN_HOUR = 3600 * 10**9

Step = list[Any]
_BODIES = ("", "", "", "+ACK", "-NAK", "-NAK", "+TERM", "+TERM why", "+WPI", "+NXT 2", "junk")
_FILTERS = (["s.a"], ["s.>"], ["s.*"], ["s.a", "s.b"], ["s.c.*", "s.b"])
_PURGES: tuple[dict[str, Any], ...] = ({}, {"filter": "s.a"}, {"keep": 1}, {"seq": 4})


class Program:
    """Makes the steps of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.retention = self.random.choice(["limits"] * 4 + ["interest", "workqueue"])
        self.names = ["C0"] if self.retention == "workqueue" else ["C0", "C1"]
        self.filtered: set[str] = set()

    def steps(self) -> list[Step]:
        """Return the steps."""
        made: list[Step] = [["stream", self.stream()], self.create(self.names[0])]
        made += [self.step() for _ in range(self.random.randint(8, 22))]
        return [*made, *(["info", name] for name in self.names), ["state"]]

    def stream(self) -> dict[str, Any]:
        """Return what the stream has beside its name and subjects."""
        keys: dict[str, Any] = {"retention": self.retention}
        if self.random.random() < 0.15:
            keys["max_msgs"] = self.random.choice([3, 6])
        if self.random.random() < 0.15:
            keys["max_msgs_per_subject"] = self.random.choice([1, 2])
        return keys

    def create(self, name: str) -> Step:
        """Return a step that makes a consumer, or changes it.

        A filter is never taken away: nats-server 2.15.1 does not wake such a consumer any more.
        """
        keys = self.consumer()
        if name in self.filtered and "filter_subjects" not in keys:
            keys.setdefault("filter_subject", "s.>")
        if "filter_subject" in keys or "filter_subjects" in keys:
            self.filtered.add(name)
        return ["create", name, keys]

    def consumer(self) -> dict[str, Any]:
        """Return what a consumer has beside its name."""
        chosen = self.random
        keys: dict[str, Any] = {"ack_policy": "explicit", "deliver_policy": "all"}
        if self.retention != "workqueue":
            keys["ack_policy"] = chosen.choice(["explicit"] * 5 + ["all", "none"])
            keys["deliver_policy"] = chosen.choice(["all", "all", "all", "last", "new"])
        if chosen.random() < 0.5:
            filters = chosen.choice(_FILTERS)
            if len(filters) == 1:
                keys["filter_subject"] = filters[0]
            else:
                keys["filter_subjects"] = filters
        if chosen.random() < 0.3 and keys["ack_policy"] != "none":
            keys["max_ack_pending"] = chosen.choice([1, 2, 3])
        if chosen.random() < 0.3:
            keys["max_deliver"] = chosen.choice([1, 2, 3])
        if chosen.random() < 0.1:
            keys["headers_only"] = True
        if chosen.random() < 0.1:
            keys["max_waiting"] = chosen.choice([1, 2])
        return keys

    def step(self) -> Step:
        """Return any step."""
        chosen = self.random
        name = chosen.choice(self.names)
        draw = chosen.random()
        if draw < 0.3:
            return ["publish", [chosen.choice(SUBJECTS) for _ in range(chosen.randint(1, 4))]]
        if draw < 0.36:
            return self.create(name)
        if draw < 0.58:
            body: dict[str, Any] = {"batch": chosen.choice([1, 1, 2, 3, 5])}
            if chosen.random() < 0.5:
                body["no_wait"] = True
            if chosen.random() < 0.2:
                body["max_bytes"] = chosen.choice([60, 100, 200, 500])
            return ["pull", name, body, chosen.randrange(INBOXES)]
        if draw < 0.87:
            return ["ack", name, chosen.randrange(20), chosen.choice(_BODIES)]
        if draw < 0.93:
            return ["info", name]
        if draw < 0.96:
            return ["delete", chosen.randint(1, 10)]
        if draw < 0.98:
            return ["purge", chosen.choice(_PURGES)]
        return ["reset", name, chosen.choice([0, 0, 2])]


def prefixed(keys: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return a consumer's or a purge's keys with the subjects of the program's own stream."""
    made = dict(keys)
    for key in ("filter_subject", "filter"):
        if key in made:
            made[key] = prefix + made[key]
    if "filter_subjects" in made:
        made["filter_subjects"] = [prefix + one for one in made["filter_subjects"]]
    return made


def shown_info(info: dict[str, Any]) -> Any:
    """Return of a report what does not depend on time."""
    if "error" in info:
        return info["error"]["err_code"]
    pairs = [info["delivered"], info["ack_floor"]]
    numbers = [pair[key] for pair in pairs for key in ("consumer_seq", "stream_seq")]
    counts = ("num_ack_pending", "num_redelivered", "num_waiting", "num_pending")
    return [*numbers, *(info[key] for key in counts)]


class Deliveries:
    """The messages that the inboxes of a program received, by inbox and consumer."""

    def __init__(self, stream: str, prefix: str) -> None:
        self._stream = stream
        self._prefix = prefix
        self.acks: dict[str, list[str]] = {}

    def shown(
        self, messages: list[tuple[int, str, str, str, str]], *, with_pending: bool
    ) -> dict[str, list[list[str]]]:
        """Sort messages of an inbox's number, subject, reply, headers and payload.

        How many are pending may depend on how fast a server delivers while others are published.
        """
        found: dict[str, list[list[str]]] = {}
        for inbox, subject, reply, headers, payload in messages:
            if headers.startswith("NATS/1.0 503"):
                continue
            name = ""
            if reply:
                tokens = reply.split(".")
                name = tokens[3]
                self.acks.setdefault(name, []).append(reply)
                del tokens[7]
                reply = ".".join(tokens[4:] if with_pending else tokens[4:-1])  # noqa: PLW2901
            shown = subject.removeprefix(self._prefix) if reply else ""
            found.setdefault(f"{inbox} {name}", []).append([shown, reply, headers, payload])
        return found

    def ack_subject(self, name: str, number: int) -> str | None:
        """Return the ack subject of any delivery of a consumer."""
        acks = self.acks.get(name)
        return acks[number % len(acks)] if acks else None
