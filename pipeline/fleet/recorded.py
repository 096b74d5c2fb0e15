"""The fleet as record files: a simulated server routes the messages and writes the records.

Time is simulated and the SubList does the routing, so a day of traffic takes seconds and everything
about it is known afterwards.
"""

import heapq
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, cast

from midge.pipeline.fleet.fleet import Listening, Member, Publication, Truth, ticks
from midge.pipeline.records.files import write_records
from midge.pipeline.records.format import CLIENTS, INTEREST, MESSAGES
from midge.sublist import OwnedSubscription, SubList, Subscription

ACCOUNT = "$G"
START = datetime(2026, 3, 2, 8, 50, tzinfo=UTC)


@dataclass
class _Client:
    """One simulated connection and its counts."""

    cid: int
    member: Member
    subscriptions: list[Subscription] = field(default_factory=list)
    in_msgs: int = 0
    out_msgs: int = 0
    in_bytes: int = 0
    out_bytes: int = 0


class Simulation:
    """A server that serves `members` for `duration_s` simulated seconds from `start` on.

    After `run`, `rows` has the records by data set, in order of time, and `truth` the counts. The
    same arguments give the same rows.
    """

    def __init__(
        self,
        members: Sequence[Member],
        duration_s: float,
        *,
        server: str = "midge-1",
        start: datetime = START,
        seed: int = 1,
    ) -> None:
        self.server = server
        self.truth = Truth()
        self.rows: dict[str, list[dict[str, Any]]] = {"messages": [], "interest": [], "clients": []}
        self._members = members
        self._duration_s = duration_s
        self._start = start
        self._rng = random.Random(seed)
        self._sublist = SubList()
        self._now_s = 0.0
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._cids = count(1)
        self._turns: dict[str, int] = {}
        self._delivered: Counter[Subscription] = Counter()

    def run(self) -> "Simulation":
        """Run the simulation to its end."""
        for member in self._members:
            self._at(member.joins * self._duration_s, partial(self._connect, member))
        while self._agenda:
            self._now_s, _, happen = heapq.heappop(self._agenda)
            happen()
        return self

    def write(self, root: Path, rows_per_segment: int = 250_000) -> None:
        """Write all records as segments under `root`."""
        for data_set in (INTEREST, CLIENTS, MESSAGES):
            rows = self.rows[data_set.name]
            write_records(root, data_set, self.server, rows, rows_per_segment)

    def _at(self, time_s: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (time_s, next(self._order), happen))

    def _connect(self, member: Member) -> None:
        client = _Client(next(self._cids), member)
        self._note_client(client, "connect", None)
        for number, listening in enumerate(member.listens, 1):
            self._subscribe(client, str(number), listening)
        # Members that leave at the end still get the last replies.
        ends_s = member.leaves * self._duration_s
        leaves_s = ends_s if member.leaves < 1.0 else ends_s + 1.0
        for publication in member.publishes:
            for time_s in ticks(publication, self._now_s, ends_s, self._rng):
                self._at(time_s, partial(self._tick, client, publication))
        self._at(leaves_s, partial(self._disconnect, client))

    def _subscribe(self, client: _Client, sid: str, listening: Listening) -> None:
        queue = listening.queue.encode() if listening.queue else None
        subscription = OwnedSubscription(
            listening.subject.encode(), queue, sid.encode(), owner=(client, listening)
        )
        self._sublist.insert(subscription)
        client.subscriptions.append(subscription)
        self._note_interest(client, subscription, "sub")

    def _disconnect(self, client: _Client) -> None:
        for subscription in client.subscriptions:
            self._sublist.remove(subscription)
            self._note_interest(client, subscription, "disconnect")
        self.truth.reasons[client.member.reason] += 1
        self._note_client(client, "disconnect", client.member.reason)

    def _tick(self, client: _Client, publication: Publication) -> None:
        size = self._rng.randint(publication.size_min, publication.size_max)
        reply = f"{publication.inbox}.{next(self._order)}" if publication.inbox else None
        headers = [("origin", [client.member.name])] if publication.has_headers else None
        self._publish(client, publication.subject, size, reply, headers)

    def _publish(
        self, client: _Client, subject: str, size: int, reply: str | None, headers: Any = None
    ) -> None:
        """Route one message: record it, count it, and let services answer it."""
        result = self._sublist.match(subject.encode())
        chosen = [self._choose(group.name, group.members) for group in result.queues]
        self.truth.sent(client.member.name, subject, size)
        self.truth.plain_deliveries += len(result.plain)
        self.truth.queue_deliveries += len(chosen)
        if not result:
            self.truth.no_interest[subject] += 1
        client.in_msgs += 1
        client.in_bytes += size
        for subscription in chosen:
            queue = (subscription.queue or b"").decode()
            self.truth.queue_shares[queue, _owner(subscription)[0].member.name] += 1
        for subscription in (*result.plain, *chosen):
            self._deliver(subscription, subject, size, reply)
        self.rows["messages"].append(
            {
                **self._stamp(client),
                "subject": subject,
                "reply": reply,
                "headers": headers,
                "payload": _payload(client.member.name, self._now_s, size),
                "size": size,
                "plain_deliveries": len(result.plain),
                "queue_deliveries": len(chosen),
                "no_interest": not result,
            }
        )

    def _deliver(
        self, subscription: Subscription, subject: str, size: int, reply: str | None
    ) -> None:
        receiver, listening = _owner(subscription)
        self._delivered[subscription] += 1
        receiver.out_msgs += 1
        receiver.out_bytes += size
        if reply is not None and listening.answer_ms is not None:
            after_us = max(200, int(self._rng.lognormvariate(0, 0.5) * listening.answer_ms * 1000))
            asked_us = round(self._now_s * 1_000_000)
            answered_s = (asked_us + after_us) / 1_000_000
            self.truth.latencies_us.setdefault(subject, []).append(after_us)
            self._at(answered_s, partial(self._publish, receiver, reply, 48, None))

    def _choose(self, queue: bytes, members: Sequence[Subscription]) -> Subscription:
        """Choose the members of a queue group round-robin, as a server does."""
        turn = self._turns[queue.decode()] = self._turns.get(queue.decode(), -1) + 1
        return members[turn % len(members)]

    def _stamp(self, client: _Client) -> dict[str, Any]:
        time = self._start + timedelta(microseconds=round(self._now_s * 1_000_000))
        return {"time": time, "server": self.server, "account": ACCOUNT, "cid": client.cid}

    def _note_interest(self, client: _Client, subscription: Subscription, event: str) -> None:
        self.rows["interest"].append(
            {
                **self._stamp(client),
                "sid": subscription.sid.decode(),
                "event": event,
                "subject": subscription.subject.decode(),
                "queue": subscription.queue.decode() if subscription.queue else None,
                "delivered": self._delivered[subscription],
                "client_name": client.member.name,
            }
        )

    def _note_client(self, client: _Client, event: str, reason: str | None) -> None:
        self.rows["clients"].append(
            {
                **self._stamp(client),
                "event": event,
                "client_name": client.member.name,
                "lang": client.member.lang,
                "version": "1.0",
                "host": "127.0.0.1",
                "port": 40_000 + client.cid,
                "reason": reason,
                "in_msgs": client.in_msgs,
                "out_msgs": client.out_msgs,
                "in_bytes": client.in_bytes,
                "out_bytes": client.out_bytes,
            }
        )


def _owner(subscription: Subscription) -> tuple[_Client, Listening]:
    return cast("tuple[_Client, Listening]", subscription.owned_by())


def _payload(member: str, time_s: float, size: int) -> bytes:
    text = json.dumps({"from": member, "t": round(time_s, 3)}).encode()
    return text[:size].ljust(size, b" ")
