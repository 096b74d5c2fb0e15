"""Reports on restored consumers, byte by byte: midge beside nats-server."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from midge.client.client import NatsClient
from midge.client.options import ClientOptions
from midge.jetstream.archive.entries import CONSUMERS, END, MAGIC, STATE, pack
from midge.jetstream.archive.framing import S2Writer
from tests.support.processes import Server, midge_command, nats_server_command

METADATA: dict[str, dict[str, str] | None] = {
    "none": None,
    "empty": {},
    "required": {"_nats.req.level": "0"},
    "own": {"z": "1", "a": "2"},
    "around": {"zz": "1", "_nats.z": "2", "_nats.aaa": "3", "_nats.req.level": "0", "A": "4"},
    "told": {"_nats.ver": "2.11.0", "_nats.level": "1", "_nats.req.level": "0", "b": "c"},
}
"""What archives say of consumers; those of older servers know nothing of levels."""

_TIME = re.compile(r"20\d\d-\d\d-\d\dT[\d:]+(?:\.\d+)?Z")
_NOTHING = {"consumer_seq": 0, "stream_seq": 0}


@pytest.fixture
def both(tmp_path: Path) -> Iterator[list[Server]]:
    commands = {"midge": midge_command(), "real": nats_server_command()}
    config = 'jetstream {{ store_dir: "{}" }}'.format
    with (
        Server(commands["midge"], config(tmp_path / "midge")) as midge,
        Server(commands["real"], config(tmp_path / "real")) as real,
    ):
        yield [midge, real]


def configuration(name: str, metadata: dict[str, str] | None) -> dict[str, object]:
    config: dict[str, object] = {
        "durable_name": name,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": 30_000_000_000,
        "max_deliver": -1,
        "replay_policy": "instant",
        "max_waiting": 512,
        "max_ack_pending": 1000,
        "num_replicas": 0,
    }
    return config if metadata is None else {**config, "metadata": metadata}


def archive() -> bytes:
    """Return an archive of an empty stream with these consumers."""
    now = time.time_ns()
    parts = [MAGIC, pack(STATE, now, 0, b"", json.dumps({"consumer_count": 6}).encode())]
    for name, metadata in METADATA.items():
        state = {"delivered": _NOTHING, "ack_floor": _NOTHING}
        content = {"config": configuration(name, metadata), "state": state}
        parts.append(pack(CONSUMERS + name.encode(), now, 0, b"", json.dumps(content).encode()))
    writer = S2Writer()
    writer.write(b"".join([*parts, END]))
    writer.finish()
    return writer.take()


def told(server: Server, content: bytes) -> list[str]:
    """Restore the stream at a server, and return its reports on each consumer and on all."""
    client = NatsClient(ClientOptions.parse({"servers": server.url}))

    def ask(subject: str, body: bytes = b"") -> str:
        return client.request(subject.encode(), body).payload.decode()

    config = {"name": "S", "subjects": ["s"], "retention": "limits", "storage": "file"}
    limits = ("max_consumers", "max_msgs", "max_bytes", "max_msgs_per_subject", "max_msg_size")
    request = {"config": {**config, **dict.fromkeys(limits, -1), "num_replicas": 1}, "state": {}}
    begun = json.loads(ask("$JS.API.STREAM.RESTORE.S", json.dumps(request).encode()))
    for chunk in (content, b""):
        answer = ask(begun["deliver_subject"], chunk)
    assert "error" not in json.loads(answer or "{}"), answer
    answers = [ask(f"$JS.API.CONSUMER.INFO.S.{name}") for name in METADATA]
    answers.append(ask("$JS.API.CONSUMER.LIST.S"))
    client.close()
    return [_TIME.sub("T", text) for text in answers]


def test_versions_stand_where_nats_server_has_them(both: list[Server]) -> None:
    content = archive()
    midge, real = (told(server, content) for server in both)
    assert midge == real
    assert '"metadata":{"_nats.level":"5","_nats.ver":' in midge[0]
