"""The runner of other projects' programs reports how one ended, and what it printed."""

from __future__ import annotations

import sys

from tests.support.processes import midge_command
from tests.third_party.run import run_on

SAY = "import sys; print(*sys.argv[1:]); sys.exit(int(len(sys.argv) > 2))"


def test_a_program_gets_the_servers_address() -> None:
    command = [sys.executable, "-c", SAY]
    assert run_on(midge_command(), command) == ["nats://127.0.0.1:PORT", "exit 0"]


def test_a_program_that_fails_is_told() -> None:
    command = [sys.executable, "-c", SAY, "URL", "more"]
    assert run_on(midge_command(), command) == ["nats://127.0.0.1:PORT more", "exit 1"]
