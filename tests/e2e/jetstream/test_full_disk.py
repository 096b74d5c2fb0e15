"""A file system that is really full: messages are refused, removals go on, and then messages too.

It needs a mount in a user namespace, or for ext4 one of a loop device by root, which not every
machine allows: `pytest --full` runs it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.support.processes import Server, midge_command

SIZE_MIB = 24
MESSAGE = b"x" * 65_000


def on_a_small_disk(directory: Path) -> list[str]:
    """Return a command that starts midge with a file system of its own at `directory`."""
    mount = f"mount -t tmpfs -o size={SIZE_MIB}m none {directory}"
    return ["unshare", "-rm", "sh", "-c", f'{mount} && exec "$@"', "sh", *midge_command()]


@pytest.fixture
def ext4(tmp_path: Path) -> Iterator[Path]:
    """A small file system that keeps what it found of room that it refuses."""
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("only root mounts it")
    image, directory = tmp_path / "image", tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(2 * SIZE_MIB << 20)
    directory.mkdir()
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    if subprocess.run(["mount", "-o", "loop", str(image), str(directory)], check=False).returncode:
        pytest.skip("no loop device")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


async def fill(js: Any) -> int:
    """Publish until that is refused; return how many messages were stored."""
    stored = 0
    async with asyncio.timeout(60):
        while True:
            try:
                await js.publish("s", MESSAGE, timeout=30)
            except nats.js.errors.APIError as error:
                assert error.err_code == 10077  # noqa: PT017 - the loop ends by it
                return stored
            stored += 1


async def accepted(js: Any) -> int:
    """Publish until that is taken again; return the sequence."""
    async with asyncio.timeout(60):
        while True:  # room is given back incrementally, within seconds
            try:
                return int((await js.publish("s", MESSAGE, timeout=30)).seq)
            except nats.js.errors.APIError:
                await asyncio.sleep(0.1)


@pytest.mark.full
async def test_a_full_file_system(tmp_path: Path) -> None:
    config = f'jetstream {{ store_dir: "{tmp_path}", max_file: 1G }}'
    with Server(on_a_small_disk(tmp_path), config) as server:
        client = await nats.connect(server.url)
        js = client.jetstream()
        await js.add_stream(name="S", subjects=["s"])
        stored = await fill(js)
        assert 100 < stored < SIZE_MIB << 20
        info = await js.stream_info("S")
        assert info.state.messages == stored
        assert (await js.get_msg("S", stored)).data == MESSAGE
        await js.delete_msg("S", 1)
        await js.purge_stream("S")
        assert await accepted(js) == stored + 1
        await client.close()


@pytest.mark.full
async def test_a_file_system_that_is_filled_again_and_again(tmp_path: Path) -> None:
    config = f'jetstream {{ store_dir: "{tmp_path}", max_file: 1G }}'
    with Server(on_a_small_disk(tmp_path), config) as server:
        client = await nats.connect(server.url)
        js = client.jetstream()
        await js.add_stream(name="S", subjects=["s"])
        stored = []
        for _ in range(8):
            stored.append(await fill(js))
            await js.purge_stream("S")
            await accepted(js)
            await asyncio.sleep(3)  # a tick, and all segments in their turns
        assert min(stored) > 300, stored
        assert max(stored) - min(stored) < 40, stored
        await client.close()


@pytest.mark.full
async def test_messages_that_are_left_in_every_segment_do_not_keep_its_room(ext4: Path) -> None:
    config = f'jetstream {{ store_dir: "{ext4}/store", max_file: 1G }}'
    with Server(midge_command(), config) as server:
        client = await nats.connect(server.url)
        js = client.jetstream()
        await js.add_stream(name="S", subjects=["s", "kept"])
        large = b"PUB s 128\r\n%b\r\n" % (b"x" * 128) * 499
        kept = b"PUB kept 128\r\n%b\r\n" % (b"x" * 128)
        _, writer = await asyncio.open_connection(*server.address())
        writer.write(b'CONNECT {"verbose":false}\r\n')
        before = -1
        while (last := (await js.stream_info("S")).state.last_seq) != before:
            before = last
            for _ in range(100):  # 50,000 messages without acks, of which the last may be refused
                writer.write(large + kept)
                await writer.drain()
            await asyncio.sleep(1.5)
        await js.purge_stream("S", subject="s")
        assert await accepted(js) == last + 1
        await asyncio.sleep(3)
        assert shutil.disk_usage(ext4).free > SIZE_MIB << 20
        writer.close()
        await client.close()
        assert "Traceback" not in server.log
