"""Programs made at random over users, permissions, accounts, imports, exports and mappings.

Each program has phases. A phase loads another configuration, by a reload of the servers that run,
and then clients subscribe, publish and connect; those of earlier phases go on. After each phase the
input of every client must be the same on both servers, message by message, in any order.

`python -m tests.differential.random_reloads --seed 1 --count 500`, from the checkout, prints the
seed and each difference.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple, Self

from tests.support.processes import Server, midge_command, nats_server_command

from .random_scripts import TOKENS, WILD, subject

COMMANDS = {"nats-server": nats_server_command, "midge": midge_command}
WAIT_S = 60.0
ACCOUNTS = "XYZ"
USERS = tuple(f"u{number}" for number in range(6))
CLIENTS = "abcd"
PHASES = 3
SETTLE_S = 0.03
_NOISE = ("INFO ", "PING", "+OK")


class Step(NamedTuple):
    """What one client does: it connects as `user`, or else sends `lines`."""

    client: str
    user: str
    lines: tuple[bytes, ...]


class Phase(NamedTuple):
    """A configuration, and the steps of the clients under it."""

    config: str
    steps: tuple[Step, ...]


# Making programs.


def program(seed: int, number: int) -> list[Phase]:
    """Return the phases of a program; the same seed and number give the same one."""
    random = Random(f"reloads {seed} {number}")
    tables = _tables(random)
    phases, connected = [], dict[str, str]()
    for index in range(PHASES):
        if index:
            _change(random, tables)
        steps = list(_connects(random, tables, connected))
        for turn in range(random.randint(3, 8)):
            client = random.choice(sorted(connected))
            steps.append(Step(client, "", (_command(random, f"{number}.{index}.{turn}"),)))
        phases.append(Phase(_config(tables), tuple(steps)))
    return phases


def _tables(random: Random) -> dict[str, Any]:
    """Draw accounts with users, exports, imports and mappings."""
    tables: dict[str, Any] = {
        name: {"users": [], "exports": [], "imports": [], "mappings": {}} for name in ACCOUNTS
    }
    for user in USERS:
        entry: dict[str, Any] = {"user": user, "password": "p"}
        if random.random() < 0.5:
            entry["permissions"] = _permissions(random)
        tables[random.choice(ACCOUNTS)]["users"].append(entry)
    for _ in range(random.randint(0, 3)):
        _exchange(random, tables)
    for name in ACCOUNTS:
        if random.random() < 0.4:
            _map(random, tables[name])
    return tables


def _permissions(random: Random) -> dict[str, Any]:
    rules: dict[str, Any] = {}
    for side in ("publish", "subscribe"):
        if random.random() < 0.7:
            # midge is stricter: what may be subscribed to must lie within one allowance.
            allowed = WILD if side == "publish" else (*TOKENS, b">")
            kinds = {"allow": _listed(random, allowed), "deny": _listed(random, WILD)}
            rules[side] = {kind: found for kind, found in kinds.items() if found} or "a"
    return rules


def _listed(random: Random, alphabet: tuple[bytes, ...]) -> list[str]:
    return [subject(random, alphabet).decode() for _ in range(random.randint(0, 3))]


def _exchange(random: Random, tables: dict[str, Any]) -> None:
    """Add an export to one account and an import of it to another one."""
    exporter, importer = random.sample(ACCOUNTS, 2)
    kind = random.choice(("stream", "service"))
    pattern = f"{exporter.lower()}.{subject(random, TOKENS).decode()}"
    if any(pattern in export.values() for export in tables[exporter]["exports"]):
        return
    tables[exporter]["exports"].append({kind: pattern})
    entry: dict[str, Any] = {kind: {"account": exporter, "subject": pattern}}
    if random.random() < 0.5:
        entry["to"] = f"to.{pattern}"
    tables[importer]["imports"].append(entry)


def _map(random: Random, table: dict[str, Any]) -> None:
    """Map a literal subject, because of several that overlap nats-server takes any."""
    source = subject(random, TOKENS).decode()
    table["mappings"][source] = f"mapped.{subject(random, TOKENS).decode()}"


def _change(random: Random, tables: dict[str, Any]) -> None:
    """Change one to three parts of the configuration."""
    for _ in range(random.randint(1, 3)):
        name = random.choice(ACCOUNTS)
        table = tables[name]
        kind = random.randrange(6)
        if kind == 0 and table["users"]:
            user = random.choice(table["users"])
            user.pop("permissions", None)
            if random.random() < 0.7:
                user["permissions"] = _permissions(random)
        elif kind == 1:
            _exchange(random, tables)
        elif kind == 2 and table["imports"]:
            table["imports"].pop(random.randrange(len(table["imports"])))
        elif kind == 3:
            table["mappings"].clear()
            if random.random() < 0.6:
                _map(random, table)
        elif kind == 4 and len(table["users"]) > 1:
            table["users"].pop()
        elif kind == 5 and table["users"]:
            random.choice(table["users"])["password"] = random.choice("pq")


def _config(tables: dict[str, Any]) -> str:
    shown = {
        name: {key: one for key, one in table.items() if one} for name, table in tables.items()
    }
    return json.dumps({"accounts": shown})


def _connects(random: Random, tables: dict[str, Any], connected: dict[str, str]) -> Iterator[Step]:
    """Connect clients that are not there yet, at least one."""
    users = [user["user"] for table in tables.values() for user in table["users"]]
    for client in CLIENTS:
        if client not in connected and (not connected or random.random() < 0.6):
            connected[client] = random.choice([*users, "unknown"])
            yield Step(client, connected[client], ())


def _command(random: Random, payload: str) -> bytes:
    """Return a subscription, its end, or a message."""
    kind, sid = random.random(), random.randint(1, 4)
    if kind < 0.4:
        prefix = random.choice((b"", b"", b"x.", b"y.", b"to.x.", b"mapped."))
        return b"SUB %b%b %d" % (prefix, subject(random, WILD), sid)
    if kind < 0.5:
        return b"UNSUB %d" % sid
    prefix = random.choice((b"", b"", b"x.", b"y.", b"z.", b"to.x."))
    reply = b"reply.%b " % subject(random, TOKENS) if random.random() < 0.3 else b""
    body = payload.encode()
    return b"PUB %b%b %b%d\r\n%b" % (prefix, subject(random, TOKENS), reply, len(body), body)


# Playing them.


class Client:
    """A connection whose input is read at once, so that an end after an error loses nothing."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._changed = asyncio.Event()
        self._reading = asyncio.create_task(self._read())
        self.received = b""
        self.has_ended = False
        self.seen = 0

    async def _read(self) -> None:
        with contextlib.suppress(ConnectionError):
            while piece := await self._reader.read(65536):
                self.received += piece
                self._changed.set()
        self.has_ended = True
        self._changed.set()

    async def ask(self, *lines: bytes) -> None:
        """Send `lines` and PING; wait for PONG, or for the end."""
        if self.has_ended:
            return
        pongs = self.received.count(b"PONG\r\n")
        self._writer.write(b"".join(line + b"\r\n" for line in (*lines, b"PING")))
        async with asyncio.timeout(WAIT_S):
            while not self.has_ended and self.received.count(b"PONG\r\n") == pongs:
                self._changed.clear()
                await self._changed.wait()

    def news(self) -> list[str]:
        """Return the messages and errors since the last call."""
        start, self.seen = self.seen, len(self.received)
        return sorted(events(self.received[start:]))

    async def close(self) -> None:
        self._writer.close()
        await self._reading


class Player:
    """One server and the clients of the program that is played."""

    def __init__(self, name: str) -> None:
        self._server = Server(COMMANDS[name](), _config(_tables(Random(0))))
        self._clients: dict[str, Client] = {}

    def start(self) -> None:
        self._server.wait_ready()

    def stop(self) -> None:
        self._server.stop()

    async def phase(self, phase: Phase) -> dict[str, Any]:
        """Play a phase; return the result of the reload and the input of each client."""
        result = await self._reload(phase.config)
        await asyncio.sleep(SETTLE_S)  # a PING to a connection that ends now would reset it
        for step in phase.steps:
            if step.user:
                await self._connect(step.client, step.user)
            else:
                await self._clients[step.client].ask(*step.lines)
        found: dict[str, Any] = {"reload": result}
        for _ in range(2):  # the first round writes the deliveries of it
            for client in self._clients.values():
                await client.ask()
        for name, client in self._clients.items():
            found[name] = [*client.news(), f"ended: {client.has_ended}"]
        return found

    async def end(self) -> None:
        """Disconnect all clients."""
        for client in self._clients.values():
            await client.close()
        self._clients = {}

    async def _connect(self, name: str, user: str) -> None:
        streams = await asyncio.open_connection(*self._server.address())
        client = self._clients[name] = Client(*streams)
        told = {"verbose": False, "pedantic": False, "user": user, "pass": "p", "headers": True}
        await client.ask(b"CONNECT " + json.dumps(told).encode())

    async def _reload(self, config: str) -> str:
        text = await asyncio.to_thread(self._server.reload, config)
        return "reloaded" if "Reloaded server configuration" in text else "refused"


def events(received: bytes) -> Iterator[str]:
    """Yield messages and errors, without what differs between servers."""
    rest = received
    while rest:
        line, _, rest = rest.partition(b"\r\n")
        words = line.decode(errors="replace").split(" ")
        if words[0] in ("MSG", "HMSG"):
            size = int(words[-1])
            body, rest = rest[:size], rest[size + 2 :]
            payload = body[int(words[-2]) :] if words[0] == "HMSG" else body
            has_reply = len(words) - (words[0] == "HMSG") > 4
            # The times and names in an event differ.
            shown = "" if words[1].startswith("$SYS.") else f" {has_reply} {payload.decode()}"
            yield f"{words[1]} {words[2]}{shown}"
        elif line and not line.decode(errors="replace").startswith((*_NOISE, "PONG")):
            yield line.decode(errors="replace")


class Players:
    """Both servers."""

    def __enter__(self) -> Self:
        self._players = {name: Player(name) for name in COMMANDS}
        for player in self._players.values():
            player.start()
        return self

    def __exit__(self, *_: object) -> None:
        for player in self._players.values():
            player.stop()

    async def difference(self, seed: int, number: int) -> str | None:
        """Play a program to both; return where they part."""
        phases = program(seed, number)
        try:
            for index, phase in enumerate(phases):
                found = await asyncio.gather(*(one.phase(phase) for one in self._players.values()))
                if found[0] != found[1]:
                    return _report(
                        seed, number, phases[: index + 1], dict(zip(COMMANDS, found, strict=True))
                    )
        finally:
            for player in self._players.values():
                await player.end()
        return None


def _report(seed: int, number: int, phases: list[Phase], found: dict[str, Any]) -> str:
    lines = [f"seed {seed}, program {number}:"]
    for phase in phases:
        lines += [phase.config, *(f"  {step}" for step in phase.steps)]
    return "\n".join([*lines, *(f"{name}: {outcome}" for name, outcome in found.items())])


async def play(seed: int, first: int, count: int) -> int:
    """Play programs, print each difference, and return their number."""
    parted = 0
    with Players() as players:
        for number in range(first, first + count):
            report = await players.difference(seed, number)
            if report is not None:
                parted += 1
                print(report, flush=True)
    print(f"seed {seed}, {count} programs, {parted} differences", flush=True)
    return parted


def main() -> int:
    """Play what the command line asks for; return 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    return 1 if asyncio.run(play(given.seed, given.first, given.count)) else 0


if __name__ == "__main__":
    sys.exit(main())
