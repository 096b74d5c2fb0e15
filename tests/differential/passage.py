"""Record what passes from one kind of connection to another, of a nats-server or of a midge.

    python -m tests.differential.passage [real | midge] [FILE]

One server has clients, and leafs, hubs and servers of its cluster that this program speaks for. For
each pair of an origin and a target, the target asks for a subject, alone or with a queue group, and
the origin sends a message to it: in the target's account, through an import of a stream or of a
service, or to a subject that is mapped. A cell is the form in which the message comes: "plain",
"queue" or "nothing". Workers are midge's own and have no cells.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import count, product
from pathlib import Path

from tests.e2e.leafnodes.test_wire import Peer as Leaf
from tests.e2e.leafnodes.test_wire_remote import Door
from tests.support.clusters import Peer, route_port
from tests.support.leafnodes import leaf_port
from tests.support.processes import Server, command_of
from tests.support.raw import Raw

RECORDING = Path(__file__).with_name("passage.json")

ORIGINS = ("client", "leaf", "hub", "route")
TARGETS = ("leaf", "hub", "route")
BORDERS = ("direct", "mapped", "stream", "service")
CLUSTERS = ("other", "same")
"""Whether origin and target are leafs of one cluster, where both are, or come from leafs."""

CONFIG = """
server_name: MIDDLE
cluster { name: C1, listen: "127.0.0.1:-1" }
leafnodes {
  listen: "127.0.0.1:-1"
  reconnect: 50ms
  remotes: [ %s ]
}
accounts {
  A { users: [ { user: a, password: pw } ]
      exports: [ { stream: "str.>" }, { service: "svc.>" } ]
      mappings: { "mapped.*": "made.$1" } }
  B { users: [ { user: b, password: pw } ]
      imports: [ { stream: { account: A, subject: "str.>" } }
                 { service: { account: A, subject: "svc.>" } } ] }
}
"""
SUBJECTS = {
    "direct": ("A", "d.%d", "A", "d.%d"),
    "mapped": ("A", "mapped.%d", "A", "made.%d"),
    "stream": ("A", "str.%d", "B", "str.%d"),
    "service": ("B", "svc.%d", "A", "svc.%d"),
}
"""By border: account and subject of the origin, then account and subject of the target."""

Cells = dict[str, str]


def name_of(origin: str, target: str, cluster: str, border: str, form: str) -> str:
    """Return the name of a cell."""
    return f"{origin} -> {target} {cluster} {border} {form}"


def cells() -> Iterator[tuple[str, str, str, str, str]]:
    """Yield origin, target, cluster, border and the form that is asked for."""
    for origin, target, cluster, border, form in product(
        ORIGINS, TARGETS, CLUSTERS, BORDERS, ("plain", "queue")
    ):
        if cluster == "same" and (target != "leaf" or origin not in {"leaf", "route"}):
            continue  # only leafs have a cluster that messages come from
        yield origin, target, cluster, border, form


class Middle:
    """The server, and all that this program speaks for; two of each kind in each account."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._numbers = count(1)
        self._peers: dict[tuple[str, str, str], Leaf | Peer] = {}
        self._clients: dict[str, Raw] = {}

    async def start(self, kind: str) -> None:
        """Start the server, and link everything to it."""
        doors = [(account, role, Door()) for account in "AB" for role in ("origin", "target")]
        remotes = ", ".join(
            f'{{ url: "nats-leaf://127.0.0.1:{door.port}", account: {account} }}'
            for account, _, door in doors
        )
        server = Server(command_of(kind), CONFIG % remotes)
        self._stack.callback(server.stop)
        for account, role, door in doors:
            self._stack.callback(door.socket.close)
            self._keep("hub", account, role, await door.joined())
        await asyncio.to_thread(server.wait_ready)
        port = await asyncio.to_thread(leaf_port, server)
        for account, role in product("AB", ("origin", "target", "same")):
            leaf = await Leaf.dial(port)
            cluster = "X" if role != "target" else "Y"
            leaf.connect(name=f"{account}{role}", user=account.lower(), cluster=cluster)
            await leaf.settle()
            self._keep("leaf", account, role, leaf)
        port = await asyncio.to_thread(route_port, server)
        for role in ("origin", "target"):
            peer = await Peer.dial(port)
            peer.connect(name=f"N{role}")
            peer.introduce(server_id=f"N{role}", server_name=role)
            await peer.settle()
            for account in "AB":
                self._keep("route", account, role, peer)
        for account in "AB":
            client = await Raw.open(server.url)
            self._stack.push_async_callback(client.close)
            await client.connect(user=account.lower(), **{"pass": "pw"})
            self._clients[account] = client

    def _keep(self, kind: str, account: str, role: str, peer: Leaf | Peer) -> None:
        self._peers[kind, account, role] = peer
        self._stack.push_async_callback(peer.close)

    async def cell(self, origin: str, target: str, cluster: str, border: str, form: str) -> str:
        """Return how a message of `origin` comes to `target`."""
        from_account, sent, to_account, asked = SUBJECTS[border]
        number = next(self._numbers)
        sent, asked = sent % number, asked % number
        peer = self._peers[target, to_account, "same" if cluster == "same" else "target"]
        interest = f"{to_account} {asked}" if target == "route" else asked
        verb = "RS" if target == "route" else "LS"
        group = " q" if form == "queue" else ""
        peer.say(f"{verb}+ {interest}{group and ' q 1'}")
        await peer.settle()
        await self._send(origin, from_account, sent, group, cluster)
        lines = await peer.settle()
        peer.say(f"{verb}- {interest}{group}")
        found = [line for line in lines if line.startswith(("LMSG ", "RMSG ", "HMSG "))]
        if not found:
            return "nothing"
        assert len(found) == 1, found
        return "queue" if {"|", "+"} & set(found[0].split()) else "plain"

    async def _send(
        self, origin: str, account: str, subject: str, group: str, cluster: str
    ) -> None:
        """Send a message, and return when the server has routed it."""
        if origin == "client":
            await self._clients[account].ask(b"PUB %b 1\r\nx" % subject.encode())
            return
        peer = self._peers[origin, account, "origin"]
        groups = f" |{group}" if group else ""
        if origin != "route":
            peer.say(f"LMSG {subject}{groups} 1", "x")
        elif cluster == "same":
            peer.say(f"LMSG X {account} {subject}{groups} 0 1", "x")
        else:
            peer.say(f"RMSG {account} {subject}{groups} 1", "x")
        await peer.settle()


async def record(kind: str) -> Cells:
    """Return all cells of a server of this kind, "real" or "midge"."""
    async with AsyncExitStack() as stack:
        middle = Middle(stack)
        await middle.start(kind)
        return {name_of(*cell): await middle.cell(*cell) for cell in cells()}


def main(arguments: list[str]) -> None:
    """Record, and write the file."""
    kind = arguments[0] if arguments else "real"
    found = asyncio.run(record(kind))
    target = Path(arguments[1]) if len(arguments) > 1 else RECORDING
    target.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
