"""Random programs with timers: ages, TTLs, duplicate windows and the markers of removed messages.

A program publishes in bursts and then waits until each of its timers is either long past or far
ahead; only then is it compared. Short timers are 200 ms or more, long ones an hour.
"""

from __future__ import annotations

import random
from typing import Any

from tests.differential.jetstream.random_programs import Step

SUBJECTS = ("@p.a", "@p.b", "@p.c.d", "@p.c.e")
MS_NS = 1_000_000
SECOND_NS = 1_000_000_000
HOUR_NS = 3600 * SECOND_NS

_KINDS = ("age", "age", "ttl", "ttl", "ids", "markers", "markers")


class TimedProgram:
    """Makes the steps of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.kind = self.random.choice(_KINDS)
        self.has_ttls = self.kind in {"ttl", "markers"} or self.maybe(0.3)
        self.wait_s = 1.5
        self.keys = self.configuration()

    def steps(self) -> list[Step]:
        """Return the steps."""
        made: list[Step] = [["api", "STREAM.CREATE.@S", self.keys]]
        for _ in range(self.random.randint(2, 3)):
            made.append(["publishes", [self.message() for _ in range(self.random.randint(1, 8))]])
            if self.maybe(0.3):
                made.append(self.removal())
            made.append(["settled", self.wait_s])
            if self.maybe(0.25):
                made.append(self.change())
                made.append(["settled", self.wait_s])
        return made

    def maybe(self, chance: float) -> bool:
        """Return whether to do something this time."""
        return self.random.random() < chance

    def configuration(self) -> dict[str, Any]:
        """Return a stream's configuration with timers."""
        pick = self.random.choice
        keys: dict[str, Any] = {
            "name": "@S",
            "subjects": ["@p.>"],
            "storage": pick(["memory", "file"]),
            "allow_direct": True,
            "duplicate_window": 100 * MS_NS,
        }
        if self.maybe(0.3):
            keys["max_msgs_per_subject"] = pick([1, 2])
        if self.maybe(0.15):
            keys["max_msgs"] = pick([3, 6])
        if self.has_ttls:
            keys["allow_msg_ttl"] = True
            self.wait_s = 3.5
        return keys | self.timers()

    def timers(self) -> dict[str, Any]:
        """Return the settings that this kind of program is about."""
        pick = self.random.choice
        if self.kind == "age":
            return {"max_age": pick([200, 300, 500]) * MS_NS}
        if self.kind == "ids":
            return {"duplicate_window": pick([400 * MS_NS, HOUR_NS])}
        if self.kind == "ttl":
            return {"max_age": pick([0, HOUR_NS])}
        marker_ns = pick([SECOND_NS, HOUR_NS])
        self.wait_s = 6.5 if marker_ns == SECOND_NS else 3.5
        return {
            "max_age": pick([0, SECOND_NS]),
            "subject_delete_marker_ttl": marker_ns,
            "allow_rollup_hdrs": True,
        }

    def message(self) -> list[Any]:
        """Return a message to publish: subject, headers and body."""
        pick = self.random.choice
        lines = []
        if self.has_ttls and self.maybe(0.6):
            lines.append("Nats-TTL: " + pick(["1s", "1s", "1h", "never"]))
        if self.kind == "ids" or self.maybe(0.1):
            lines.append(f"Nats-Msg-Id: id{self.random.randrange(3)}")
        return [pick(SUBJECTS), lines, "x" * self.random.randrange(20)]

    def removal(self) -> Step:
        """Return a step that removes something by hand."""
        if self.maybe(0.5):
            return ["quietly", "STREAM.PURGE.@S", {"filter": self.random.choice(SUBJECTS)}]
        return ["quietly", "STREAM.MSG.DELETE.@S", {"seq": self.random.randint(1, 6)}]

    def change(self) -> Step:
        """Return a step that updates the stream; stored messages may become due by that."""
        if self.kind == "age":
            self.keys = self.keys | {"max_age": self.random.choice([200 * MS_NS, HOUR_NS])}
        else:
            self.keys = self.keys | {"description": "words"}
        return ["quietly", "STREAM.UPDATE.@S", self.keys]
