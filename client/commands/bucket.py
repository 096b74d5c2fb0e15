"""The keys of a key-value bucket on any server; `protocol/key_value.py` has the conventions."""

import base64
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from midge.client.errors import OptionError, StreamError
from midge.client.headers import parse_headers
from midge.client.jetstream import JetStreamApi, PullConsumer, parse_deliveries
from midge.jetstream.json.times import format_time
from midge.protocol import key_value
from midge.protocol.client_side import ReceivedMessage
from midge.protocol.headers import format_headers
from midge.protocol.key_value import PUT

_PATTERN = re.compile(r"[-/_=.*>a-zA-Z0-9]+")
_NOT_FOUND = 10037
_EVERYTHING = 1 << 62


class BucketEntry(NamedTuple):
    """One revision of a key. `time` is RFC 3339."""

    key: str
    value: bytes
    revision: int
    time: str
    operation: str


class Bucket:
    """The keys of one bucket."""

    def __init__(self, jetstream: JetStreamApi, name: str) -> None:
        self.name = name
        self.stream = key_value.stream_of(name)
        self._jetstream = jetstream
        self._prefix = key_value.subject_of(name)

    def get(self, key: str, revision: int = 0) -> BucketEntry | None:
        """Return the last entry of a key, or its entry with `revision`, or None.

        Raises:
            StreamError: JetStream refused, or the bucket does not exist.

        """
        subject = self._subject(key)
        body = {"seq": revision} if revision else {"last_by_subj": subject}
        try:
            answer = self._jetstream.call(f"STREAM.MSG.GET.{self.stream}", body)
        except StreamError as error:
            if error.code == _NOT_FOUND:
                return None
            raise
        message = answer["message"]
        if message["subject"] != subject:
            return None
        operation = _operation(base64.b64decode(message.get("hdrs") or ""))
        value = base64.b64decode(message.get("data") or "")
        return BucketEntry(key, value, message["seq"], message["time"], operation)

    def put(self, key: str, value: bytes, *, revision: int | None = None, ttl: str = "") -> int:
        """Write a value and return its revision; `revision` is the key's required last revision."""
        headers = {"Nats-TTL": ttl} if ttl else {}
        return self._publish(key, value, headers, revision)

    def create(self, key: str, value: bytes, ttl: str = "") -> int:
        """Write the value of a key without a value, and return its revision.

        Raises:
            StreamError: the key has a value.

        """
        try:
            return self.put(key, value, revision=0, ttl=ttl)
        except StreamError as error:
            entry = self.get(key) if error.code in key_value.WRONG_SEQUENCES else None
            if entry is None or entry.operation == PUT:
                raise
            return self.put(key, value, revision=entry.revision, ttl=ttl)

    def delete(self, key: str, *, purges: bool = False, revision: int | None = None) -> int:
        """Delete a key, with its history if it `purges`; return the marker's revision."""
        return self._publish(key, b"", key_value.marker_headers(purges=purges), revision)

    def entries(
        self,
        pattern: str = ">",
        *,
        policy: str = "last_per_subject",
        follow_s: float = 0.0,
        with_values: bool = True,
    ) -> Iterator[BucketEntry]:
        """Yield entries in the order of their revisions, markers included.

        `policy` is `last_per_subject`, `all` (the history) or `new`. Ends when no change has come
        for `follow_s` behind the last entry.
        """
        if not _PATTERN.fullmatch(pattern):
            raise OptionError(f"expected a key or a pattern such as a.*, got {pattern!r}")
        start = {"deliver_policy": policy, "headers_only": not with_values}
        filters = (self._prefix + pattern,)
        with PullConsumer(self._jetstream, self.stream, start, filters) as consumer:
            for messages, _ in consumer.chunks(_EVERYTHING, follow_s=follow_s):
                for message in messages:
                    yield self._entry(message)

    def _entry(self, message: ReceivedMessage) -> BucketEntry:
        found = parse_deliveries([message])
        return BucketEntry(
            message.subject.decode(errors="backslashreplace")[len(self._prefix) :],
            message.payload,
            found.seqs[0],
            format_time(found.times_ns[0]),
            _operation(message.headers),
        )

    def _subject(self, key: str) -> str:
        if not key_value.KEY.fullmatch(key):
            raise OptionError(f"expected a key of letters, digits and -/_=. in it, got {key!r}")
        return self._prefix + key

    def _publish(
        self, key: str, value: bytes, headers: dict[str, str], revision: int | None
    ) -> int:
        if revision is not None:
            headers |= key_value.expected_revision(revision)
        block = format_headers(headers) if headers else b""
        subject = self._subject(key).encode()
        ack = self._jetstream.publish(subject, value, block, f"key {key} of bucket {self.name}")
        return int(ack["seq"])


def config_of(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a bucket's stream; `given` has the keys that are set."""
    two_minutes_ns = 120 * 10**9
    max_age_ns = given.get("max_age", 0)
    return {
        "name": key_value.stream_of(name),
        "subjects": [key_value.subject_of(name, ">")],
        "retention": "limits",
        "storage": "file",
        "num_replicas": 1,
        "allow_msg_ttl": True,
        **key_value.stream_settings(history=1),
        "duplicate_window": min(two_minutes_ns, max_age_ns) or two_minutes_ns,
        **given,
    }


def _operation(headers: bytes) -> str:
    """Return the operation of an entry, from its header block."""
    return key_value.operation_of(parse_headers(headers).fields) if headers else PUT
