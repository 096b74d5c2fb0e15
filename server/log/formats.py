"""The formats of log lines: for people, JSON, or nats-server's.

Text from peers is escaped: an event is always one line, and control characters from the network
never reach a terminal.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from midge.server.log.nats_sentences import ADDITIONS, SENTENCES

if TYPE_CHECKING:
    from typing import TextIO

    from midge.server.config.options import Logging

Form = Callable[[float, str, str, dict[str, Any]], str]
"""Returns the line, without its end, of Unix time, level, event and fields."""

NATS_LEVELS = {
    "trace": "TRC",
    "debug": "DBG",
    "info": "INF",
    "warning": "WRN",
    "error": "ERR",
    "fatal": "FTL",
}


def printable(value: Any) -> str:
    """Return the text of a value with every control character escaped."""
    if isinstance(value, bytes | bytearray | memoryview):
        value = bytes(value).decode("utf-8", "backslashreplace")
    text = value if isinstance(value, str) else str(value)
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else _escaped(character) for character in text
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _moment(time_s: float, *, utc: bool) -> datetime:
    moment = datetime.fromtimestamp(time_s, UTC)
    return moment if utc else moment.astimezone()


_WORDS = {
    "id_announced": "Server id",
    "name_announced": "Server name",
    "version_announced": "Version of midge",
    "compatibility_announced": "Compatible with nats-server",
}
"""The events whose names say nothing to people, in words."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def words_of(event: str) -> str:
    """Return the name of an event in words: `Client connected`, `JetStream ready`."""
    words = _WORDS.get(event) or event.replace("_", " ")
    return (words[:1].upper() + words[1:]).replace("Jetstream", "JetStream")


def with_unit(name: str, value: Any) -> tuple[str, Any]:
    """Return a field for people: `store_bytes` of 2048 is `store`, `2.0 KiB`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and name.endswith("_s"):
        return name.removesuffix("_s"), f"{value:g} s"
    if not is_number or not name.endswith("_bytes"):
        return name, value
    size, power = float(value), 0
    while abs(size) >= 1024 and power < len(_UNITS) - 1:
        size, power = size / 1024, power + 1
    return name.removesuffix("_bytes"), f"{size:.1f} {_UNITS[power]}" if power else f"{value} B"


class HumanForm:
    """A line for people, in colour on a terminal."""

    def __init__(self, options: Logging, _pid: int, stream: TextIO) -> None:
        """Take the time zone from `options`; use colours if `stream` is a terminal."""
        self._utc = options.logtime_utc
        colours = not options.file and stream.isatty()
        import structlog  # noqa: PLC0415 - with all of its dependencies, for this form alone

        self._render = structlog.dev.ConsoleRenderer(colors=colours, pad_event_to=28)

    def __call__(self, time_s: float, level: str, event: str, fields: dict[str, Any]) -> str:
        """Return the line of an event."""
        shown = dict(with_unit(name, value) for name, value in fields.items())
        line = {name: printable(value) for name, value in shown.items()}
        stamp = _moment(time_s, utc=self._utc).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        line |= {"event": words_of(printable(event)), "level": level, "timestamp": stamp}
        return str(self._render(None, level, line))


class JsonForm:
    """One JSON object per line, times in UTC."""

    def __init__(self, _options: Logging, _pid: int, _stream: TextIO) -> None:
        """Take the arguments of all formats; JSON needs none of them."""

    def __call__(self, time_s: float, level: str, event: str, fields: dict[str, Any]) -> str:
        """Return the line of an event."""
        import json  # noqa: PLC0415 - for this form alone

        stamp = _moment(time_s, utc=True).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        line = {"time": stamp, "level": level, "event": event}
        return json.dumps({**line, **fields, **line}, default=printable)


class NatsForm:
    """nats-server's line: `[pid] 2026/11/21 03:49:33.181474 [INF] text`."""

    def __init__(self, options: Logging, pid: int, _stream: TextIO) -> None:
        """Start lines with `pid`, and with the time unless `options` turn it off."""
        self._pid = pid
        self._logtime = options.logtime
        self._utc = options.logtime_utc

    def __call__(self, time_s: float, level: str, event: str, fields: dict[str, Any]) -> str:
        """Return the line of an event."""
        stamp = ""
        if self._logtime:
            stamp = _moment(time_s, utc=self._utc).strftime("%Y/%m/%d %H:%M:%S.%f ")
        return f"[{self._pid}] {stamp}[{NATS_LEVELS[level]}] {sentence(event, fields)}"


class PlainForm:
    """nats-server's sentence alone, where syslog adds process, time and level."""

    def __init__(self, _options: Logging, _pid: int, _stream: TextIO) -> None:
        """Take the arguments of all formats; this one needs none of them."""

    def __call__(self, time_s: float, level: str, event: str, fields: dict[str, Any]) -> str:
        """Return the line of an event."""
        return sentence(event, fields)


def sentence(event: str, fields: dict[str, Any]) -> str:
    """Return nats-server's sentence for an event, preceded by its connection if it has one."""
    shown = {name: printable(value) for name, value in fields.items()}
    prefix = ""
    if "cid" in shown and "peer" in shown:
        prefix = f"{shown.pop('peer')} - cid:{shown.pop('cid')} - "
        client = shown.pop("client", "")
        prefix += f'"{client}" - ' if client else ""
    template = SENTENCES.get(event)
    if template is not None:
        field, addition = ADDITIONS.get(event, ("", ""))
        template += addition if shown.get(field) else ""
        return prefix + template.format_map(_Blank(shown))
    words = words_of(printable(event))
    with_units = (with_unit(name, fields[name]) for name in shown)
    details = " ".join(f"{name}={printable(value)}" for name, value in with_units)
    return f"{prefix}{words}: {details}" if details else prefix + words


class _Blank(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return f"<no {key}>"


FORMS: dict[str, type[HumanForm | JsonForm | NatsForm | PlainForm]] = {
    "human": HumanForm,
    "json": JsonForm,
    "nats": NatsForm,
    "plain": PlainForm,
}
"""The formats by their names in `logging.format`."""
