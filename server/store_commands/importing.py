"""Streams of nats-server's files become streams of midge's, by a server without listeners.

Each one is restored as a backup is, so that it is checked, and there as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from midge.jetstream.errors import JetStreamError
from midge.protocol.errors import MidgeError
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.config.jetstream import AccountJetStream
from midge.server.config.jetstream import JetStream as JetStreamOptions
from midge.server.config.security import Account
from midge.server.embedded.jetstream import JetStream
from midge.server.embedded.jetstream_requests import checked
from midge.server.embedded.server import Server
from midge.server.jetstream.capacity import store_directory
from midge.server.jetstream.filesystem import note_imported
from midge.server.store_commands.nats_files import NatsStoredStream, find_streams

_PAYLOAD_MAX = 64 << 20
"""The largest limit of a message that nats-server takes in its configuration."""


@dataclass
class Imported:
    """The result of importing one stream. `error` is empty unless it could not be imported."""

    account: str
    stream: str
    read: int = 0
    messages: int = 0
    consumers: int = 0
    damages: list[str] = field(default_factory=list)
    error: str = ""


async def import_store(
    source: Path,
    target: Path,
    report: Callable[[Imported], object],
    key: str = "",
    source_keys: tuple[bytes, ...] = (),
) -> list[Imported]:
    """Import all streams of a nats-server's directory into a store directory of midge.

    `report` is called for each stream that is done with. `key` is what midge's is encrypted with,
    `source_keys` are what nats-server's is.

    Raises:
        MidgeError: there is nothing to import, or the target cannot be used.
    """
    paths = list(find_streams(source))
    store = JetStreamOptions(
        enabled=True, store_dir=str(target), encryption_key=key, ignore_nats_streams=True
    )
    done: list[Imported] = []
    # The global account has JetStream only where there is no other account.
    of_global = [path for path in paths if path.parent.parent.name == GLOBAL_ACCOUNT]
    for group in (of_global, [path for path in paths if path not in of_global]):
        names = sorted({path.parent.parent.name for path in group} - {GLOBAL_ACCOUNT})
        accounts = [Account(name=name, jetstream=AccountJetStream(enabled=True)) for name in names]
        if not group:
            continue
        async with Server(
            port=-1, jetstream=store, accounts=accounts, max_payload=_PAYLOAD_MAX
        ) as server:
            for path in group:
                jetstream = server.jetstream_of(path.parent.parent.name)
                done.append(await _import_one(jetstream, path, source_keys))
                report(done[-1])
    good = [f"{one.account}/{one.stream}" for one in done if not one.error]
    note_imported(store_directory(store), good)
    return done


async def _import_one(jetstream: JetStream, path: Path, keys: tuple[bytes, ...]) -> Imported:
    result = Imported(path.parent.parent.name, path.name)
    try:
        stream = NatsStoredStream(path, keys)
        request = {"config": stream.config, "state": stream.state()}
        answer = await jetstream.call(f"STREAM.RESTORE.{stream.name}", request)
        info = await _send(jetstream, answer["deliver_subject"], stream.archive())
    except (MidgeError, JetStreamError, OSError) as error:
        result.error = str(error)
        return result
    except Exception as error:  # noqa: BLE001 - the other streams are imported all the same
        result.error = f"internal error: {type(error).__name__}: {error}"
        return result
    result.read, result.consumers = stream.messages, stream.consumers
    result.messages = info["state"]["messages"]
    result.damages = stream.damages
    return result


async def _send(jetstream: JetStream, to: str, pieces: Iterable[bytes]) -> dict[str, Any]:
    """Send an archive, piece by piece; return the info of the stream that it became."""
    for piece in pieces:
        answer = await jetstream.ask(to, piece)
        if answer.payload:
            checked(answer)
    return checked(await jetstream.ask(to, b""))
