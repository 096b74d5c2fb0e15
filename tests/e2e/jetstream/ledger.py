"""The published and delivered messages, and why a message may be delivered again."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

EARLY_S = 0.1
"""How much earlier than its time a delivery may seem: the first one waited so long to be sent."""

NAK_EARLY_S = 0.01
"""The same after a NAK, whose time begins when it is sent: clocks are rounded."""


@dataclass
class Delivery:
    """The last delivery of a message to a consumer: its time, its server's life, its outcome."""

    earliest_s: float
    life: int
    is_confirmed: bool = False
    due_s: float = 0.0


class Ledger:
    """Keeps account of one soak; `faults` has everything that must not have happened."""

    def __init__(self, ack_wait_s: float) -> None:
        self.faults: list[str] = []
        self.life = 0
        self.stored: dict[str, dict[str, int]] = defaultdict(dict)
        self.again: dict[str, int] = defaultdict(int)
        self.deliveries = 0
        self._ack_wait_s = ack_wait_s
        self._last: dict[tuple[str, int], Delivery] = {}

    def published(self, stream: str, message_id: str, seq: int) -> None:
        """Note an acknowledged publish; an id has one sequence, however often it was sent."""
        known = self.stored[stream].setdefault(message_id, seq)
        if known != seq:
            self.faults.append(f"{stream} {message_id} is {known} and {seq}")

    def delivered(
        self, consumer: str, seq: int, count: int, earliest_s: float, latest_s: float
    ) -> None:
        """Note a delivery that came between two times, and find the reason for a second one."""
        self.deliveries += 1
        before = self._last.get((consumer, seq))
        if before is None:
            if count > 1 and self.life == 0:
                self.faults.append(f"{consumer} {seq} came for the first time as number {count}")
        elif before.is_confirmed:
            self.faults.append(f"{consumer} {seq} came again after its confirmed ack")
        else:
            reason = self._reason(before, latest_s)
            self.again[reason] += 1
            if not reason:
                waited_s = latest_s - before.earliest_s
                self.faults.append(f"{consumer} {seq} came again after {waited_s:.3f} s")
        self._last[consumer, seq] = Delivery(earliest_s, self.life)

    def refused(self, consumer: str, seq: int, due_s: float) -> None:
        """Note a NAK, with the time from which the message may come again."""
        self._last[consumer, seq].due_s = due_s

    def confirmed(self, consumer: str, seq: int) -> None:
        """Note that an ack has been answered."""
        self._last[consumer, seq].is_confirmed = True

    def never_delivered(self, stream: str, consumer: str) -> set[int]:
        """Return the sequences that are stored in a stream and that the consumer never had."""
        return {seq for seq in self.stored[stream].values() if (consumer, seq) not in self._last}

    def _reason(self, before: Delivery, now_s: float) -> str:
        """Return why a message may come again; empty when there is no reason."""
        if before.life != self.life:
            return "restart"
        if before.due_s and now_s >= before.due_s - NAK_EARLY_S:
            return "nak"
        return "ack_wait" if now_s - before.earliest_s >= self._ack_wait_s - EARLY_S else ""
