"""The contents of advisories about requests and requesters: midge beside nats-server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from midge.client.client import NatsClient
from midge.client.options import ClientOptions
from midge.protocol.client_side import publish_frame
from tests.support.processes import Server, midge_command, nats_server_command

CONFIG = """
accounts {
  A { jetstream: enabled, users: [{user: a, password: a}]
      exports: [{service: "$JS.API.>", response: stream}] }
  B { users: [{user: b, password: b}]
      imports: [{service: {account: A, subject: "$JS.API.>"}, to: "JSA.>"}] }
}
jetstream { store_dir: "%s" }
"""

_TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_KEY = re.compile(r"\bN[A-Z0-9]{55}\b")
_RTT = re.compile(r'"rtt":\d+')
_ID = re.compile(r'"id":"?\w+"?')
_SIZE = re.compile(r'"bytes":\d+')
_VERSION = re.compile(r'\\"_nats.ver\\":\\"[\d.]+')
_TRANSFER = re.compile(r"RESTORE\.S\.\w+")


@pytest.fixture(params=["midge", "nats-server"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    command = midge_command() if request.param == "midge" else nats_server_command()
    with Server(command, CONFIG % (tmp_path / "store")) as running:
        yield running


def client(server: Server, user: str) -> NatsClient:
    url = server.url.replace("nats://", f"nats://{user}:{user}@")
    return NatsClient(ClientOptions.parse({"servers": url}))


def answer(asking: NatsClient, subject: str, body: object = None) -> dict[str, Any]:
    text = b"" if body is None else json.dumps(body).encode()
    found: dict[str, Any] = json.loads(asking.request(subject.encode(), text).payload)
    return found


def archive(asking: NatsClient) -> tuple[dict[str, Any], list[bytes]]:
    """Take a snapshot of the stream S; return the answer to that, and its chunks."""
    inbox = asking.new_inbox()
    sid = asking.subscribe(inbox)
    told = answer(asking, "$JS.API.STREAM.SNAPSHOT.S", {"deliver_subject": inbox.decode()})
    chunks: list[bytes] = []
    while True:
        for message in asking.receive(5):
            if message.sid != sid:
                continue
            if not message.payload:
                return told, chunks
            chunks.append(message.payload)
            if message.reply:
                asking.send(publish_frame(message.reply, b"", b"", b""))


def exercise(server: Server) -> list[tuple[str, str]]:
    asking, importer, watching = client(server, "a"), client(server, "b"), client(server, "a")
    watching.subscribe(b"$JS.EVENT.ADVISORY.API")
    watching.subscribe(b"$JS.EVENT.ADVISORY.STREAM.>")
    watching.ping()
    answer(asking, "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    answer(asking, "$JS.API.STREAM.CREATE.T", {"name": "S"})
    told, chunks = archive(asking)
    answer(asking, "$JS.API.STREAM.DELETE.S")
    request = {"config": told["config"], "state": told["state"]}
    to = answer(asking, "$JS.API.STREAM.RESTORE.S", request)["deliver_subject"]
    for chunk in (*chunks, b""):
        asking.request(to.encode(), chunk)
    answer(importer, "JSA.STREAM.NAMES")
    found: list[tuple[str, str]] = []
    while len(found) < 13:
        for message in watching.receive(5):
            found.append((message.subject.decode(), masked(message.payload.decode())))
    for one in (asking, importer, watching):
        one.close()
    return found


def masked(text: str) -> str:
    text = _TIME.sub("T", _KEY.sub("KEY", _RTT.sub('"rtt":1', _ID.sub('"id":""', text))))
    return _TRANSFER.sub("RESTORE.S.X", _VERSION.sub("", _SIZE.sub('"bytes":1', text)))


CLIENT = {
    "start": "T", "host": "127.0.0.1", "id": "", "acc": "A", "user": "a",
}  # fmt: skip


ASKED = [
    ("$JS.API.STREAM.CREATE.S", True),
    ("$JS.API.STREAM.CREATE.T", True),
    ("$JS.API.STREAM.SNAPSHOT.S", True),
    ("$JS.API.STREAM.DELETE.S", False),
    ("$JS.API.STREAM.RESTORE.S", True),
    ("$JS.API.STREAM.NAMES", False),
]


def test_advisories_say_who_asked(server: Server, request: pytest.FixtureRequest) -> None:
    found = exercise(server)
    audits = [json.loads(text) for subject, text in found if subject.endswith(".API")]
    asked = [(one["subject"], "request" in one) for one in audits]
    if "nats-server" in request.node.name:  # reports after it has answered, in any order
        assert sorted(asked) == sorted(ASKED)
        audits = [audits[asked.index(one)] for one in ASKED]
    else:
        assert asked == ASKED
    own = audits[0]["client"]
    assert CLIENT.items() <= own.items()
    assert list(own)[-4:] == ["rtt", "server", "kind", "client_type"]
    assert audits[-1]["client"] == {"acc": "B", "svc": "A", "rtt": 1, "server": "KEY"}
    assert json.loads(audits[1]["response"])["error"]["err_code"] == 10056
    assert list(audits[0]) == [
        *("type", "id", "timestamp", "server", "client", "subject", "request", "response"),
    ]
    kinds = ("SNAPSHOT_CREATE", "SNAPSHOT_COMPLETE", "RESTORE_CREATE", "RESTORE_COMPLETE")
    for kind in kinds:
        ((_, text),) = [one for one in found if one[0].endswith(f"{kind}.S")]
        event = json.loads(text)
        assert event["client"] == own
        assert list(event)[-1] == "client"
