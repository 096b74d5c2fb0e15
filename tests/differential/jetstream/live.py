"""Run random programs on a live server, many at once, and write down what it answered.

    python -m tests.differential.jetstream.live [--first SEED] [--count N] [--timed] [--kills]

runs them on nats-server and on midge, prints each program that differs with its seed and the first
step that does, and in the end how many there were. A program that differs is run again beside
few others before it is reported, because nats-server answers late on a busy machine. With
`--kills`, both servers are killed in the middle of the programs, which go on after a new start.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, NamedTuple

from tests.differential.jetstream.random_programs import INBOXES, Program, Step
from tests.differential.jetstream.timed_programs import TimedProgram
from tests.differential.jetstream.wire import Message, Wire
from tests.support.processes import Server, midge_command, nats_server_command

QUIET_S = 0.03
"""Nothing more comes of a step when nothing came for so long."""

PATIENT_S = 0.15
"""The same for a program that differed, and runs again beside few others."""

_PATIENT_RUNS = 6

_WRITTEN_S = 1.5
"""nats-server writes what its consumers have delivered and been acknowledged so much later."""

_TAKEN_AWAY = '"reason":"Unacknowledged message was deleted"'
"""Of advisories that are sent in another order, and for some purges by nats-server alone."""

_SILENCE_S = 0.3
_ANSWER_S = 10.0
_TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_ID = re.compile(r'"id":"\w+"')
_LEADER = re.compile(r'"leader":"[^"]*"')
_ACK_TIME = re.compile(r'"ack_time":\d+')
_IN_ACK = re.compile(r"(\$JS\.ACK\.X\d+\.\w+\.\d+\.\d+\.\d+\.)\d{19}")
_NOTHING_DELIVERED = re.compile(
    r'"delivered":\{"consumer_seq":0,"stream_seq":\d+\},'
    r'"ack_floor":\{"consumer_seq":0,"stream_seq":\d+\},'
)
_LAST = re.compile(r',"last_(?:active|ts)":"[^"]*"')
"""What a restart takes away: of consumers on nats-server, of an emptied stream on midge.

nats-server also loses a stream whose configuration it took and does not take again.
"""

_IDS_KNOWN = ('"duplicate": true', '"err_code":10201')
"""Answers to a publish, or to a batch, whose message id is known."""

_STREAM_LOST = ("NATS/1.0 503", '"err_code":10059')
"""Answers to a publish into a stream that is gone, and to a request to its API."""

_OF_A_PROCESS = re.compile(r',"(?:num_waiting":\d+|push_bound":true)')
"""Pull requests and subscriptions, which a kill ends."""

_NEVER_USED = re.compile(r'"first_seq":1,(?="first_ts":"0001-01-01T00:00:00Z","last_seq":0,)')
_NOT_THERE = re.compile(r'"num_deleted":1,("deleted":\[0\],)?(?="consumer_count")')

Answers = list[Any]
Maker = Callable[[int], "Program | TimedProgram"]


def masked(text: str) -> str:
    """Return an answer without what no two servers have in common."""
    text = _ID.sub('"id":""', _LEADER.sub('"leader":""', _TIME.sub("T", text)))
    # nats-server counts sequence 0 of an empty file stream as deleted once a get has missed.
    text = _NOT_THERE.sub("", text) if '"last_seq":0,' in text else text
    text = _NEVER_USED.sub('"first_seq":0,', text)
    return _IN_ACK.sub(r"\g<1>T", _ACK_TIME.sub('"ack_time":0', _without_passed(text)))


def _without_passed(text: str) -> str:
    """Return an answer without what a consumer passed over before its first delivery.

    That depends on when it looked.
    """
    return _NOTHING_DELIVERED.sub(r'"delivered":{},"ack_floor":{},', text)


def _restarted(text: str) -> str:
    """Return a masked answer without what a restart takes away."""
    return _without_passed(_LAST.sub("", text))


def _mapped(results: Any, change: Callable[[str], str]) -> Any:
    """Return nested results with all their texts changed."""
    if isinstance(results, str):
        return change(results)
    if isinstance(results, list):
        return [_mapped(one, change) for one in results]
    if isinstance(results, dict):
        return {name: _mapped(one, change) for name, one in results.items()}
    return results


def _survivors(reports: Answers) -> list[str]:
    """Return the reports on a program without what ends with its server's process."""
    return [_OF_A_PROCESS.sub("", _restarted(text)) for text in reports]


def by_consumer(messages: list[Any]) -> list[Any]:
    """Return the messages of one subscription, consumer by consumer if several sent there.

    nats-server's consumers run beside each other: which one is first is left to chance.
    """
    names = {_consumer(message) for message in messages} - {""}
    return sorted(messages, key=_consumer) if len(names) > 1 else messages


def _consumer(message: Any) -> str:
    """Return the consumer that sent a message; "" for a status, which does not name it."""
    reply: str = message[1]
    return reply.split(".")[3] if reply.startswith("$JS.ACK.") else ""


class Run:
    """One program on one server."""

    def __init__(self, wire: Wire, seed: int, quiet_s: float) -> None:
        self._wire = wire
        self._quiet_s = quiet_s
        self._stream = f"X{seed}"
        self._prefix = f"x{seed}"
        self._acks: dict[str, list[str]] = {}
        inboxes = {f"i{seed}.{number}": f"i{seed}.{number}" for number in range(INBOXES)}
        self._subscriptions = {
            **inboxes,
            f"r{seed}": f"r{self._prefix}.>",
            f"d{seed}": f"d{self._prefix}.>",
            f"a{seed}": f"$JS.EVENT.ADVISORY.*.*.{self._stream}",
            f"b{seed}": f"$JS.EVENT.ADVISORY.*.*.{self._stream}.>",
            f"m{seed}": f"$JS.EVENT.METRIC.*.*.{self._stream}.>",
        }
        self._inboxes = list(inboxes)

    async def answers(self, steps: Iterable[Step]) -> Answers:
        """Do the steps; return the result of each, and then the reports."""
        found = await self.part(steps)
        found.append(await self.final())
        for name in self._subscriptions:
            self._wire.unsubscribe(name)
        return found

    async def part(self, steps: Iterable[Step], wire: Wire | None = None) -> Answers:
        """Do some steps, on another connection if one is given; return the result of each."""
        self._wire = wire or self._wire
        for name, subject in self._subscriptions.items():
            self._wire.subscribe(name, subject)
        found = []
        for step in self._named(steps):
            answer = await getattr(self, "_" + step[0])(*step[1:])
            found.append([answer, await self._arrived()])
        return found

    async def final(self) -> Answers:
        """Return reports on everything that the program has."""
        api = self._api
        found = [await api("STREAM.INFO.@S", {"deleted_details": True, "subjects_filter": ">"})]
        state = json.loads(found[0]).get("state")
        if state is None:
            return found
        first, last = state["first_seq"], state["last_seq"]
        for seq in range(first, min(last, first + 40) + 1):
            found.append(await api("STREAM.MSG.GET.@S", {"seq": seq}))
        names = json.loads(await api("CONSUMER.NAMES.@S", None))["consumers"]
        found += [await api(f"CONSUMER.INFO.@S.{name}", None) for name in names]
        return found

    def _named(self, steps: Iterable[Step]) -> list[Step]:
        text = json.dumps(list(steps))
        made: list[Step] = json.loads(text.replace("@S", self._stream).replace("@p", self._prefix))
        return made

    async def _arrived(self) -> dict[str, Any]:
        """Wait until nothing more comes; return what did, by subscription.

        On a busy machine the time may be over before this process or the server was scheduled,
        so nothing is taken for granted without an answer to a PING.
        """
        found: dict[str, list[Any]] = {}
        until = time.monotonic() + self._quiet_s
        while True:
            if self._take(found):
                until = time.monotonic() + self._quiet_s
            elif time.monotonic() >= until:
                await self._wire.round_trip()
                if not self._take(found):
                    return {name: by_consumer(messages) for name, messages in found.items()}
                until = time.monotonic() + self._quiet_s
            await asyncio.sleep(self._quiet_s / 3)

    def _take(self, found: dict[str, list[Any]]) -> bool:
        """Add new messages to `found`; return whether there were any."""
        has_come = False
        for name in self._subscriptions:
            for message in self._wire.taken(name):
                has_come = True
                if _TAKEN_AWAY not in message.payload:
                    found.setdefault(name, []).append(self._shown(message))
        return has_come

    def _shown(self, message: Message) -> Any:
        reply = message.reply
        if reply.startswith("$JS.ACK."):
            tokens = reply.split(".")
            self._acks.setdefault(tokens[3], []).append(reply)
            del tokens[7]
            reply = ".".join(tokens)
        return [message.subject, reply, masked(message.headers), masked(message.payload)]

    async def _api(self, subject: str, body: Any) -> str:
        text = b"" if body is None else json.dumps(body).encode()
        subject = subject.replace("@S", self._stream)
        # A reset of what does not exist is not answered.
        wait_s = _SILENCE_S if "RESET" in subject else _ANSWER_S
        answer = await self._wire.request("$JS.API." + subject, text, wait_s=wait_s)
        return "" if answer is None else masked(answer.payload)

    async def _publish(self, subject: str, lines: list[str], body: str) -> Any:
        block = "".join(f"{line}\r\n" for line in lines)
        headers = f"NATS/1.0\r\n{block}\r\n".encode() if lines else b""
        return _brief(await self._wire.request(subject, body.encode(), headers))

    async def _publishes(self, messages: list[list[Any]]) -> Any:
        """Publish several messages without a pause."""
        return [await self._publish(*message) for message in messages]

    async def _quietly(self, subject: str, body: Any) -> None:
        """Ask for a change; how much of it a timer has done before is not compared."""
        await self._api(subject, body)

    async def _settled(self, wait_s: float) -> Answers:
        """Wait until all due messages are removed; return the rest.

        Messages that are due at the same time are removed, and leave markers, in any order.
        """
        await asyncio.sleep(wait_s if self._quiet_s == QUIET_S else 2 * wait_s)
        info, *messages = await self.final()
        shown = []
        for text in messages:
            message = json.loads(text).get("message", {})
            message.pop("seq", None)
            shown.append(json.dumps(message, sort_keys=True))
        return [info, sorted(shown)]

    async def _direct(self, subject: str, body: Any) -> Any:
        text = b"" if body is None else json.dumps(body).encode()
        inbox = self._inboxes[0]
        self._wire.publish(f"$JS.API.DIRECT.GET.{self._stream}{subject}", text, reply=inbox)

    async def _pull(self, name: str, body: Any, inbox: int) -> None:
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{name}"
        self._wire.publish(subject, json.dumps(body).encode(), reply=self._inboxes[inbox])

    async def _ack(self, name: str, number: int, body: str) -> Any:
        acks = self._acks.get(name)
        if not acks:
            return None
        subject = acks[number % len(acks)]
        if body == "+NXT":
            self._wire.publish(subject, body.encode(), reply=self._inboxes[0])
            return None
        # An ack that settles nothing is answered at once; one that is not taken never is.
        return _brief(await self._wire.request(subject, body.encode(), wait_s=_SILENCE_S))

    async def _kill(self, inbox: int) -> None:
        """End the subscription of an inbox, and all requests that wait there."""
        name = self._inboxes[inbox]
        self._wire.unsubscribe(name)
        await asyncio.sleep(self._quiet_s)
        self._wire.subscribe(name, name)


def _brief(message: Message | None) -> Any:
    return None if message is None else [masked(message.headers), masked(message.payload)]


class Difference(NamedTuple):
    """A difference: the seed of the program, the step, and its result on both servers."""

    seed: int
    number: int
    step: Any
    real: Any
    found: Any

    def __str__(self) -> str:
        step = json.dumps(self.step)
        real, found = str(self.real), str(self.found)
        at = next((i for i, (a, b) in enumerate(zip(real, found, strict=False)) if a != b), 0)
        shown = "".join(f"\n  {text[max(at - 120, 0) : at + 200]}" for text in (real, found))
        return f"seed {self.seed} step {self.number}: {step}{shown}"


class Pair:
    """Both servers, each with a store of its own that outlives a restart."""

    def __init__(self, program: Maker = Program) -> None:
        self._program = program
        commands = {"nats-server": nats_server_command(), "midge": midge_command()}
        self._directory = tempfile.TemporaryDirectory(prefix="midge-live-")
        self._commands = commands
        self._servers: dict[str, Server] = {}
        self.wires: dict[str, Wire] = {}

    async def start(self) -> None:
        """Start both, and connect to them."""
        for name, command in self._commands.items():
            config = f'jetstream {{ store_dir: "{self._directory.name}/{name}" }}'
            self._servers[name] = Server(command, config)
        for name, server in self._servers.items():
            await asyncio.to_thread(server.wait_ready)
            self.wires[name] = await Wire.connect(*server.address())

    async def stop(self, *, killed: bool = False) -> None:
        """Stop both servers; their stores stay."""
        for server in self._servers.values():
            if killed:
                server.process.kill()
        for wire in self.wires.values():
            await wire.close()
        for server in self._servers.values():
            await asyncio.to_thread(server.stop)

    async def close(self) -> None:
        """Stop both, and remove what they stored."""
        await self.stop()
        self._directory.cleanup()

    async def run(self, seed: int, quiet_s: float) -> dict[str, Answers]:
        """Run a program on both."""
        steps = self._program(seed).steps()
        runs = [Run(wire, seed, quiet_s).answers(steps) for wire in self.wires.values()]
        return dict(zip(self.wires, await asyncio.gather(*runs), strict=True))

    def runs(self, seed: int, quiet_s: float) -> list[Run]:
        """Return the runs of a program on both, which have not begun."""
        return [Run(wire, seed, quiet_s) for wire in self.wires.values()]

    async def part(self, runs: list[Run], steps: list[Step]) -> list[Answers]:
        """Do some steps on both; return the results of each server."""
        wires = self.wires.values()
        parts = [run.part(steps, wire) for run, wire in zip(runs, wires, strict=True)]
        return list(await asyncio.gather(*parts))

    async def final(self, seed: int) -> dict[str, Answers]:
        """Return the reports on what a program has, as after a restart."""
        return {name: await Run(wire, seed, 0).final() for name, wire in self.wires.items()}

    async def remove(self, seed: int) -> None:
        """Delete what a program has made."""
        for wire in self.wires.values():
            await wire.api(f"STREAM.DELETE.X{seed}")


def difference(
    seed: int, answers: dict[str, Answers], program: Maker = Program
) -> Difference | None:
    """Return the first step with different answers."""
    steps = [*program(seed).steps(), "final"]
    real, found = answers.values()
    for number, (one, other) in enumerate(zip(real, found, strict=True)):
        if one != other:
            return Difference(seed, number, steps[number], one, other)
    return None


def _after_kill(steps: list[Step], results: Answers) -> Answers:
    """Return the results of the steps after a kill, without what a restart takes away.

    nats-server answers the first update of a consumer after a restart with what it was before.
    """
    kept: Answers = _mapped(results, _restarted)
    for number, step in enumerate(steps):
        if step[0] == "api" and "CONSUMER.CREATE" in step[1]:
            kept[number][0] = "error" if '"error"' in kept[number][0] else "made"
    return kept


def _is_of_a_kill(one: Difference) -> bool:
    """Return whether a difference is one that every kill may show.

    nats-server forgets the ids of removed messages, and streams whose configuration it took and
    does not take again.
    """
    real, found = str(one.real), str(one.found)
    is_known = any(text in found and text not in real for text in _IDS_KNOWN)
    return is_known or any(text in real and text not in found for text in _STREAM_LOST)


class Comparison:
    """Programs compared; `differences` holds those that differed twice.

    `changed_by_nats_server` counts the programs in which a kill took something from nats-server, or
    gave it removed messages again; the rest of such a program is not compared.
    """

    def __init__(self, at_once: int, program: Maker = Program) -> None:
        self._at_once = at_once
        self._program = program
        self.differences: list[Difference] = []
        self.programs = 0
        self.changed_by_nats_server = 0

    async def run(self, seeds: Iterable[int], *, restarts: bool) -> None:
        """Run programs in a pair of servers; with `restarts`, look at all again after one."""
        pair = Pair(self._program)
        await pair.start()
        waiting = list(seeds)
        kept: list[int] = []

        async def work() -> None:
            while waiting:
                seed = waiting.pop(0)
                self.programs += 1
                if difference(seed, await pair.run(seed, QUIET_S), self._program):
                    suspects.append(seed)
                elif restarts:
                    kept.append(seed)
                    continue
                await pair.remove(seed)

        suspects: list[int] = []
        try:
            await asyncio.gather(*(work() for _ in range(self._at_once)))
            await asyncio.gather(*(self._try_again(pair, suspects) for _ in range(_PATIENT_RUNS)))
            if kept:
                await pair.stop()
                await pair.start()
                await self._compare_again(pair, kept)
        finally:
            await pair.close()

    async def run_killed(self, seeds: Iterable[int]) -> None:
        """Run programs in a pair of servers that is killed in the middle of all of them.

        Those with a stream in memory are left out: a kill takes it away.
        """
        kept = [seed for seed in seeds if Program(seed).storage == "file"]
        self.programs += len(kept)
        suspects = await self._killed(kept, self._at_once, QUIET_S)
        if suspects:
            again = [one.seed for one in suspects]
            self.differences += await self._killed(again, _PATIENT_RUNS, PATIENT_S)

    async def _killed(self, seeds: list[int], at_once: int, quiet_s: float) -> list[Difference]:
        """Return how programs differ that a kill cuts at random places."""
        pair = Pair()
        turns = asyncio.Semaphore(at_once)
        answers: dict[int, list[Answers]] = {seed: [[], []] for seed in seeds}

        async def part(seed: int, *, second: bool) -> None:
            steps = Program(seed).steps()
            cut = Random(seed).randint(1, len(steps))
            steps = steps[cut:] if second else steps[:cut]
            async with turns:
                found = await pair.part(runs[seed], steps)
                if second:
                    finals = [await run.final() for run in runs[seed]]
                    found = [[*one, final] for one, final in zip(found, finals, strict=True)]
                    found = [_after_kill(steps, one) for one in found]
            known = answers[seed]
            answers[seed] = [one + new for one, new in zip(known, found, strict=True)]

        changed: list[Difference] = []
        await pair.start()
        try:
            runs = {seed: pair.runs(seed, quiet_s) for seed in seeds}
            await asyncio.gather(*(part(seed, second=False) for seed in seeds))
            known = {seed: await pair.final(seed) for seed in seeds}
            await asyncio.sleep(_WRITTEN_S)
            await pair.stop(killed=True)
            await pair.start()
            for seed, before in known.items():
                after = await pair.final(seed)
                lost = {name: _survivors(before[name]) != _survivors(after[name]) for name in after}
                if lost["midge"]:
                    changed.append(Difference(seed, -1, "a kill", before["midge"], after["midge"]))
                if lost["nats-server"]:
                    self.changed_by_nats_server += 1
                if any(lost.values()):
                    del answers[seed]
            await asyncio.gather(*(part(seed, second=True) for seed in list(answers)))
        finally:
            await pair.close()
        compared = [
            difference(seed, dict(zip(pair.wires, both, strict=True)))
            for seed, both in answers.items()
        ]
        return changed + [one for one in compared if one and not _is_of_a_kill(one)]

    async def _try_again(self, pair: Pair, suspects: list[int]) -> None:
        """Run those that differed again, with more patience."""
        while suspects:
            seed = suspects.pop(0)
            again = difference(seed, await pair.run(seed, PATIENT_S), self._program)
            await pair.remove(seed)
            if again:
                self.differences.append(again)

    async def _compare_again(self, pair: Pair, seeds: list[int]) -> None:
        for seed in seeds:
            answers = (await pair.final(seed)).values()
            real, found = ([_restarted(text) for text in one] for one in answers)
            is_lost = '"err_code":10059' in real[0]
            if real != found and not is_lost:
                self.differences.append(Difference(seed, -1, "after a restart", real, found))


def main() -> int:
    """Compare as many programs as the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--first", type=int, default=1, help="first seed")
    parser.add_argument("--count", type=int, default=200, help="how many programs")
    parser.add_argument("--at-once", type=int, default=20, help="how many at a time")
    parser.add_argument("--batch", type=int, default=500, help="how many in a pair of servers")
    parser.add_argument("--timed", action="store_true", help="programs with timers")
    parser.add_argument("--kills", action="store_true", help="kill the servers in the middle")
    options = parser.parse_args()
    program: Maker = TimedProgram if options.timed else Program
    comparison = Comparison(options.at_once, program)
    end = options.first + options.count
    for number, first in enumerate(range(options.first, end, options.batch)):
        told = len(comparison.differences)
        seeds = range(first, min(first + options.batch, end))
        if options.kills:
            asyncio.run(comparison.run_killed(seeds))
        else:
            asyncio.run(comparison.run(seeds, restarts=number % 10 == 9))
        for one in comparison.differences[told:]:
            print(one, flush=True)
        print(f"{comparison.programs} programs, {len(comparison.differences)} differ", flush=True)
    if options.kills:
        print(f"a kill changed {comparison.changed_by_nats_server} programs on nats-server")
    return bool(comparison.differences)


if __name__ == "__main__":
    sys.exit(main())
