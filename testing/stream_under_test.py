"""Streams that a test makes and inspects, from any thread: the fixture `nats_stream`."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from midge.protocol.errors import MidgeError
from midge.protocol.headers import parse_headers
from midge.protocol.text import encode
from midge.server.embedded.settings import in_nanoseconds
from midge.sublist.subjects import matches
from midge.testing.captured import Captured, read_recording
from midge.testing.infos import ConsumerInfo, StreamInfo, StreamState
from midge.testing.stream_api import Api, StreamRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from os import PathLike

    from midge.protocol.headers import Headers
    from midge.server.embedded.threaded import ThreadedServer


class StreamUnderTest:
    """One stream: its contents and its operations. Safe from any thread.

    Its requests wait for the server. If a fault or the test's clock delays an answer, use a client
    instead.
    """

    def __init__(self, api: Api, name: str) -> None:
        self.name = name
        self._api = api

    @property
    def info(self) -> StreamInfo:
        """Its configuration, durations in seconds, and its state."""
        return StreamInfo(self._api.ask(f"STREAM.INFO.{self.name}"))

    @property
    def state(self) -> StreamState:
        """Its state as JetStream reports it: `messages`, `bytes`, `first_seq`, `last_seq`, …."""
        return self.info.state

    @property
    def messages(self) -> list[Captured]:
        """Its current messages, oldest first."""
        state = self.state
        seqs = range(state.first_seq, state.last_seq + 1) if state.messages else ()
        return [message for message in map(self.get, seqs) if message is not None]

    def get(self, seq: int) -> Captured | None:
        """Return a message by its sequence, or None."""
        return self._get({"seq": seq})

    def last(self, subject: str) -> Captured | None:
        """Return the last message of a subject, or None."""
        return self._get({"last_by_subj": subject})

    def _get(self, wanted: dict[str, Any]) -> Captured | None:
        try:
            found = self._api.ask(f"STREAM.MSG.GET.{self.name}", wanted)["message"]
        except StreamRefusedError:
            return None
        block = base64.b64decode(found.get("hdrs", ""))
        return Captured(
            subject=found["subject"],
            payload=base64.b64decode(found.get("data", "")),
            headers=parse_headers(block) if block else {},
            stream=self.name,
            seq=found["seq"],
        )

    def publish(
        self, subject: str, payload: bytes | str = b"", headers: Headers | None = None
    ) -> int:
        """Publish a message and return its sequence. Raises: StreamRefusedError."""
        __tracebackhide__ = True
        return self._api.publish(subject, payload, headers)

    def load(self, messages: Iterable[Captured]) -> int:
        """Store recorded or captured messages with the current time; return how many."""
        __tracebackhide__ = True
        count = 0
        for message in messages:
            self._api.publish(message.subject, message.payload, message.headers or None)
            count += 1
        return count

    def purge(self, subject: str = "") -> int:
        """Remove all messages, or the messages of a subject; return how many."""
        body = {"filter": subject} if subject else None
        return int(self._api.ask(f"STREAM.PURGE.{self.name}", body)["purged"])

    def backup(self, directory: str | PathLike[str]) -> None:
        """Write a backup of the stream and its consumers, as `midge stream backup` does.

        Raises:
            MidgeError: the directory exists.
        """
        __tracebackhide__ = True
        _backup(self._api, self.name, directory)

    def consumer(self, name: str, **config: Any) -> ConsumerInfo:
        """Make a durable consumer with these settings, times in seconds; return its info.

        Raises:
            MidgeError: a consumer cannot have this name, or has no such setting.
            StreamRefusedError: JetStream refuses it.
        """
        __tracebackhide__ = True
        check_name("consumer", name)
        settings = {
            "durable_name": name,
            "ack_policy": "explicit",
            **in_nanoseconds("consumer", config),
        }
        body = {"stream_name": self.name, "config": settings}
        return ConsumerInfo(self._api.ask(f"CONSUMER.CREATE.{self.name}.{name}", body))

    @property
    def consumers(self) -> dict[str, ConsumerInfo]:
        """The info of each consumer, by name: `num_pending`, `num_ack_pending`, …."""
        listed = self._api.ask(f"CONSUMER.LIST.{self.name}")["consumers"] or []
        return {one["name"]: ConsumerInfo(one) for one in listed}


class Streams:
    """Makes streams for a test, and deletes them when it is over."""

    def __init__(self, server: ThreadedServer) -> None:
        self._api = Api(server)
        self._made: list[str] = []

    def __call__(
        self,
        name: str,
        subjects: str | Iterable[str] = (),
        *,
        recording: str | PathLike[str] | None = None,
        backup: str | PathLike[str] | None = None,
        **config: Any,
    ) -> StreamUnderTest:
        """Make a stream; `config` has JetStream's keys, times in seconds.

        Without subjects, it takes its own name in lower case and all subjects below. With a
        `recording` of midge's recorder, it starts with the recorded messages on its subjects. With
        a `backup` of `midge stream backup`, it starts as that stream, consumers included.

        Raises:
            MidgeError: a stream cannot have this name or such a setting, or the recording or backup
                does not exist.
            StreamRefusedError: JetStream refuses it.
        """
        __tracebackhide__ = True
        check_name("stream", name)
        if backup is not None:
            return self._restored(name, backup, subjects, config)
        given = [subjects] if isinstance(subjects, str) else list(subjects)
        if not given and not {"mirror", "sources"} & config.keys():
            given = [name.lower(), f"{name.lower()}.>"]
        settings = {"name": name, "subjects": given, **in_nanoseconds("stream", config)}
        self._api.ask(f"STREAM.CREATE.{name}", settings)
        self._made.append(name)
        stream = StreamUnderTest(self._api, name)
        if recording is not None:
            stream.load(_on(read_recording(recording), given))
        return stream

    def _restored(
        self,
        name: str,
        backup: str | PathLike[str],
        subjects: str | Iterable[str],
        config: dict[str, Any],
    ) -> StreamUnderTest:
        __tracebackhide__ = True
        changes = in_nanoseconds("stream", config)
        if subjects:
            changes["subjects"] = [subjects] if isinstance(subjects, str) else list(subjects)
        _restore(self._api, name, backup, changes)
        self._made.append(name)
        return StreamUnderTest(self._api, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._made:
            self._api.delete(name)


def check_name(kind: str, name: str, allowed: str = r"[^\s.*>/\\]+") -> None:
    """Refuse a name that JetStream's subjects cannot contain; raises MidgeError."""
    __tracebackhide__ = True
    if not re.fullmatch(allowed, name):
        raise MidgeError(f"name of a {kind}: expected {allowed}, got {name!r}")


def _on(messages: Iterable[Captured], patterns: list[str]) -> Iterator[Captured]:
    __tracebackhide__ = True
    raw = [encode(one) for one in patterns]
    for message in messages:
        if any(matches(encode(message.subject), one) for one in raw):
            yield message


_METADATA_NAME = "backup.json"
_DATA_NAME = "stream.tar.s2"
_CHUNK_BYTES = 128 * 1024


def _backup(api: Api, name: str, directory: str | PathLike[str]) -> None:
    """Write a backup of a stream with its consumers. Raises: MidgeError if the directory exists."""
    __tracebackhide__ = True
    folder = Path(directory)
    if folder.exists():
        raise MidgeError(f"{folder}: exists already")
    answer, data = api.snapshot(name)
    folder.mkdir(parents=True)
    kept = {"config": answer["config"], "state": answer["state"]}
    (folder / _METADATA_NAME).write_text(json.dumps(kept, indent=2), encoding="utf-8")
    (folder / _DATA_NAME).write_bytes(data)


def _restore(api: Api, name: str, directory: str | PathLike[str], changes: dict[str, Any]) -> None:
    """Make the stream `name` of a backup, its configuration changed by `changes`.

    Raises:
        MidgeError: the backup does not exist, or cannot be restored with these changes.
    """
    __tracebackhide__ = True
    folder = Path(directory)
    try:
        kept = json.loads((folder / _METADATA_NAME).read_text(encoding="utf-8"))
        data = (folder / _DATA_NAME).read_bytes()
    except (OSError, ValueError) as error:
        raise MidgeError(f"there is no backup in {folder}: {error}") from None
    config = {**kept["config"], **changes, "name": name}
    answer = api.ask(f"STREAM.RESTORE.{name}", {"config": config, "state": kept["state"]})
    for start in range(0, len(data), _CHUNK_BYTES):
        api.request(answer["deliver_subject"], data[start : start + _CHUNK_BYTES])
    api.request(answer["deliver_subject"], b"")
