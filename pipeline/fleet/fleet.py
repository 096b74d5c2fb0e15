"""A realistic fleet: its clients, their subscriptions and their messages.

It is a parcel company: vans that report positions, trackers that share the load in a queue group,
dispatchers that ask services for routes, dashboards, an audit log. It also has the faults of real
systems: a forgotten billing subscriber, a dashboard that subscribes twice, debug traces without a
subscriber, a tracker that joins late and a wall map that is too slow.

`midge.pipeline.fleet.recorded` turns it into record files, `midge.pipeline.fleet.live` into
traffic.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

REGIONS = ("eu", "us", "ap")

CLIENT_CLOSED = "Client Closed"
STALE_CONNECTION = "Stale Connection"
SLOW_CONSUMER = "Slow Consumer (Pending Bytes)"


@dataclass(frozen=True)
class Publication:
    """A recurring message of a member; with `inbox` every message is a request."""

    subject: str
    every_s: float
    size_min: int
    size_max: int
    inbox: str | None = None
    has_headers: bool = False


@dataclass(frozen=True)
class Listening:
    """One subscription of a member; with `answer_ms` it replies to requests in about that time."""

    subject: str
    queue: str | None = None
    answer_ms: float | None = None


@dataclass(frozen=True)
class Member:
    """One client of the fleet, for the share `joins`..`leaves` of the time (0 to 1)."""

    name: str
    listens: tuple[Listening, ...] = ()
    publishes: tuple[Publication, ...] = ()
    joins: float = 0.0
    leaves: float = 1.0
    reason: str = CLIENT_CLOSED
    lang: str = "python"


@dataclass
class Truth:
    """The generator's own counts, which tests compare with the gold tables."""

    messages: Counter[str] = field(default_factory=Counter)
    """Messages by subject, replies included."""
    sizes: Counter[str] = field(default_factory=Counter)
    """Bytes by subject."""
    published: Counter[str] = field(default_factory=Counter)
    """Messages by the publishing member's name."""
    plain_deliveries: int = 0
    queue_deliveries: int = 0
    no_interest: Counter[str] = field(default_factory=Counter)
    """Undelivered messages, by subject."""
    queue_shares: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Messages by queue group and the member that got them."""
    latencies_us: dict[str, list[int]] = field(default_factory=dict)
    """Time to the reply, by the subject of the request."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Disconnects by reason."""

    def sent(self, member: str, subject: str, size: int) -> None:
        """Count one published message."""
        self.messages[subject] += 1
        self.sizes[subject] += size
        self.published[member] += 1

    @property
    def total(self) -> int:
        """All messages."""
        return self.messages.total()


def build_fleet(vans: int = 60, seed: int = 1) -> list[Member]:
    """Return the members of a fleet with `vans` vans; the same seed gives the same fleet."""
    rng = random.Random(seed)
    on_the_road = [_van(number, rng) for number in range(vans)]
    commands = [
        Publication(listening.subject, 40.0, 20, 40, has_headers=True)
        for van in on_the_road
        for listening in van.listens
        if listening.subject.endswith(".cmd")
    ]
    # Large enough that the server notices a client that does not keep up.
    tiles = Publication("map.tiles", 0.5, 28_000, 36_000)
    commands.append(tiles)
    control = Member(name="control-room", publishes=tuple(commands))
    return [*_services(), *_offices(), control, *on_the_road, *_faults()]


def duplicate_listeners() -> set[str]:
    """Return the names of the members that listen to the same subject twice."""
    return {member.name for member in _faults() if len(set(member.listens)) < len(member.listens)}


def dead_subjects() -> set[str]:
    """Return the subjects that have subscribers but no publisher."""
    return {"billing.v1.>", "fleet.*.drone.*.pos"}


def ticks(
    publication: Publication, begin_s: float, end_s: float, rng: random.Random
) -> Iterator[float]:
    """Yield the times at which a member publishes: periodic, with jitter and a random phase."""
    time = begin_s + rng.random() * publication.every_s
    while time < end_s:
        yield time
        time += publication.every_s * rng.uniform(0.8, 1.2)


def _van(number: int, rng: random.Random) -> Member:
    region = rng.choices(REGIONS, (5, 3, 2))[0]
    base = f"fleet.{region}.van.{number:03d}"
    publishes = [
        Publication(f"{base}.pos", 1.0, 90, 120),
        Publication(f"{base}.battery", 10.0, 30, 40),
        Publication(f"{base}.door", 25.0, 20, 30, has_headers=True),
    ]
    if number % 5 == 0:
        publishes.append(Publication(f"debug.van.{number:03d}.trace", 2.0, 200, 900))
    flaky = number % 12 == 7
    return Member(
        name=f"van-{number:03d}",
        listens=(Listening(f"{base}.cmd"), Listening(f"fleet.{region}.broadcast")),
        publishes=tuple(publishes),
        leaves=rng.uniform(0.5, 0.9) if flaky else 1.0,
        reason=STALE_CONNECTION if flaky else CLIENT_CLOSED,
        lang="go",
    )


def _services() -> Iterator[Member]:
    for number in range(3):
        # The last one joins at half-time, which makes the group's shares visibly uneven.
        yield Member(
            name=f"tracker-{number}",
            listens=(Listening("fleet.*.van.*.pos", queue="trackers"),),
            publishes=(Publication("fleet.stats.tracked", 5.0, 60, 80),),
            joins=0.5 if number == 2 else 0.0,
        )
    for number in range(2):
        yield Member(
            name=f"router-{number}",
            listens=(Listening("svc.route.eta", queue="routers", answer_ms=6.0),),
        )
    yield Member(name="geocoder", listens=(Listening("svc.geocode.lookup", answer_ms=25.0),))
    yield Member(
        name="alarms",
        listens=(Listening("fleet.*.van.*.battery"), Listening("fleet.*.van.*.door")),
        publishes=(Publication("alerts.low_battery", 7.0, 50, 70, has_headers=True),),
    )


def _offices() -> Iterator[Member]:
    for region in REGIONS:
        name = f"dispatch-{region}"
        yield Member(
            name=name,
            listens=(Listening(f"_INBOX.{name}.*"), Listening("alerts.>")),
            publishes=(
                Publication("svc.route.eta", 0.4, 60, 90, inbox=f"_INBOX.{name}"),
                Publication("svc.geocode.lookup", 1.5, 40, 80, inbox=f"_INBOX.{name}"),
                Publication(f"fleet.{region}.broadcast", 15.0, 30, 60),
            ),
        )
    yield Member(name="dashboard-world", listens=(Listening("fleet.>"),), lang="javascript")
    yield Member(name="map-cache", listens=(Listening("map.>"),), lang="rust")
    yield Member(name="audit", listens=(Listening("alerts.>"), Listening("svc.>")), lang="java")


def _faults() -> Iterator[Member]:
    yield Member(
        name="legacy-billing",
        listens=(Listening("billing.v1.>"), Listening("fleet.*.drone.*.pos")),
        lang="java",
    )
    yield Member(
        name="dashboard-eu",
        listens=(Listening("fleet.eu.>"), Listening("fleet.eu.>")),
        lang="javascript",
    )
    for number in range(2):
        yield Member(
            name="wall-map",
            listens=(Listening("fleet.*.van.*.pos"), Listening("map.tiles")),
            joins=0.1 + 0.4 * number,
            leaves=0.3 + 0.4 * number,
            reason=SLOW_CONSUMER,
            lang="javascript",
        )
