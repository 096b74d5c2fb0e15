"""Messages like those of services and devices: no two consecutive lines are equal.

A server that handles repeated lines together gains nothing here: subject and size change with every
message, so that each is parsed, matched and appended separately.
"""

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

from bench import frames, wire
from bench.flow import MAX_PINGS, Flow
from bench.metrics import ScenarioError

SERVICES = ("orders", "billing", "stock", "users", "mailer")
EVENTS = ("created", "changed", "closed")
SENSORS = ("temperature", "load", "rpm")

_CYCLE_BYTES = 4 * 1024 * 1024
"""Bytes of a publisher's cycle: more than any cache of lines would hold."""


def service_subjects() -> list[bytes]:
    """Return the subjects of 5 services with 40 instances each and 3 events."""
    return [
        b"svc.%s.%d.%s" % (service.encode(), instance, event.encode())
        for service, instance, event in itertools.product(SERVICES, range(40), EVENTS)
    ]


def telemetry_subjects() -> list[bytes]:
    """Return the subjects of 200 devices with 3 sensors each."""
    return [
        b"tel.dev%d.%s" % (device, sensor.encode())
        for device, sensor in itertools.product(range(200), SENSORS)
    ]


@dataclass(frozen=True, kw_only=True)
class Mixed(Flow):
    """One publisher with random subjects and sizes; each subscriber gets all messages."""

    topics: tuple[bytes, ...]
    bytes_min: int
    bytes_max: int
    wildcard: bool = True

    def subject_names(self, group: int) -> list[bytes]:
        """Return the subjects of the publisher."""
        return list(self.topics)

    def lines(self) -> list[frames.Line]:
        """Return subject and size of every message of a cycle; neighbours differ."""
        choose = random.Random(self.name)
        found: list[frames.Line] = []
        total_bytes = 0
        while total_bytes < _CYCLE_BYTES or found[-1] == found[0]:
            line = (choose.choice(self.topics), choose.randint(self.bytes_min, self.bytes_max))
            if not found or found[-1] != line:
                found.append(line)
                total_bytes += len(line[0]) + line[1]
        return found

    def chunks(self, group: int) -> list[frames.Chunk]:
        """Build the chunks that the publisher sends repeatedly."""
        payload = b"x" * self.bytes_max
        pubs = [frames.pub(subject, payload[:size]) for subject, size in self.lines()]
        return frames.packed(pubs, self.chunk_bytes)

    def subscriptions(self, group: int) -> list[bytes]:
        """Build the SUB line of one subscriber connection."""
        return [frames.sub(b">", b"1", self.queue)]

    def check(self, totals: Sequence[int], offered: Sequence[int]) -> None:
        """Compare the bytes that every subscriber received with the published bytes.

        Raises:
            ScenarioError: there is a difference.
        """
        expected = offered[0] // self.copies
        for total in totals:
            if total - expected not in range(0, (MAX_PINGS + 1) * len(wire.PING), len(wire.PING)):
                raise ScenarioError(f"{expected} bytes expected, got {list(totals)}")
