"""The public names under a type checker."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import asyncio
from typing import assert_type

import midge
from midge.server.auth import AuthRequest, User
from midge.server.interceptors import Publish, Refuse
from midge.testing import ManualClock


def publish(event: Publish) -> Publish | Refuse:
    return Refuse("no") if event.subject == "x" else event


async def hook(request: AuthRequest) -> User | None:
    return User(name=request.client_name) if request.token else None


async def answer(message: midge.Message) -> None:
    message.respond(message.payload)


async def main() -> None:
    users = [{"user": "shop", "password": "one"}]
    hooked = f"{__name__}:{hook.__name__}"
    async with midge.Server(port=-1, users=users, clock=ManualClock(), hook=hooked) as server:
        server.subscribe("a", answer, queue="q")
        server.subscribe("a", lambda message: message.respond("x"))
        async for message in server.subscribe("b"):
            assert_type(message, midge.Message)
        assert_type((await server.request("a", "b")).headers, dict[str, list[str]])
        with server.faults.drop("a", nth=1) as fault:
            assert_type(fault.hits, int)
        await server.reload(max_payload=3)
        server.intercept(publish=publish)


def blocking() -> None:
    with midge.run_in_thread(midge.load_options("x.conf"), port=-1, seed=3) as server:
        with server.subscribe("x", account="SHOP") as subscription:
            assert_type(subscription.next(1), midge.Message)
        assert_type(server.call(lambda inner: inner.port), int)


asyncio.run(main())
"""

MISTAKES = """
import midge

midge.Server(prot=4222)
midge.Server(port="4222")
midge.run_in_thread(queue_selection="by chance")
"""


def check(folder: Path, root: Path, program: str) -> list[str]:
    """Return what mypy, as strict as can be, prints of a program that is not a part of midge."""
    (folder / "program.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary"]
    command += ["--config-file", "pyproject.toml", "--cache-dir", str(folder)]
    done = subprocess.run(
        [*command, str(folder / "program.py")],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return [line.partition("program.py:")[2] for line in (done.stdout + done.stderr).splitlines()]


@pytest.mark.slow
@pytest.mark.timeout(1260)
def test_a_program_is_checked_strictly(tmp_path: Path, root: Path) -> None:
    assert check(tmp_path, root, PROGRAM) == []
    found = [line for line in check(tmp_path, root, MISTAKES) if " error: " in line]
    assert [line.partition(":")[0] for line in found] == ["4", "5", "6"], found
