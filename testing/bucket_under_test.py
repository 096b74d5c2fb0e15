"""Key-value buckets that a test makes and inspects, from any thread: the fixture `nats_kv`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from midge.protocol import key_value
from midge.testing.stream_under_test import Streams, check_name

if TYPE_CHECKING:
    from midge.server.embedded.threaded import ThreadedServer
    from midge.testing.captured import Captured
    from midge.testing.stream_under_test import StreamUnderTest

_WINDOW_S = 120.0


class BucketUnderTest:
    """One bucket: its keys and their history. Safe from any thread.

    `stream` is the stream that stores it.
    """

    def __init__(self, stream: StreamUnderTest, name: str) -> None:
        self.name = name
        self.stream = stream

    def put(self, key: str, value: bytes | str) -> int:
        """Set a key and return its revision."""
        __tracebackhide__ = True
        return self.stream.publish(self._subject(key), value)

    def get(self, key: str) -> bytes | None:
        """Return the value of a key, or None if it has none or was deleted."""
        last = self.stream.last(self._subject(key))
        return None if last is None or _is_gone(last) else last.payload

    def delete(self, key: str) -> int:
        """Delete a key, keep its history, and return the revision of the deletion."""
        __tracebackhide__ = True
        return self.stream.publish(self._subject(key), b"", key_value.marker_headers(purges=False))

    def history(self, key: str) -> list[Captured]:
        """Return the stored revisions of a key, oldest first, deletions included."""
        subject = self._subject(key)
        return [message for message in self.stream.messages if message.subject == subject]

    @property
    def values(self) -> dict[str, bytes]:
        """The keys that have a value, with their values."""
        last = {message.subject: message for message in self.stream.messages}
        start = len(self._subject(""))
        return {one.subject[start:]: one.payload for one in last.values() if not _is_gone(one)}

    def _subject(self, key: str) -> str:
        return key_value.subject_of(self.name, key)


class Buckets:
    """Makes buckets for a test, and deletes them when it is over."""

    def __init__(self, server: ThreadedServer) -> None:
        self._streams = Streams(server)

    def __call__(
        self, name: str, *, history: int = 1, ttl: float = 0.0, **config: Any
    ) -> BucketUnderTest:
        """Make a bucket as every client does; `ttl` is in seconds, `config` is for its stream.

        Raises:
            MidgeError: a bucket cannot have this name.
            StreamRefusedError: JetStream refuses it.
        """
        __tracebackhide__ = True
        check_name("bucket", name, "[A-Za-z0-9_-]+")
        settings = {
            **key_value.stream_settings(history),
            "max_age": ttl,
            "duplicate_window": min(ttl, _WINDOW_S) if ttl else _WINDOW_S,
            **config,
        }
        stream = self._streams(
            key_value.stream_of(name), key_value.subject_of(name, ">"), **settings
        )
        return BucketUnderTest(stream, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self._streams.__exit__(*ended)


def _is_gone(message: Captured) -> bool:
    """Return whether a message is a deletion of its key."""
    return key_value.OPERATION in message.headers or key_value.MARKER_REASON in message.headers
