"""What a message costs with several workers: measured, put into a model, and held against it.

    python -m bench.scaling [--rounds N] [--seconds S] [--server COMMAND]

A message is read, parsed and matched in its publisher's worker, written and read once more for each
other worker that has a subscriber, and delivered to each subscriber. Where another worker has one
subscriber alone, it only passes on what that one gets. Four measurements give what these parts
cost; the others, with two and three workers, show how far the model can be trusted. What it says of
more cores than a machine has is a prediction.
"""

import argparse
import shlex
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bench import servers, wire
from bench.mixed import service_subjects

FAN = 20
"""Subscribers of the cases with many."""

MADE_OF = 4
"""Number of cases from which the model is made."""

_PAYLOAD = b"x" * 16
_LAST = b"bench.last"
_RECEIVE_BYTES = 1 << 18
_CHUNK_MESSAGES = 2000
_CORES = (4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Place:
    """The destinations of a message: its deliveries, and the other workers that it goes to.

    `alone` of these workers have one subscriber each. All three numbers may be means.
    """

    deliveries: float
    links: float
    alone: float = 0.0


@dataclass(frozen=True)
class Costs:
    """CPU time of the server's processes, in nanoseconds, for the parts of a message's path."""

    take_ns: float
    """To read, parse and match it in the publisher's worker."""
    deliver_ns: float
    """To write it to one client."""
    cross_ns: float
    """To write it to another worker, and to read, parse and match it there."""
    pass_ns: float
    """To write it to another worker for its only subscriber, and to pass it on there."""

    def of(self, place: Place) -> float:
        """Return the cost of a message with these destinations."""
        crossing = (place.links - place.alone) * self.cross_ns + place.alone * self.pass_ns
        return self.take_ns + crossing + (place.deliveries - place.alone) * self.deliver_ns


def fit(pair_ns: float, fan_ns: float, crossing_ns: float, fan_crossing_ns: float) -> Costs:
    """Return the costs derived from four cases.

    The cases are one subscriber and FAN subscribers with a single worker, and the same in the
    other of two workers.
    """
    deliver_ns = (fan_ns - pair_ns) / (FAN - 1)
    take_ns = pair_ns - deliver_ns
    cross_ns = fan_crossing_ns - take_ns - FAN * deliver_ns
    return Costs(take_ns, deliver_ns, cross_ns, crossing_ns - take_ns)


def pairs(workers: int) -> Place:
    """Return the mean destinations of one-to-one traffic with randomly placed clients."""
    return Place(1.0, 1.0 - 1.0 / workers, 1.0 - 1.0 / workers)


def fan_out(workers: int, subscribers: int) -> Place:
    """Return the destinations of a message with `subscribers` spread over all workers."""
    links = min(workers - 1, subscribers)
    with_one = subscribers if subscribers <= workers else max(2 * workers - subscribers, 0)
    return Place(subscribers, links, min(with_one, links))


def rate(costs: Costs, place: Place, cores: int) -> float:
    """Return the number of such messages a second that `cores`, used only by the server, route."""
    return cores * 1e9 / costs.of(place)


# Measuring.


@dataclass(frozen=True)
class Case:
    """A server of `workers`, with its publisher in the first worker and subscribers in `seats`."""

    name: str
    workers: int
    seats: tuple[int, ...]

    @property
    def place(self) -> Place:
        """The destinations of its messages."""
        there = Counter(seat for seat in self.seats if seat)
        return Place(len(self.seats), len(there), sum(count == 1 for count in there.values()))


def cases() -> list[Case]:
    """List the measured cases; the model is made from the first MADE_OF."""
    return [
        Case("pair, 1 worker", 1, (0,)),
        Case(f"fan-out {FAN}, 1 worker", 1, (0,) * FAN),
        Case("pair that crosses, 2 workers", 2, (1,)),
        Case(f"fan-out {FAN} in the other of 2 workers", 2, (1,) * FAN),
        Case("pair within one of 2 workers", 2, (0,)),
        Case(f"fan-out {FAN} over 2 workers", 2, tuple(i % 2 for i in range(FAN))),
        Case("pair that crosses, 3 workers", 3, (2,)),
        Case(f"fan-out {FAN} over 3 workers", 3, tuple(i % 3 for i in range(FAN))),
        Case("two subscribers in 2 other workers of 3", 3, (1, 2)),
    ]


def measure(command: servers.Command, case: Case, seconds: float) -> float:
    """Return the CPU nanoseconds of all server processes per message of `case`."""
    flags = ("--workers", str(case.workers)) if case.workers > 1 else ()
    with servers.running(command, flags) as server, _clients(server, case) as clients:
        publisher, *subscribers = clients
        for subscriber in subscribers:
            subscriber.sendall(b"SUB svc.> 1\r\nSUB %b 2\r\n" % _LAST)
            wire.round_trip(subscriber)
        _play(publisher, subscribers, seconds / 4)  # until everything is warm
        before = server.cpu_s()
        count = _play(publisher, subscribers, seconds)
        return (server.cpu_s() - before) * 1e9 / count


@contextmanager
def _clients(server: servers.Server, case: Case) -> Iterator[list]:
    """Connect the publisher and the subscribers, each in its worker.

    Connections are assigned round-robin, so that every `workers`th one is in the same worker;
    connections in the wrong worker stay idle.
    """
    time.sleep(0.2)  # by then, the server no longer counts the connection that checked its start
    opened = []
    wanted = [0, *case.seats]
    chosen = []
    try:
        for seat in wanted:
            while True:
                opened.append(wire.connect(server.address))
                if (len(opened) - 1) % case.workers == seat:
                    break
            chosen.append(opened[-1])
        yield chosen
    finally:
        for one in opened:
            one.close()


def _play(publisher, subscribers: Sequence, seconds: float) -> int:
    """Publish for `seconds`, wait until every subscriber has the last message; return how many."""
    subjects = service_subjects()
    line = b"PUB %b %d\r\n%b\r\n"
    frames = [
        line % (subjects[i * 7 % len(subjects)], len(_PAYLOAD), _PAYLOAD)
        for i in range(_CHUNK_MESSAGES)
    ]
    chunk = b"".join(frames)
    readers = [threading.Thread(target=_read, args=(one,)) for one in subscribers]
    for reader in readers:
        reader.start()
    count = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        publisher.sendall(chunk)
        count += _CHUNK_MESSAGES
    publisher.sendall(b"PUB %b 0\r\n\r\n" % _LAST)
    for reader in readers:
        reader.join()
    return count


def _read(subscriber) -> None:
    """Read up to the last message."""
    end = b"MSG %b 2 0\r\n\r\n" % _LAST
    buffer = bytearray(_RECEIVE_BYTES)
    kept = b""
    while not kept.endswith(end):
        received = subscriber.recv_into(buffer)
        if not received:
            raise wire.WireError("the server closed the connection")
        kept = (kept + bytes(buffer[max(0, received - len(end)) : received]))[-len(end) :]


# Reporting.


def report(costs: Costs, found: Mapping[str, float]) -> Iterator[str]:
    """Yield the measured figures beside the model's, and the model's predictions."""
    yield f"take {costs.take_ns:.0f} ns, deliver {costs.deliver_ns:.0f} ns, "
    yield f"cross {costs.cross_ns:.0f} ns, pass {costs.pass_ns:.0f} ns\n\n"
    yield "| case | measured | model | off by |\n|---|---:|---:|---:|\n"
    for number, case in enumerate(cases()):
        measured, said = found[case.name], costs.of(case.place)
        off = "made of it" if number < MADE_OF else f"{said / measured - 1:+.0%}"
        yield f"| {case.name} | {measured:.0f} ns | {said:.0f} ns | {off} |\n"
    yield "\nPredictions, in messages a second, all cores being the server's:\n\n"
    yield "| cores = workers | pairs by chance | fan-out 100 |\n|---|---:|---:|\n"
    for cores in (1, *_CORES):
        one, many = rate(costs, pairs(cores), cores), rate(costs, fan_out(cores, 100), cores)
        yield f"| {cores} | {one / 1e6:.1f} M | {many / 1e3:.0f} k |\n"


def main() -> int:
    """Measure, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5)
    default = f"{shlex.quote(sys.executable)} -m midge.server"
    parser.add_argument("--server", default=default)
    arguments = parser.parse_args()
    command = servers.Command.parse(arguments.server, "midge")
    rounds: dict[str, list[float]] = {case.name: [] for case in cases()}
    for _ in range(arguments.rounds):
        for case in cases():
            rounds[case.name].append(measure(command, case, arguments.seconds))
    found = {name: statistics.median(values) for name, values in rounds.items()}
    made_of = [found[case.name] for case in cases()[:MADE_OF]]
    print("".join(report(fit(*made_of), found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
