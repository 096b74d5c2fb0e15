"""Random programs, each for its own stream: configure, publish, request, pull and acknowledge.

A program is a list of steps without anything that needs a timer. In its texts `@S` is replaced by
the stream's name, and `@p` by the prefix of its subjects.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Step = list[Any]

SUBJECTS = ("@p.a", "@p.b", "@p.c.d", "@p.c.e")
FILTERS = ("@p.a", "@p.>", "@p.*", "@p.c.*", "@p.c.>", "@p.z")
INBOXES = 3
CONSUMERS = ("C0", "C1", "C2")
HOUR_NS = 3600 * 10**9
FAR = "2100-01-01T00:00:00Z"
LONG_AGO = "2001-01-01T00:00:00Z"

_ACKS = ("", "", "", "+ACK", "-NAK", "-NAK", "+TERM", "+TERM why", "+WPI", "+NXT", "junk")
_TTLS = ("1h", "3600", "never", "0", "zz", "500ms", "-1s")
_INCREMENTS = ("+1", "-2", "5", "x", "0")


class Program:
    """Makes the steps of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.retention = self.random.choice(["limits"] * 5 + ["interest", "workqueue"])
        self.storage = self.random.choice(["memory", "file"])
        self.is_counter = False
        self.has_batches = False
        self.consumers = CONSUMERS[:1] if self.retention == "workqueue" else CONSUMERS
        self.with_consumers = self.random.random() < 0.6
        self.fixed: dict[str, dict[str, Any]] = {}
        self.batches = 0

    def steps(self) -> list[Step]:
        """Return the steps."""
        made = [["api", "STREAM.CREATE.@S", self.configuration()]]
        if self.with_consumers:
            made.append(self.consumer(self.consumers[0]))
        made += [self.step() for _ in range(self.random.randint(10, 30))]
        return made

    # Streams.

    def maybe(self, chance: float) -> bool:
        """Return whether to do something this time."""
        return self.random.random() < chance

    def configuration(self) -> dict[str, Any]:
        """Return a stream's configuration; some are refused."""
        keys: dict[str, Any] = {
            "name": "@S",
            "subjects": ["@p.>"],
            "storage": self.storage,
            "retention": self.retention,
            "allow_direct": self.maybe(0.9),
        }
        pick = self.random.choice
        if self.maybe(0.2):
            keys["max_msgs"] = pick([1, 3, 6])
        if self.maybe(0.15):
            keys["max_bytes"] = pick([100, 200, 400])
        if self.maybe(0.25):
            keys["max_msgs_per_subject"] = pick([1, 1, 2, 3])
        if self.maybe(0.15):
            keys["max_msg_size"] = pick([10, 60, 120])
        if self.maybe(0.2):
            keys["discard"] = "new"
            keys["discard_new_per_subject"] = self.maybe(0.4)
        return keys | self.permissions() | self.features() | self.rest()

    def permissions(self) -> dict[str, Any]:
        """Return what may be done to a stream beside publishing."""
        keys: dict[str, Any] = {}
        for key in ("deny_delete", "deny_purge"):
            if self.maybe(0.06) and (key == "deny_purge" or self.retention == "limits"):
                keys[key] = True  # midge refuses to deny deletions with another retention
        if self.maybe(0.4):
            keys["allow_rollup_hdrs"] = True
        if self.maybe(0.03):
            keys["sealed"] = True
        return keys

    def features(self) -> dict[str, Any]:
        """Return what a stream has of the newer features."""
        keys: dict[str, Any] = {}
        if self.maybe(0.25):
            keys["allow_msg_ttl"] = True
        if self.maybe(0.05):
            keys["subject_delete_marker_ttl"] = HOUR_NS
        if self.maybe(0.1):
            keys["allow_msg_counter"] = self.is_counter = True
        if self.maybe(0.2):
            keys["allow_atomic"] = self.has_batches = True
        if self.maybe(0.05):
            keys["allow_msg_schedules"] = True
        return keys

    def rest(self) -> dict[str, Any]:
        """Return where a stream begins, its mappings, and what it says of consumers."""
        keys: dict[str, Any] = {}
        pick = self.random.choice
        if self.maybe(0.1):
            keys["first_seq"] = pick([5, 100])
        if self.maybe(0.1):
            keys["subject_transform"] = pick(
                [
                    {"src": "@p.a", "dest": "@p.t.a"},
                    {"src": "@p.c.*", "dest": "@p.t.$1"},
                    {"src": "@p.c.*", "dest": "@p.{{left(1,1)}}.{{partition(3,1)}}"},
                    {"src": "", "dest": "@p.b"},
                    {"src": "@p.>", "dest": "@p.b"},
                ]
            )
        if self.maybe(0.1):
            source = pick(["@p.>", "@p.c.>", ""])
            dest = {"@p.>": "r@p.>", "@p.c.>": "r@p.>", "": ">"}[source]
            keys["republish"] = {"src": source, "dest": dest, "headers_only": self.maybe(0.3)}
        if self.maybe(0.08):
            keys["max_consumers"] = pick([1, 2])
        if self.maybe(0.08):
            keys["consumer_limits"] = {"max_ack_pending": pick([1, 2, 5])}
        if self.maybe(0.06):
            keys["metadata"] = {"k": "v"}
        if self.maybe(0.05):
            keys["description"] = "words"
        return keys

    # Steps.

    def step(self) -> Step:
        """Return any step."""
        draw = self.random.random()
        if self.with_consumers:
            if draw < 0.35:
                return self.publish()
            if draw < 0.85:
                return self.use_consumer()
            return self.look()
        if draw < 0.6:
            return self.publish()
        return self.look()

    def publish(self) -> Step:
        """Return a step that publishes one message."""
        lines: list[str] = []
        if self.is_counter and self.maybe(0.8):
            lines.append("Nats-Incr: " + self.random.choice(_INCREMENTS))
        if self.has_batches and self.maybe(0.4):
            return self.batched()
        lines += self.expectations()
        lines += [line() for chance, line in self.lines() if self.maybe(chance)]
        if self.maybe(0.03):
            lines += [f"Nats-Schedule: @at {FAR}", "Nats-Schedule-Target: @p.a"]
        has_body = not self.is_counter or self.maybe(0.1)
        body = "x" * self.random.randrange(40) if has_body else ""
        return ["publish", self.random.choice(SUBJECTS), lines, body]

    def lines(self) -> list[tuple[float, Callable[[], str]]]:
        """Return headers, each with its chance."""
        pick = self.random.choice
        return [
            (0.25, lambda: f"Nats-Msg-Id: id{self.random.randrange(4)}"),
            (0.1, lambda: "Nats-Rollup: " + pick(["sub", "all", "zz"])),
            (0.1, lambda: "Nats-TTL: " + pick(_TTLS)),
            (0.15, lambda: "X: y"),
        ]

    def expectations(self) -> list[str]:
        """Return headers that say what a publisher expects of the stream."""
        pick = self.random.choice
        lines: list[str] = []
        number = pick(["0", "0", "1", "2", "3", "4", "5", "x"])
        if self.maybe(0.05):
            lines.append("Nats-Expected-Stream: " + pick(["@S", "OTHER"]))
        if self.maybe(0.06):
            lines.append(f"Nats-Expected-Last-Sequence: {number}")
        if self.maybe(0.1):
            lines.append(f"Nats-Expected-Last-Subject-Sequence: {number}")
            if self.maybe(0.3):
                subject = pick(["@p.a", "@p.>", "@p.c.*"])
                lines.append(f"Nats-Expected-Last-Subject-Sequence-Subject: {subject}")
        if self.maybe(0.04):
            lines.append(f"Nats-Expected-Last-Msg-Id: id{self.random.randrange(4)}")
        return lines

    def batched(self) -> Step:
        """Return a step that publishes a message of an atomic batch."""
        pick = self.random.choice
        self.batches += 1
        lines = [f"Nats-Batch-Id: b{self.batches // 4}"]
        if self.maybe(0.97):
            lines.append(f"Nats-Batch-Sequence: {self.batches % 4 + 1 - self.maybe(0.1)}")
        if self.batches % 4 == 3 or self.maybe(0.2):
            lines.append("Nats-Batch-Commit: " + pick(["1", "1", "1", "eob", "zz"]))
        if self.maybe(0.1):
            lines.append(f"Nats-Msg-Id: id{self.random.randrange(4)}")
        if self.maybe(0.1):
            lines.append("Nats-Expected-Last-Subject-Sequence: " + pick(["0", "1", "2"]))
        if self.is_counter:
            lines.append("Nats-Incr: 1")
        return ["publish", pick(SUBJECTS), lines, "" if self.is_counter else "batched"]

    def look(self) -> Step:
        """Return a step that reads the stream, removes of it, or changes it."""
        makers = (
            [self.message_get] * 5
            + [self.direct_get] * 7
            + [self.message_delete] * 2
            + [self.purge] * 2
            + [self.info] * 2
            + [self.change]
        )
        return self.random.choice(makers)()

    def seq(self) -> int:
        """Return a sequence that may exist."""
        return self.random.choice([0, 1, 1, 2, 3, 4, 5, 6, 8, 12, 100, 101])

    def message_get(self) -> Step:
        """Return a step that gets one message."""
        body: dict[str, Any] = self.random.choice(
            [
                {"seq": self.seq()},
                {"last_by_subj": self.random.choice(SUBJECTS + FILTERS)},
                {"next_by_subj": self.random.choice(FILTERS), "seq": self.seq()},
                {"start_time": self.random.choice([LONG_AGO, FAR])},
                {},
                {"seq": 1, "last_by_subj": "@p.a"},
            ]
        )
        if self.maybe(0.1):
            body["no_hdr"] = True
        return ["api", "STREAM.MSG.GET.@S", body]

    def direct_get(self) -> Step:
        """Return a step that gets messages directly."""
        pick = self.random.choice
        if self.maybe(0.2):
            return ["direct", "." + pick(SUBJECTS + FILTERS[:5]), None]
        body: dict[str, Any] = pick(
            [
                {"seq": self.seq()},
                {"last_by_subj": pick(SUBJECTS + FILTERS)},
                {"next_by_subj": pick(FILTERS), "seq": self.seq()},
                {"next_by_subj": pick(FILTERS), "batch": pick([1, 3, 50])},
                {"seq": self.seq(), "batch": pick([1, 3, 50])},
                {"multi_last": [pick(FILTERS) for _ in range(pick([1, 2, 3]))]},
                {"multi_last": [pick(FILTERS)], "batch": pick([1, 2])},
                {"multi_last": [pick(FILTERS)], "up_to_seq": 1},
                {"start_time": pick([LONG_AGO, FAR]), "batch": 2},
                {"multi_last": []},
                {"seq": 1, "last_by_subj": "@p.a"},
                {},
            ]
        )
        if self.maybe(0.15) and "batch" in body:
            body["max_bytes"] = pick([1, 50, 200])
        if self.maybe(0.1):
            body["no_hdr"] = True
        return ["direct", "", body]

    def message_delete(self) -> Step:
        """Return a step that deletes one message."""
        body: dict[str, Any] = {"seq": max(self.seq(), 1)}
        if self.maybe(0.3):
            body["no_erase"] = True
        return ["api", "STREAM.MSG.DELETE.@S", body]

    def purge(self) -> Step:
        """Return a step that purges."""
        body: dict[str, Any] = {}
        if self.maybe(0.6):
            body["filter"] = self.random.choice(SUBJECTS + FILTERS)
        if self.maybe(0.3):
            body["seq"] = self.seq()
        if self.maybe(0.3):
            body["keep"] = self.random.choice([0, 1, 2])
        return ["api", "STREAM.PURGE.@S", body]

    def info(self) -> Step:
        """Return a step that asks for a report of the stream."""
        body: dict[str, Any] = {}
        if self.maybe(0.5):
            body["deleted_details"] = True
        if self.maybe(0.5):
            body["subjects_filter"] = self.random.choice(FILTERS)
        return ["api", "STREAM.INFO.@S", body]

    def change(self) -> Step:
        """Return a step that updates the stream."""
        return ["api", "STREAM.UPDATE.@S", self.configuration()]

    # Consumers.

    def use_consumer(self) -> Step:
        """Return a step that makes, uses or deletes a consumer."""
        name = self.random.choice(self.consumers)
        draw = self.random.random()
        if draw < 0.12:
            return self.consumer(name)
        if draw < 0.45:
            return self.pull(name)
        if draw < 0.83:
            return ["ack", name, self.random.randrange(20), self.random.choice(_ACKS)]
        if draw < 0.93:
            return ["api", f"CONSUMER.INFO.@S.{name}", None]
        if draw < 0.96:
            return ["kill", self.random.randrange(INBOXES)]
        if draw < 0.98:
            body = self.random.choice([None, None, {"seq": 2}])
            return ["api", f"CONSUMER.RESET.@S.{name}", body]
        return ["api", f"CONSUMER.DELETE.@S.{name}", None]

    def fixed_keys(self) -> dict[str, Any]:
        """Return what a consumer has from its first configuration to its last.

        nats-server does not wake a consumer whose filter changes, and goes on sampling when that
        is taken away.
        """
        keys: dict[str, Any] = {}
        if self.maybe(0.5):
            keys["filter_subject"] = self.random.choice(FILTERS)
        if self.maybe(0.12):
            keys["sample_freq"] = "100"
        return keys

    def pull(self, name: str) -> Step:
        """Return a step that asks for messages."""
        body: dict[str, Any] = {"batch": self.random.choice([1, 1, 2, 3, 5])}
        if self.maybe(0.5):
            body["no_wait"] = True
        if self.maybe(0.2):
            body["max_bytes"] = self.random.choice([60, 150, 300, 1000])
        return ["pull", name, body, self.random.randrange(INBOXES)]

    def consumer(self, name: str) -> Step:
        """Return a step that makes a consumer, or changes it."""
        pick = self.random.choice
        keys: dict[str, Any] = {"durable_name": name, "ack_policy": "explicit"}
        keys["ack_wait"] = HOUR_NS
        if self.retention != "workqueue":
            keys["ack_policy"] = pick(["explicit"] * 5 + ["all", "none"])
            keys["deliver_policy"] = pick(["all"] * 4 + ["last", "new", "last_per_subject"])
            if self.maybe(0.1):
                keys |= {"deliver_policy": "by_start_sequence", "opt_start_seq": 1}
        keys |= self.fixed.setdefault(name, self.fixed_keys())
        for key, values in (
            ("max_ack_pending", [1, 2, 3]),
            ("max_deliver", [1, 2, 3]),
            ("max_waiting", [1, 2]),
            ("max_batch", [2, 3]),
            ("metadata", [{"k": "v"}]),
            ("description", ["words"]),
        ):
            if self.maybe(0.12):
                keys[key] = pick(values)
        if self.maybe(0.1):
            keys["headers_only"] = True
        if self.maybe(0.15):
            keys["deliver_subject"] = f"d@p.{name}"
        body: dict[str, Any] = {"stream_name": "@S", "config": keys}
        if self.maybe(0.2):
            body["action"] = pick(["create", "update"])
        return ["api", f"CONSUMER.CREATE.@S.{name}", body]
