"""Archives changed at random: no traceback, and nothing accepted that the API would refuse."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from midge.jetstream.config import consumer as configuration
from midge.jetstream.stream import admission
from midge.jetstream.stream.stream import Stream
from midge.server.store_commands.importing import import_store
from tests.support.commands import Reading
from tests.support.hostile_archives import Mutator, files_of
from tests.support.jetstream_account import AccountRig
from tests.unit.jetstream.archive.older_samples import OF_2_10, OF_2_14
from tests.unit.jetstream.archive.samples import SNAPSHOT
from tests.unit.jetstream.archive.test_transfers import Rig

SEED = 20
CONFIG = {"name": "S", "subjects": ["S.>", "s.>"], "storage": "memory"}


def rounds(request: pytest.FixtureRequest, full: int, short: int) -> int:
    return full if request.config.getoption("--full") else short


def check_accepted(stream: Stream) -> None:
    """Make the same stream by requests and messages."""
    rig = AccountRig()
    made = rig.api("STREAM.CREATE.S", CONFIG)
    assert "error" not in made, made
    store = stream.store
    seq = store.next_seq((), 1)
    while seq:
        message = store.load(seq)
        assert message is not None
        size = len(message.headers)
        line = b"HPUB %b %d %d\r\n" % (message.subject, size, size + len(message.payload))
        if not size:
            line = b"PUB %b %d\r\n" % (message.subject, len(message.payload))
        reading = Reading(max_payload=1 << 20, max_control_line=1 << 20)
        reading.feed(line + message.headers + message.payload + b"\r\n")
        published = (message.subject, None, message.headers or None, message.payload)
        assert reading.commands == [("publish", *published)]
        rig.account.streams["S"].publish(message.subject, b"", message.headers, message.payload)
        kept = rig.account.streams["S"].store.load(rig.account.streams["S"].store.last_seq)
        assert kept is not None
        assert kept.headers == message.headers
        seq = store.next_seq((), seq + 1)
    assert admission.stored_problem(store) == ""
    for consumer in stream.consumers:
        name = consumer.name.decode()
        config = consumer.config.copy()
        config.name = name
        fields = configuration.fields(config, with_versions=False)
        asked = {"stream_name": "S", "config": fields}
        kind = "DURABLE.CREATE" if config.durable_name else "CREATE"
        made = rig.api(f"CONSUMER.{kind}.S.{name}", asked)
        assert "error" not in made, made
    for reply in ("STREAM.INFO.S", "CONSUMER.LIST.S"):
        assert "error" not in rig.api(reply)


def restore(data: bytes) -> bool:
    """Restore an archive, cut in two; return whether it became a stream."""
    rig = Rig()
    answer = rig.api("STREAM.RESTORE.S", {"config": CONFIG, "state": {}})
    to = answer["deliver_subject"].encode()
    half = len(data) // 2
    pieces = [piece for piece in (data[:half], data[half:]) if piece]
    for piece in (*pieces, b""):
        rig.account.transfers.take(to, b"_INBOX.r", piece)
        for _ in range(50):
            rig.work()
    assert not rig.account.transfers.receiving
    answers = [json.loads(body) for _, _, body in rig.wire.to("_INBOX.r") if body]
    assert len(answers) == 1
    if "error" in answers[0]:
        assert answers[0]["error"]["err_code"] == 10062
        assert "internal error" not in answers[0]["error"]["description"]
        assert rig.account.streams == {}
        assert rig.account.memory.used == 0
        return False
    for _ in range(3):
        rig.clock.advance(1.0)
    sent = rig.exchange("$JS.API.STREAM.INFO.S", {"deleted_details": True, "subjects_filter": ">"})
    while not sent:  # a long list is answered later
        rig.work()
        sent = rig.outbox.sent
    assert "error" not in json.loads(sent[-1][2])
    assert "error" not in rig.api("CONSUMER.LIST.S")
    check_accepted(rig.account.streams["S"])
    return True


@pytest.mark.timeout(1200)
def test_changed_archives_are_restored_or_refused(request: pytest.FixtureRequest) -> None:
    mutator = Mutator(Random(SEED))
    count = rounds(request, 10_000, 200)
    older = [files_of(OF_2_10), files_of(OF_2_14)]
    accepted = 0
    for number in range(count):
        data = mutator.archive(SNAPSHOT) if number % 2 else mutator.tar(older[number // 2 % 2])
        try:
            accepted += restore(data)
        except BaseException:
            print(f"archive {number} of seed {SEED}")
            raise
    assert count // 20 < accepted < count * 19 // 20


@pytest.mark.timeout(1200)
async def test_changed_directories_are_imported_or_refused(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    mutator = Mutator(Random(SEED))
    files = files_of(OF_2_14)
    count = rounds(request, 10_000, 200)
    imported = 0
    for first in range(0, count, 200):
        place = tmp_path / f"{first}"
        for number in range(first, first + 200):
            write(place / "jetstream" / f"A{number}" / "streams" / "S", mutator.files(files))
        done = await import_store(place, tmp_path / f"{first}-into", lambda _: None)
        assert not [one.error for one in done if "internal error" in one.error]
        imported += sum(not one.error for one in done)
    assert count // 20 < imported < count * 19 // 20


def write(place: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = place / name.replace("..", "__").lstrip("/")[:200]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError:
            continue  # a name that no file can have, or that a folder has
