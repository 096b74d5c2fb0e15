"""JetStream of a server, from its start to its stop."""

from pathlib import Path

import pytest

from midge.server.config.options import JetStream, Listen, Options
from midge.server.errors import ConfigError
from midge.server.server import Server


async def test_pages_see_no_jetstream_after_its_stop() -> None:
    options = Options(listen=Listen(port=-1), jetstream=JetStream(enabled=True, in_memory=True))
    server = Server(options)
    await server.start()
    state = server._state
    assert state is not None
    assert state.jetstream is server.jetstream is not None
    await server.stop()
    assert state.jetstream is None


async def test_a_file_is_no_storage_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    jetstream = JetStream(enabled=True, store_dir=str(file))
    with pytest.raises(ConfigError, match="storage directory is not a directory"):
        await Server(Options(listen=Listen(port=-1), jetstream=jetstream)).start()


async def test_a_wrong_key_is_one_clear_line(tmp_path: Path) -> None:
    def options(key: str, previous: str = "") -> Options:
        jetstream = JetStream(
            enabled=True,
            store_dir=str(tmp_path),
            encryption_key=key,
            prev_encryption_key=previous,
        )
        return Options(listen=Listen(port=-1), jetstream=jetstream)

    for key, previous in (("old", ""), ("new", "old"), ("new", "")):
        server = Server(options(key, previous))
        await server.start()
        await server.stop()
    for key, text in (("old", "with another key"), ("", "and no key is given")):
        with pytest.raises(
            ConfigError, match=f"jetstream.encryption_key: the store is encrypted.* {text}"
        ):
            await Server(options(key)).start()
