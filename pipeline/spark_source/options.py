"""The options of the `nats` source and sink: their names, defaults and what each accepts.

Spark hands options over as text with names in any case. Here they become typed, frozen structures,
checked once on the driver, so that no task starts with a value that has no meaning.
"""

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar, Self

from midge.client.errors import OptionError
from midge.client.options import CONNECT_NAMES, ClientOptions, OptionReader
from midge.pipeline.offsets import EARLIEST, LATEST, check_offsets_option
from midge.sublist import subjects

_UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600}


@dataclass(frozen=True)
class SourceOptions:
    """The stream to read, its range, and the size of portions."""

    connect: ClientOptions
    stream: str
    subjects: tuple[str, ...] = ()
    starting_offsets: str = ""
    ending_offsets: str = LATEST
    starting_timestamp: str = ""
    ending_timestamp: str = ""
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_s: float = 900.0
    """How long a micro-batch waits at most for `min_offsets_per_trigger`."""
    min_partitions: int | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = False
    push_filters: bool = False
    store: str = ""
    """A store's directory that batches are read from, without a server."""
    account: str = ""
    """The account of the stream in the store."""
    store_key: str = ""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Check and type the source's options.

        Raises:
            OptionError: a name is unknown, one is missing, or a value has no meaning.

        """
        reader = _StreamOptionReader(options, _SOURCE_NAMES | CONNECT_NAMES)
        stream = reader.stream_name("stream", required=True)
        parsed = cls(
            connect=ClientOptions.read(reader),
            stream=stream,
            subjects=reader.subject_filters("subject"),
            starting_offsets=reader.offsets("startingOffsets", "", stream),
            ending_offsets=reader.offsets("endingOffsets", LATEST, stream),
            starting_timestamp=reader.timestamp("startingTimestamp")
            or reader.timestamp_of("startingOffsetsByTimestamp", stream),
            ending_timestamp=reader.timestamp("endingTimestamp")
            or reader.timestamp_of("endingOffsetsByTimestamp", stream),
            max_offsets_per_trigger=reader.positive("maxOffsetsPerTrigger"),
            min_offsets_per_trigger=reader.positive("minOffsetsPerTrigger"),
            max_trigger_delay_s=reader.duration("maxTriggerDelay", cls.max_trigger_delay_s),
            min_partitions=reader.positive("minPartitions"),
            fail_on_data_loss=reader.boolean("failOnDataLoss", default=True),
            include_headers=reader.boolean("includeHeaders", default=False),
            push_filters=reader.boolean("pushFilters", default=False),
            store=reader.text("store"),
            account=reader.text("account", "$G"),
            store_key=reader.file("storeKeyFile").strip(),
        )
        for end in ("starting", "ending"):
            names = (f"{end}Offsets", f"{end}Timestamp", f"{end}OffsetsByTimestamp")
            for one, other in itertools.combinations(names, 2):
                reader.refuse_both(one, other)
        least, most = parsed.min_offsets_per_trigger, parsed.max_offsets_per_trigger
        if least and most and least > most:
            raise OptionError(
                f"minOffsetsPerTrigger: expected at most maxOffsetsPerTrigger, {most}, got {least}"
            )
        if parsed.ending_offsets.strip().lower() == EARLIEST:
            raise OptionError('endingOffsets: expected latest or {"STREAM": <sequence>}')
        return parsed


@dataclass(frozen=True)
class SinkOptions:
    """Options of the sink: its destination, and the ids by which the stream drops repeated rows."""

    CORE: ClassVar[str] = "core"
    JETSTREAM: ClassVar[str] = "jetstream"

    connect: ClientOptions
    mode: str = JETSTREAM
    subject: str = ""
    stream: str = ""
    id_columns: tuple[str, ...] = ()
    ignores_extra_columns: bool = False
    ack_window: int = 1024
    ack_timeout_s: float = 30.0

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Check and type the sink's options.

        Raises:
            OptionError: a name is unknown, one is missing, or a value has no meaning.

        """
        reader = _StreamOptionReader(options, _SINK_NAMES | CONNECT_NAMES)
        mode = reader.text("mode", cls.JETSTREAM).lower()
        if mode not in (cls.JETSTREAM, cls.CORE):
            raise OptionError(f"mode: expected jetstream or core, got {mode!r}")
        subject = reader.text("subject")
        if subject and not subjects.is_valid_publish_subject(subject.encode()):
            raise OptionError(f"subject: expected a subject without wildcards, got {subject!r}")
        extra = reader.text("extraColumns", "refuse").lower()
        if extra not in ("refuse", "ignore"):
            raise OptionError(f"extraColumns: expected refuse or ignore, got {extra!r}")
        return cls(
            connect=ClientOptions.read(reader),
            mode=mode,
            ignores_extra_columns=extra == "ignore",
            subject=subject,
            stream=reader.stream_name("stream"),
            id_columns=reader.names("idColumns"),
            ack_window=reader.positive("ackWindow") or cls.ack_window,
            ack_timeout_s=reader.seconds("ackTimeout", cls.ack_timeout_s),
        )


_SOURCE_NAMES = frozenset(
    {
        *("stream", "subject", "startingOffsets", "endingOffsets", "startingTimestamp"),
        *("endingTimestamp", "maxOffsetsPerTrigger", "minPartitions", "failOnDataLoss"),
        *("startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "minOffsetsPerTrigger"),
        "maxTriggerDelay",
        *("includeHeaders", "pushFilters", "store", "account", "storeKeyFile"),
    }
)
_SINK_NAMES = frozenset(
    {*("mode", "subject", "stream", "idColumns", "extraColumns", "ackWindow", "ackTimeout")}
)


class _StreamOptionReader(OptionReader):
    """Reads what only the source and the sink have: counts, times, offsets and subjects."""

    # Spark adds these by itself.
    ignored: ClassVar[frozenset[str]] = frozenset({"path", "checkpointlocation", "queryname"})

    def refuse_both(self, one: str, other: str) -> None:
        if self.text(one) and self.text(other):
            raise OptionError(f"{other}: expected to stand alone, {one} is set too")

    def positive(self, name: str) -> int | None:
        text = self.text(name).strip()
        if not text:
            return None
        if not (text.isascii() and text.isdecimal()) or int(text[:18]) == 0:
            raise OptionError(f"{name}: expected a whole number from 1 up, got {text!r}")
        return int(text[:18])

    def duration(self, name: str, default: float) -> float:
        """Return seconds from a time with its unit as Spark writes it, or from plain seconds."""
        text = self.text(name).strip().lower()
        found = re.fullmatch(r"(\d{1,6}) ?(ms|s|m|min|h)?", text)
        if not text:
            return default
        if found is None or int(found[1]) == 0:
            raise OptionError(f"{name}: expected a time such as 30s, 5m or 1h, got {text!r}")
        return int(found[1]) * _UNITS_S[found[2] or "s"]

    def timestamp_of(self, name: str, stream: str) -> str:
        """Return RFC 3339 from `{"STREAM": milliseconds}`, as Kafka's options have it."""
        text = self.text(name)
        if not text:
            return ""
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if (
            not isinstance(value, dict)
            or list(value) != [stream]
            or type(value[stream]) is not int
            or value[stream] < 0
        ):
            raise OptionError(
                f'{name}: expected {{"{stream}": <milliseconds since 1970>}}, got {text!r}'
            )
        return _rfc3339(name, str(value[stream]))

    def offsets(self, name: str, default: str, stream: str) -> str:
        text = self.text(name, default)
        if text:
            check_offsets_option(text, stream, name)
        return text

    def timestamp(self, name: str) -> str:
        text = self.text(name).strip()
        return _rfc3339(name, text) if text else ""

    def subject_filters(self, name: str) -> tuple[str, ...]:
        filters = tuple(dict.fromkeys(self.names(name)))
        for pattern in filters:
            if not subjects.is_valid_subject(pattern.encode()):
                raise OptionError(f"{name}: expected a subject, wildcards allowed, got {pattern!r}")
        for one, other in itertools.combinations(filters, 2):
            if subjects.overlaps(one.encode(), other.encode()):
                raise OptionError(
                    f"{name}: expected filters that do not overlap, got {one!r} and {other!r}"
                )
        return filters

    def names(self, name: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.text(name).split(",") if part.strip())


def _rfc3339(name: str, text: str) -> str:
    """Return RFC 3339 in UTC from milliseconds since 1970, as Kafka's option, or RFC 3339."""
    try:
        if text.isascii() and text.isdecimal():
            moment = datetime.fromtimestamp(int(text) / 1000, tz=UTC)
        else:
            moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        moment = None
    if moment is None or moment.tzinfo is None:
        raise OptionError(
            f"{name}: expected milliseconds since 1970 or a time with its zone such as "
            f"2026-01-31T12:00:00Z, got {text!r}"
        )
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
