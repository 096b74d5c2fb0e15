"""Show what nats-server answers to the scripts whose name contains the given text.

Run `python -m tests.differential delivery/` from the checkout when writing or reading scripts.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import groupby

from tests.support.processes import Server, nats_server_command

from . import corpus
from .pair import certificates
from .report import describe, escape
from .runner import play
from .script import Script


def main(pattern: str) -> None:
    """Play matching scripts, one server per configuration, and print their outcomes."""
    wanted = [each for each in corpus.load() if pattern in each.name]
    for config, scripts in groupby(wanted, key=lambda each: each.config):
        if config.disposable:
            for each in scripts:
                with Server(nats_server_command(), config.text) as server:
                    _show(each, server)
            continue
        files = certificates() if config.tls else {}
        with Server(nats_server_command(), config.text, files=files) as server:
            for each in scripts:
                _show(each, server)


def _show(script: Script, server: Server) -> None:
    print(f"{script.name}: {script.why}")
    for step in script.steps:
        print(f"    {describe(step)}")
    for conn, received in asyncio.run(play(script, server)).items():
        for each in received:
            print(f"  {conn} < {escape(each.frame, 400)}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
