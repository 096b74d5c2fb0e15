"""Records of several workers: each message once, with the known deliveries."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import Server, midge_command
from tests.support.raw import Raw

pq = pytest.importorskip("pyarrow.parquet")


def rows_of(root: Path, data_set: str) -> list[dict[str, Any]]:
    paths = sorted(root.joinpath(data_set).rglob("part-*.parquet"))
    return [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]


async def test_each_message_is_recorded_once_by_the_worker_of_its_publisher(
    tmp_path: Path,
) -> None:
    flags = ("--workers", "2", "--record", str(tmp_path))
    command = ["env", "MIDGE_SHUTDOWN_FLUSH_TIMEOUT_S=60", *midge_command()]
    with Server(command, "", flags) as server:
        one, other, near = [await Raw.open(server.url) for _ in range(3)]
        for raw in (one, other, near):
            assert await raw.connect() == b""
        await one.ask(b"SUB far 1")
        await near.ask(b"SUB near 1", b"SUB far q 2")
        for publisher in (other, one):
            for subject in (b"far", b"near", b"nobody"):
                lines = [line for i in range(3) for line in (b"PUB %b 1" % subject, b"%d" % i)]
                assert b"-ERR" not in await publisher.ask(*lines)
        for raw in (one, other, near):
            await raw.close()
        server.process.terminate()
        server.process.wait(120)
    rows = rows_of(tmp_path, "messages")
    assert Counter(row["subject"] for row in rows) == {"far": 6, "near": 6, "nobody": 6}
    assert {row["subject"] for row in rows if row["no_interest"]} == {"nobody"}
    crossed = {
        row["subject"] for row in rows if not row["no_interest"] and not row["plain_deliveries"]
    }
    assert crossed
    counted = [row for row in rows if row["plain_deliveries"]]
    assert {row["plain_deliveries"] for row in counted} == {1}
    assert len({row["server"] for row in rows}) == 1
    names = {path.name.rpartition("-")[0][-3:] for path in tmp_path.rglob("part-*.parquet")}
    assert names == {".w0", ".w1"}
    events = Counter(row["event"] for row in rows_of(tmp_path, "clients"))
    assert events == {"connect": 3, "disconnect": 3}
    assert Counter(row["event"] for row in rows_of(tmp_path, "interest"))["sub"] == 3
