"""Infos of streams and consumers: objects with attributes, as in nats-py, and JSON's keys as items.

`info.config.ack_wait` is in seconds, as in nats-py; `info["config"]["ack_wait"]` is the server's
number, in nanoseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midge.server.config.type_check import nearest
from midge.server.embedded.settings import CONSUMER_DURATIONS, SECOND_NS, STREAM_DURATIONS

_DURATIONS = STREAM_DURATIONS | CONSUMER_DURATIONS


class JsonFields(dict[str, Any]):
    """A JSON object of an answer. A field that the server has left out has its zero value."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        kinds = self._kinds()
        for name, value in fields.items():
            kind = kinds.get(name, JsonFields)
            self.__dict__[name] = _attribute(kind, name, value)

    @classmethod
    def _kinds(cls) -> dict[str, type[JsonFields]]:
        """Return the classes of the fields that are objects."""
        return {}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            hint = nearest(name, [*self, *vars(type(self))])
            raise AttributeError(f"{type(self).__name__} has no {name!r}{hint}")


class Config(JsonFields):
    """The configuration of a stream or a consumer, by JetStream's keys."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class StreamState(JsonFields):
    """The state of a stream."""

    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0
    first_ts: str = ""
    last_ts: str = ""
    num_subjects: int = 0
    num_deleted: int = 0
    consumer_count: int = 0


class StreamInfo(JsonFields):
    """The configuration and the state of a stream."""

    config: Config
    state: StreamState
    created: str = ""

    @classmethod
    def _kinds(cls) -> dict[str, type[JsonFields]]:
        return {"config": Config, "state": StreamState}


class Sequences(JsonFields):
    """A position of a consumer: in its own deliveries, and in the stream."""

    consumer_seq: int = 0
    stream_seq: int = 0


class ConsumerInfo(JsonFields):
    """The configuration and the state of a consumer."""

    name: str = ""
    stream_name: str = ""
    created: str = ""
    config: Config
    delivered: Sequences
    ack_floor: Sequences
    num_ack_pending: int = 0
    num_redelivered: int = 0
    num_waiting: int = 0
    num_pending: int = 0
    paused: bool = False

    @classmethod
    def _kinds(cls) -> dict[str, type[JsonFields]]:
        return {"config": Config, "delivered": Sequences, "ack_floor": Sequences}


def _attribute(kind: type[JsonFields], name: str, value: Any) -> Any:
    """Return a value of the JSON as an attribute has it."""
    if isinstance(value, dict) and name != "metadata":
        return kind(value)
    if name in _DURATIONS:
        return value / SECOND_NS
    if name == "backoff":
        return [one / SECOND_NS for one in value or ()]
    return value
