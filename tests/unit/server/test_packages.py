"""A plain installation serves; each part of the server names the packages that it lacks."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import midge
from midge.extras import EXTRAS
from midge.server.config.options import Options
from midge.server.preflight import missing_packages

NKEY = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
HASH = "$2b$04$" + "a" * 53
TLS = {"cert_file": "x", "key_file": "x"}
OPTIONAL = sorted({*EXTRAS, "uvloop", "pyarrow"})

WITHOUT = f"""
import sys
sys.modules.update(dict.fromkeys({OPTIONAL!r}))
from midge.cli import main
"""

PLAIN = f"""{WITHOUT}
import asyncio, midge

async def serve():
    async with midge.Server(port=-1, jetstream=True, jetstream_store_dir=sys.argv[1]) as server:
        await server.jetstream.add_stream("S", ["s"])
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(b"CONNECT {{}}\\r\\nSUB in 1\\r\\nPUB s in 1\\r\\nx\\r\\n")
        await reader.readuntil(b'"seq":1')
        writer.close()

asyncio.run(serve())
with midge.run_in_thread(port=-1) as server:
    server.publish("a", b"x")
assert not {{name for name in {OPTIONAL!r} if sys.modules.get(name)}}
"""


@pytest.mark.parametrize(
    ("raw", "key", "module"),
    [
        ({"monitoring": {"http_port": -1}}, "monitoring", "aiohttp"),
        ({"monitoring": {"https_port": -1}}, "monitoring", "prometheus_client"),
        ({"websocket": {"port": -1}}, "websocket", "websockets"),
        ({"leafnodes": {"remotes": [{"urls": ["wss://h"]}]}}, "leafnodes", "websockets"),
        ({"tls": TLS}, "tls", "cryptography"),
        ({"cluster": {"tls": TLS}}, "cluster", "cryptography"),
        ({"operator": {"trusted_keys": ["O"]}}, "authorization", "nacl"),
        ({"authorization": {"auth_callout": {"issuer": "A"}}}, "authorization", "nacl"),
        ({"jetstream": {"encryption_key": "x"}}, "jetstream", "cryptography"),
        ({"leafnodes": {"remotes": [{"urls": ["h"], "credentials": "f"}]}}, "leafnodes", "crypto"),
        ({"proxies": {"trusted": [NKEY]}}, "authorization", "cryptography"),
        ({"authorization": {"users": [{"nkey": NKEY}]}}, "authorization", "cryptography"),
        ({"accounts": [{"name": "A", "users": [{"nkey": NKEY}]}]}, "authorization", "crypto"),
        ({"leafnodes": {"authorization": {"nkey": NKEY}}}, "authorization", "cryptography"),
        ({"authorization": {"token": HASH}}, "authorization", "bcrypt"),
        ({"websocket": {"authorization": {"password": HASH}}}, "authorization", "bcrypt"),
        ({"tables": [{"name": "t", "stream": "S", "url": "t"}]}, "tables", "deltalake"),
    ],
)
def test_a_part_names_its_packages_and_the_command(
    raw: dict[str, Any], key: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = msgspec.convert(raw, Options)
    assert list(missing_packages(options)) == []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (problem,) = missing_packages(options)
    assert problem.path[0] == key
    assert module in problem.text
    assert "; python -m pip install " in problem.text
    assert "\n" not in problem.text


def test_an_embedded_server_refuses_a_part_without_its_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(midge.ConfigError, match=r"^monitoring: monitoring needs aiohttp and"):
        midge.Server(port=-1, http_port=-1)


def run(code: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_server_with_streams_needs_msgspec_alone(tmp_path: Path) -> None:
    done = run(PLAIN, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["check", "-m", "8222"], "midge check: monitoring: monitoring needs aiohttp and"),
        (["serve", "-m", "8222"], "midge serve: monitoring: monitoring needs aiohttp and"),
        (["bench", "pub", "a"], "midge bench: needs the module 'rich'; python -m pip install "),
    ],
)
def test_a_command_names_what_it_lacks_in_one_line(words: list[str], told: str) -> None:
    done = run(f"{WITHOUT}\nsys.exit(main({words!r}))")
    assert done.returncode == 1
    assert done.stderr.startswith(told)
    assert "python -m pip install " in done.stderr
    assert done.stderr.count("\n") == 1
