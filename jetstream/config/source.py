"""The origins of a mirror or a sourcing stream, and their subject transforms."""

from __future__ import annotations

from msgspec import Struct, field

from midge.jetstream.config.names import short_hash
from midge.jetstream.json.structure import Field, Integer, Items, Structure, Text, Time
from midge.jetstream.json.times import Timestamp


class SubjectTransform(Struct):
    """A source and a destination; an empty source means all, an empty destination unchanged."""

    source: str = ""
    destination: str = ""


class ExternalStream(Struct):
    """Prefixes for reaching a stream of another account or domain."""

    api_prefix: str = ""
    deliver_prefix: str = ""


class SourceConsumer(Struct):
    """The durable consumer through which a stream is sourced, if one was made beforehand."""

    name: str = ""
    deliver_subject: str = ""


class StreamSource(Struct):
    """One origin of a mirror or of a sourcing stream."""

    name: str = ""
    start_seq: int = 0
    start_time: Timestamp | None = None
    filter_subject: str = ""
    subject_transforms: list[SubjectTransform] = field(default_factory=list)
    external: ExternalStream | None = None
    consumer: SourceConsumer | None = None

    def filters(self) -> list[str]:
        """Return the filter subjects, ``>`` for all."""
        if not self.subject_transforms:
            return [self.filter_subject or ">"]
        return [transform.source or ">" for transform in self.subject_transforms]

    def index_name(self) -> str:
        """Return a text that distinguishes this source from the stream's other sources."""
        name = self.name
        if self.external is not None:
            name += ":" + short_hash(self.external.api_prefix)
        if self.consumer is not None:
            name += ":C=" + short_hash(self.consumer.name)
        destinations = [transform.destination or ">" for transform in self.subject_transforms]
        return " ".join([name, "\f".join(self.filters()), "\f".join(destinations or [">"])])

    def consumer_index_name(self) -> str:
        """Return a text that distinguishes the consumer of this source from others."""
        name = self.name
        if self.external is not None:
            name += ":" + short_hash(self.external.api_prefix)
        return f"{name} {self.consumer.name if self.consumer else ''}"


TRANSFORM = Structure(
    "SubjectTransformConfig",
    SubjectTransform,
    [
        Field("src", Text(), "source", is_optional=False),
        Field("dest", Text(), "destination", is_optional=False),
    ],
)
TRANSFORM_VALUE = Structure(
    "SubjectTransformConfig", SubjectTransform, TRANSFORM.fields, is_value=True
)
EXTERNAL = Structure(
    "ExternalStream",
    ExternalStream,
    [
        Field("api", Text(), "api_prefix", is_optional=False),
        Field("deliver", Text(), "deliver_prefix", is_optional=False),
    ],
)
SOURCE_CONSUMER = Structure(
    "StreamConsumerSource",
    SourceConsumer,
    [Field("name", Text()), Field("deliver_subject", Text())],
)
SOURCE = Structure(
    "StreamSource",
    StreamSource,
    [
        Field("name", Text(), is_optional=False),
        Field("opt_start_seq", Integer("uint64", is_signed=False), "start_seq"),
        Field("opt_start_time", Time(), "start_time"),
        Field("filter_subject", Text()),
        Field("subject_transforms", Items(TRANSFORM_VALUE, "[]server.SubjectTransformConfig")),
        Field("external", EXTERNAL),
        Field("consumer", SOURCE_CONSUMER),
    ],
)
