"""The options of the `nats` source and sink: their names, defaults and what each accepts.

Spark hands options over as text with names in any case. Here they become typed, frozen structures,
checked once on the driver, so that no task starts with a value that has no meaning.
"""

import difflib
import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Self
from urllib.parse import unquote, urlsplit

from midge.pipeline.errors import OptionError, reason_of
from midge.pipeline.nats.offsets import EARLIEST, LATEST, check_offsets_option
from midge.sublist import subjects

_TRUE, _FALSE = {"true", "1", "yes"}, {"false", "0", "no"}
_UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600}
_DEFAULT_PORT = 4222
_STREAM_NAME = re.compile(r"[^\s.*>/\\\x00-\x1f\x7f]{1,255}")


@dataclass(frozen=True)
class ServerAddress:
    """Where a server listens, and whether its URL asks for TLS."""

    host: str
    port: int
    tls: bool

    def __str__(self) -> str:
        """Write the address as a user would, without credentials."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True)
class ConnectOptions:
    """How to reach and enter a NATS server."""

    servers: tuple[ServerAddress, ...]
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    credentials: str = field(default="", repr=False)
    """The text of a credentials file (user JWT and nkey seed), or of a bare nkey seed."""
    tls_ca_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    tls_hostname: str = ""
    tls_first: bool = False
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 60.0
    """How long to wait for an answer, and for a lost server to come back."""
    domain: str = ""
    name: str = "midge-pipeline"
    """The connection's name on the server."""

    @property
    def tls(self) -> bool:
        """Whether TLS was asked for, by a URL or by any TLS option."""
        return any(server.tls for server in self.servers) or bool(
            self.tls_ca_file or self.tls_cert_file or self.tls_hostname or self.tls_first
        )


@dataclass(frozen=True)
class SourceOptions:
    """The stream to read, its range, and the size of portions."""

    connect: ConnectOptions
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

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Check and type the source's options.

        Raises:
            OptionError: a name is unknown, one is missing, or a value has no meaning.

        """
        reader = _Reader(options, _SOURCE_NAMES | _CONNECT_NAMES)
        stream = reader.stream_name("stream", required=True)
        parsed = cls(
            connect=_connect_options(reader),
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
    """Where to publish, and how a row is told apart from the same row written again."""

    CORE: ClassVar[str] = "core"
    JETSTREAM: ClassVar[str] = "jetstream"

    connect: ConnectOptions
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
        reader = _Reader(options, _SINK_NAMES | _CONNECT_NAMES)
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
            connect=_connect_options(reader),
            mode=mode,
            ignores_extra_columns=extra == "ignore",
            subject=subject,
            stream=reader.stream_name("stream"),
            id_columns=reader.names("idColumns"),
            ack_window=reader.positive("ackWindow") or cls.ack_window,
            ack_timeout_s=reader.seconds("ackTimeout", cls.ack_timeout_s),
        )


_CONNECT_NAMES = {
    *("servers", "user", "password", "token", "credentialsFile", "tlsCaFile", "tlsCertFile"),
    *("tlsKeyFile", "tlsHostname", "tlsFirst", "connectTimeout", "requestTimeout", "domain"),
}
_SOURCE_NAMES = {
    *("stream", "subject", "startingOffsets", "endingOffsets", "startingTimestamp"),
    *("endingTimestamp", "maxOffsetsPerTrigger", "minPartitions", "failOnDataLoss"),
    *("startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "minOffsetsPerTrigger"),
    "maxTriggerDelay",
    *("includeHeaders", "pushFilters"),
}
_SINK_NAMES = {
    *("mode", "subject", "stream", "idColumns", "extraColumns", "ackWindow", "ackTimeout")
}
# Spark adds these by itself.
_SPARK_NAMES = {"path", "checkpointlocation", "queryname"}


def _connect_options(reader: "_Reader") -> ConnectOptions:
    servers, user, password = reader.servers("servers")
    parsed = ConnectOptions(
        servers=servers,
        user=reader.text("user", user),
        password=reader.text("password", password),
        token=reader.text("token"),
        credentials=reader.file("credentialsFile"),
        tls_ca_file=reader.text("tlsCaFile"),
        tls_cert_file=reader.text("tlsCertFile"),
        tls_key_file=reader.text("tlsKeyFile"),
        tls_hostname=reader.text("tlsHostname"),
        tls_first=reader.boolean("tlsFirst", default=False),
        connect_timeout_s=reader.seconds("connectTimeout", ConnectOptions.connect_timeout_s),
        request_timeout_s=reader.seconds("requestTimeout", ConnectOptions.request_timeout_s),
        domain=reader.stream_name("domain"),
    )
    if parsed.tls_key_file and not parsed.tls_cert_file:
        raise OptionError("tlsKeyFile: expected tlsCertFile with it")
    return parsed


class _Reader:
    """Take typed values out of Spark's options; every error names its option."""

    def __init__(self, options: Mapping[str, str], names: set[str]) -> None:
        self._values = {name.lower(): str(value) for name, value in dict(options).items()}
        known = {name.lower(): name for name in names}
        for name in self._values:
            if name not in known and name not in _SPARK_NAMES:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {known[near[0]]}?" if near else ""
                raise OptionError(f"{name}: there is no such option{hint}")

    def text(self, name: str, default: str = "") -> str:
        return self._values.get(name.lower(), default)

    def refuse_both(self, one: str, other: str) -> None:
        if self.text(one) and self.text(other):
            raise OptionError(f"{other}: expected to stand alone, {one} is set too")

    def boolean(self, name: str, *, default: bool) -> bool:
        text = self.text(name, str(default)).strip().lower()
        if text not in _TRUE | _FALSE:
            raise OptionError(f"{name}: expected true or false, got {text!r}")
        return text in _TRUE

    def positive(self, name: str) -> int | None:
        text = self.text(name).strip()
        if not text:
            return None
        if not (text.isascii() and text.isdecimal()) or int(text[:18]) == 0:
            raise OptionError(f"{name}: expected a whole number from 1 up, got {text!r}")
        return int(text[:18])

    def seconds(self, name: str, default: float) -> float:
        text = self.text(name, str(default)).strip()
        if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", text) or float(text) == 0:
            raise OptionError(f"{name}: expected seconds above 0, such as 2.5, got {text!r}")
        return float(text)

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

    def stream_name(self, name: str, *, required: bool = False) -> str:
        text = self.text(name)
        if not text and not required:
            return ""
        if not _STREAM_NAME.fullmatch(text):
            raise OptionError(
                f"{name}: expected a name without blanks, dots, wildcards and slashes, got {text!r}"
            )
        return text

    def names(self, name: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.text(name).split(",") if part.strip())

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

    def file(self, name: str) -> str:
        path = self.text(name)
        if not path:
            return ""
        try:
            return Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"{name}: cannot read {path!r}: {reason_of(error)}") from error

    def servers(self, name: str) -> tuple[tuple[ServerAddress, ...], str, str]:
        """Return the addresses, and the user and password that a URL carries."""
        addresses, user, password = [], "", ""
        for part in self.text(name, f"nats://127.0.0.1:{_DEFAULT_PORT}").split(","):
            url = part.strip()
            try:
                split = urlsplit(url if "://" in url else f"nats://{url}")
                host, port = split.hostname, split.port
            except ValueError:
                host, port = None, None
            if not host or split.scheme not in ("nats", "tls"):
                raise OptionError(f"{name}: expected nats://host:port or tls://…, got {_mask(url)}")
            addresses.append(ServerAddress(host, port or _DEFAULT_PORT, split.scheme == "tls"))
            user = user or unquote(split.username or "")
            password = password or unquote(split.password or "")
        return tuple(addresses), user, password


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


def _mask(url: str) -> str:
    """Return the URL for an error text, without the password that it may carry."""
    return repr(re.sub(r"(?<=://)[^@/]*@", "***@", url))
