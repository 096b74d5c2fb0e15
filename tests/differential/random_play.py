"""Play scripts made at random to both servers and report where they part.

`python -m tests.differential.random_play wire --seed 1 --count 2000`, from the checkout; it prints
the seed, each difference, and the counts. `--first` begins at a later script.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys

from .pair import NAMES, Arena
from .random_scripts import KINDS, make
from .report import mismatch
from .runner import Outcome, byte_by_byte, whole
from .script import Script, ServerConfig


async def difference(arena: Arena, script: Script) -> str | None:
    """Play `script` to both servers, and to midge also cut into bytes; return how they differ."""
    try:
        servers = arena.pair(script.config)
    except RuntimeError as error:
        return _if_not_both_refuse(str(error))
    expected, ours = await asyncio.gather(*(servers.play(name, script, whole) for name in NAMES))
    found = mismatch(script, expected, ours, NAMES, "sent whole")
    if found is not None:
        return found
    cut: Outcome = await servers.play(NAMES[1], script, byte_by_byte)
    return mismatch(script, expected, cut, NAMES, "sent byte by byte")


def _if_not_both_refuse(error: str) -> str | None:
    """Return `error`; a configuration that nats-server refuses is no difference."""
    return None if "nats-server'" in error else f"one server does not start: {error}"


def main() -> int:
    """Play what the command line asks for; return 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    arena, found = Arena(), 0
    config = ServerConfig("none")
    for number in range(given.first, given.first + given.count):
        script = make(given.kind, given.seed, number)
        if script.config == config:  # by the very same object the servers go on
            script = dataclasses.replace(script, config=config)
        config = script.config
        report = asyncio.run(difference(arena, script))
        if report is not None:
            found += 1
            print(report, flush=True)
    arena.close()
    print(
        f"{given.kind}: seed {given.seed}, {given.count} scripts, {found} differences", flush=True
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
