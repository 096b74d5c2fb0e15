"""The settings that a reload changes, and those that it may not change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from midge.server.config import schema
from midge.server.config.table import REDACTED
from midge.server.config.to_toml import toml_value
from midge.server.errors import CombinedConfigError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from midge.server.config.options import Options

FIXED = (
    ("server_name",),
    ("server",),
    ("listen", "host"),
    ("listen", "port"),
    ("routing", "cache_max"),
    ("routing", "cache_sweep_to"),
    ("routing", "exact_match"),
    ("leafnodes", "host"),
    ("leafnodes", "port"),
    ("cluster", "host"),
    ("cluster", "port"),
    ("websocket", "host"),
    ("websocket", "port"),
    ("websocket", "compression"),
    ("monitoring", "host"),
    ("monitoring", "http_port"),
    ("monitoring", "https_port"),
    ("monitoring", "base_path"),
    ("recorder", "directory"),
)
"""Settings, or tables of them, that are fixed while a server runs."""


_SPOKEN: dict[tuple[str, ...], str] = {
    ("cluster", "host"): "cluster host",
    ("cluster", "port"): "cluster port",
}
"""nats-server's names for settings in a refusal, where they are not the keys."""


class SettingChange(NamedTuple):
    """A setting whose value has changed."""

    setting: schema.Setting
    old: Any
    new: Any

    @property
    def is_allowed(self) -> bool:
        """Return whether a running server can apply it."""
        path = self.setting.path
        return not any(path[: len(fixed)] == fixed for fixed in FIXED)

    def refusal(self) -> str:
        """Return why a reload with this change is refused."""
        spoken = _SPOKEN.get(self.setting.path)
        if spoken is not None:
            return f"config reload not supported for {spoken}: old={self.old}, new={self.new}"
        return (
            f"config reload not supported for {self.setting.key}: "
            f"old={self.text(self.old)}, new={self.text(self.new)}"
        )

    def text(self, value: Any) -> str:
        """Return `value` in a form without secrets."""
        if self.setting.secret:
            return REDACTED
        # Tables hold secrets of their own, and are long.
        is_plain = isinstance(value, str | int | float | bool)
        return toml_value(value) if is_plain else "…"


def changes(old: Options, new: Options) -> Iterator[SettingChange]:
    """Yield the settings that differ between `old` and `new`."""
    for setting in schema.settings():
        before, after = value_of(old, setting), value_of(new, setting)
        if before != after:
            yield SettingChange(setting, before, after)


def value_of(options: Options, setting: schema.Setting) -> Any:
    """Return the value of a setting."""
    value: Any = options
    for name in setting.path:
        value = getattr(value, name)
    return value


_JETSTREAM_CHANGED = frozenset({"enabled", "limits", "max_memory_bytes", "max_file_bytes"})
"""Settings of JetStream that may change while it is on, the last two as `_lowered` says."""

_UNSET = -1


def _is_fixed_jetstream(change: SettingChange, old: Options, new: Options) -> bool:
    """Return whether a change is one that JetStream cannot take while it goes on."""
    path = change.setting.path
    if path[0] != "jetstream" or not (old.jetstream.enabled and new.jetstream.enabled):
        return False
    return path[1] not in _JETSTREAM_CHANGED


def _lowered(change: SettingChange, old: Options, new: Options) -> str:
    """Return why a limit of JetStream's storage cannot change so; empty when it can."""
    path = change.setting.path
    if path[0] != "jetstream" or not (old.jetstream.enabled and new.jetstream.enabled):
        return ""
    if path[1] not in {"max_memory_bytes", "max_file_bytes"}:
        return ""
    if change.old == _UNSET:
        return "jetstream dynamic max memory and store"
    if change.new == _UNSET:
        return "jetstream max memory and max store"
    return "decreasing jetstream max memory and store" if change.new < change.old else ""


def check_reload(old: Options, new: Options) -> list[SettingChange]:
    """Return the changes of a reload from `old` to `new`.

    Raises: ConfigError when it would change a fixed setting.
    """
    found = list(changes(old, new))
    errors = [
        ConfigError(change.refusal())
        for change in found
        if not change.is_allowed or _is_fixed_jetstream(change, old, new)
    ]
    errors += [
        ConfigError(f"config reload not supported for {why}")
        for why in dict.fromkeys(_lowered(change, old, new) for change in found)
        if why
    ]
    if errors:
        raise errors[0] if len(errors) == 1 else CombinedConfigError(errors)
    return found
