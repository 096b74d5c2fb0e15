"""The `[pipeline]` table of the configuration: where records and lake are, and how to work."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, get_args

from midge.client.errors import reason_of
from midge.pipeline.errors import PipelineError
from midge.pipeline.matching.strategies import BROADCAST_MAX_PATTERNS, STRATEGIES, Strategy


class SettingsError(PipelineError):
    """A setting is invalid; the text names the file, the key and the expected value."""


class Days(NamedTuple):
    """A range of days, both included."""

    first: date
    last: date


class Period(NamedTuple):
    """A range of time, from its first moment up to its end, which is not in it."""

    first: datetime
    end: datetime


@dataclass(frozen=True)
class PipelineSettings:
    """Settings of the pipeline; every field can be given in `[pipeline]`."""

    records_directory: str = "records"
    """Where a server records; by default the file's `recorder.directory`, if there is one."""
    lake_directory: str = "lake"
    """Where the tables go: a path, or a URI of a file system that Spark knows."""
    master: str = "local[*]"
    """The Spark master."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """More of Spark's configuration, by its own names."""
    prefix_tokens: int = 2
    """How many tokens of a subject make its prefix."""
    window_s: int = 60
    """The length of the windows that traffic is summed up in."""
    late_after_s: float = 60.0
    """How far the watermark stays behind the newest message."""
    request_timeout_s: float = 30.0
    """How long after a request a message to its reply subject counts as the reply."""
    max_files_per_batch: int = 64
    """How many segments one batch takes at most."""
    trigger_interval_s: float = 10.0
    """How often `stream` looks for new segments."""
    gold_interval_s: float = 60.0
    """How often `stream` rebuilds the gold tables, at most."""
    keep_days: float = 0.0
    """How many days before the newest one the lake keeps; 0 keeps all."""
    match_strategy: Strategy = "auto"
    """How messages meet subscriptions: `auto`, `broadcast` or `shuffle`."""
    broadcast_max_patterns: int = BROADCAST_MAX_PATTERNS
    """Up to how many patterns `auto` broadcasts."""

    def __post_init__(self) -> None:
        if self.match_strategy not in STRATEGIES:
            raise SettingsError(
                f"match_strategy: expected one of {', '.join(STRATEGIES)}, "
                f"got {self.match_strategy!r}"
            )
        for each in fields(self):
            value = getattr(self, each.name)
            least = 0 if each.name == "keep_days" else 1e-9
            if isinstance(value, int | float) and value < least:
                raise SettingsError(f"{each.name}: expected more than 0, got {value}")


def load_settings(path: Path | None) -> PipelineSettings:
    """Return the settings in `[pipeline]` of a configuration file, or the defaults without one.

    Raises:
        SettingsError: the file cannot be read, or a setting has no meaning.
    """
    if path is None:
        return PipelineSettings()
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: {reason_of(error)}") from error
    table = document.get("pipeline", {})
    if not isinstance(table, dict):
        raise SettingsError(f"pipeline: expected a table, got {table!r} ({path})")
    # Empty text is how a configuration file spells "the default".
    table = {name: value for name, value in table.items() if value != ""}
    recorder = document.get("recorder")
    recorded = recorder.get("directory") if isinstance(recorder, dict) else None
    if isinstance(recorded, str) and recorded:
        table = {"records_directory": recorded} | table
    try:
        return replace(PipelineSettings(), **_checked(table))
    except SettingsError as error:
        raise SettingsError(f"pipeline.{error} ({path})") from error


def _checked(table: Mapping[str, Any]) -> dict[str, Any]:
    known = {each.name: each.type for each in fields(PipelineSettings)}
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f", did you mean {near[0]!r}?" if near else ""
            raise SettingsError(f"{name}: unknown setting{hint}")
        values[name] = _converted(name, value, known[name])
    return values


def _converted(name: str, value: Any, kind: Any) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    if kind == Mapping[str, str]:
        if not isinstance(value, dict):
            raise SettingsError(f"{name}: expected a table, got {value!r}")
        return {key: str(each) for key, each in value.items()}
    expected = str if get_args(kind) else kind
    if type(value) is not expected:
        raise SettingsError(f"{name}: expected {expected.__name__}, got {value!r}")
    return value
