"""Try midge as it is installed: `python tests/packaging/installed.py compiled` (or `pure`).

It needs nats-py and nothing else of the tests: each wheel of a release passes it where it is built.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import pkgutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import warnings
from pathlib import Path

import nats

import midge

WAIT_S = 60
MODULES_MIN = 500


async def exchange(url: str) -> None:
    """Publish to a subscription, ask a responder, and store a message, as a client."""
    client = await nats.connect(url)
    subscription = await client.subscribe("greetings.*")
    await client.publish("greetings.world", b"hello")
    assert (await subscription.next_msg(WAIT_S)).data == b"hello"

    async def answer(message: nats.aio.msg.Msg) -> None:
        await message.respond(message.data.upper())

    await client.subscribe("upper", cb=answer)
    assert (await client.request("upper", b"x", timeout=WAIT_S)).data == b"X"
    streams = client.jetstream()
    await streams.add_stream(name="ORDERS", subjects=["orders.>"])
    assert (await streams.publish("orders.1", b"1")).seq == 1
    await client.close()


async def embed() -> None:
    """Serve from within this program, and publish without a socket."""
    with tempfile.TemporaryDirectory() as store:
        async with midge.Server(port=-1, jetstream=True, jetstream_store_dir=store) as server:
            await exchange(server.url)


def serve(command: list[str], folder: Path) -> float:
    """Start a server, be its client, stop it; return the seconds until it takes clients."""
    flags = ["-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", str(folder), "-js"]
    started = time.monotonic()
    with subprocess.Popen([*command, *flags, "-sd", str(folder / "streams")]) as process:
        try:
            while not (found := [*folder.glob("[!.]*.ports")]):
                assert process.poll() is None, "the server ended at once"
                assert time.monotonic() < started + WAIT_S, "no ports file"
                time.sleep(0.01)
            took_s = time.monotonic() - started
            asyncio.run(exchange(json.loads(found[0].read_text())["nats"][0]))
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_S) == 0
        finally:
            process.kill()
    return took_s


def import_all(folders: list[str], prefix: str = "midge.") -> int:
    """Import the modules in `folders` whose packages are there; a warning of theirs is an error."""
    count = 0
    for found in pkgutil.iter_modules(folders, prefix):
        if found.name.endswith(".__main__"):
            continue
        try:
            module = importlib.import_module(found.name)
        except (ImportError, midge.ConfigError):  # an extra is missing
            continue
        count += 1 + (import_all(list(module.__path__), f"{found.name}.") if found.ispkg else 0)
    return count


def main(build: str) -> None:
    """Try the installed midge, which is to be of this `build`."""
    package = Path(midge.__file__).parent
    assert "site-packages" in str(package), package
    program = [str(Path(sysconfig.get_path("scripts"), "midge-server"))]
    line = subprocess.run([*program, "-v"], capture_output=True, text=True, check=True).stdout
    assert f"({build})" in line, line
    with tempfile.TemporaryDirectory() as folder:
        took_s = serve(program, Path(folder))
    asyncio.run(embed())
    warnings.filterwarnings("error", module=r"midge\b")
    count = import_all(list(midge.__path__))
    assert count > MODULES_MIN, count
    size = sum(path.stat().st_size for path in package.rglob("*") if path.is_file())
    print(f"{line.strip()}: {size / 1e6:.1f} MB, first client after {took_s:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1])
