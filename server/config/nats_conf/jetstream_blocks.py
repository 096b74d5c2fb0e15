"""The `jetstream` blocks of a nats-server configuration: the server's and an account's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from midge.server.config.nats_conf.sections import (
    Handler,
    Key,
    Missing,
    Section,
    positive,
    read_map,
)
from midge.server.config.nats_conf.values import (
    boolean,
    duration,
    entries,
    fail,
    integer,
    limit,
    seconds,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from midge.server.config.nats_conf.parser import Node

_SIZE = r"(-?[0-9]+)([KMGT]?)B?"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


_IO_MIN, _IO_MAX = 4, 8192


def storage_size(node: Node) -> int:
    """Return a number of bytes: an integer, or a text such as `"1GB"`; -1 means no limit."""
    if not isinstance(node.value, str):
        return integer(node)
    found = re.fullmatch(_SIZE, node.value.strip())
    if node.value and found is None:
        fail(node, f"expected a size such as 512M or 10GB, got {node.value[:60]!r}")
    return int(found[1]) * _UNITS[found[2]] if found else 0


def _nested(name: str, table: Mapping[str, Handler]) -> Callable[[Section, Node], None]:
    """Return the handler of a map within the map, for the table `name`."""

    def handle(section: Section, node: Node) -> None:
        read_map(node, section.table(name, node) if name else section, table)

    return handle


def _sync_as(key: str) -> Callable[[Section, Node], None]:
    """Return the handler of the sync interval: `always`, or a duration as it is written."""

    def handle(section: Section, node: Node) -> None:
        value = node.value
        if isinstance(value, str) and value.lower() == "always":
            value = "always"
        elif seconds(node) <= 0:  # which raises with the reason
            value = "2m"  # nats-server's default
        if not isinstance(value, str):
            text_ = f'invalid use of field "{key}": {key} should be converted to a duration'
            section.warn(node, text_)
            value = f"{value}s"
        section.put("sync_interval", value, node)

    return handle


def _concurrent_io(node: Node) -> int:
    """Return how many reads and writes nats-server would do at once, within its bounds."""
    value = node.value
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not (is_number and _IO_MIN <= integer(node) <= _IO_MAX):
        between = f"between {_IO_MIN} and {_IO_MAX}"
        fail(node, f'Expected an absolute size for "max_concurrent_io" {between}, got {value}')
    return integer(node)


def _unused(_: Section, node: Node) -> None:
    """Accept a number that only matters to servers with replicated streams."""
    storage_size(node)


_CIPHERS = {"chacha": "chacha", "chachapoly": "chacha", "aes": "aes"}


def _unused_switch(_: Section, node: Node) -> None:
    """Accept a switch that only matters to servers with replicated streams."""
    boolean(node)


def _cipher(node: Node) -> str:
    """Return a cipher by its name here."""
    name = text(node).lower()
    if name not in _CIPHERS:
        fail(node, f'unknown cipher type: "{node.value}"')
    return _CIPHERS[name]


def _cluster_traffic(_: Section, node: Node) -> None:
    """Accept a value that only replicated streams would use."""
    if text(node).lower() not in {"system", "owner", ""}:
        fail(node, f"expected 'system' or 'owner' for cluster_traffic, got {node.value!r}")


def _duplicate_window(node: Node) -> float:
    return max(duration(node, text(node)), 0)


def _batch_timeout(node: Node) -> float:
    return duration(node, text(node))


def _buffered_size(node: Node) -> int:
    return max(storage_size(node), 0)


_BATCH: dict[str, Handler] = {
    "max_inflight_per_stream": positive("max_batch_inflight_per_stream", "max_inflight_per_stream"),
    "max_inflight_total": positive("max_batch_inflight_total", "max_inflight_total"),
    "max_msgs": positive("max_batch_messages", "max_msgs"),
    "timeout": positive("max_batch_timeout_s", "timeout", _batch_timeout),
}

_LIMITS: dict[str, Handler] = {
    "max_ack_pending": Key("max_ack_pending", limit),
    "max_ha_assets": Key("max_ha_assets", limit),
    "max_request_batch": Key("max_request_batch", limit),
    "duplicate_window": Key("duplicate_window_s", _duplicate_window),
    "batch": _nested("", _BATCH),
}

SERVER: dict[str, Handler] = {
    "strict": Key("strict", boolean),
    "enabled": Key("enabled", boolean),
    "enable": Key("enabled", boolean),
    "store_dir": Key("store_dir", text),
    "storedir": Key("store_dir", text),
    "store": Key("store_dir", text),
    "sync": _sync_as("sync"),
    "sync_interval": _sync_as("sync_interval"),
    "max_memory_store": Key("max_memory_bytes", storage_size),
    "max_mem_store": Key("max_memory_bytes", storage_size),
    "max_mem": Key("max_memory_bytes", storage_size),
    "max_file_store": Key("max_file_bytes", storage_size),
    "max_file": Key("max_file_bytes", storage_size),
    "domain": Key("domain", text),
    "key": Key("encryption_key", text),
    "ek": Key("encryption_key", text),
    "encryption_key": Key("encryption_key", text),
    "prev_key": Key("prev_encryption_key", text),
    "prev_ek": Key("prev_encryption_key", text),
    "prev_encryption_key": Key("prev_encryption_key", text),
    "cipher": Key("cipher", _cipher),
    "extension_hint": Missing("JetStream extension hints"),
    "limits": _nested("limits", _LIMITS),
    "unique_tag": Key("unique_tag", text),
    "max_outstanding_catchup": _unused,
    "max_buffered_size": Key("max_buffered_bytes", _buffered_size),
    "max_buffered_msgs": Key("max_buffered_messages", limit),
    "request_queue_limit": Key("request_queue_limit", limit),
    "info_queue_limit": _unused,
    "max_concurrent_io": Key("max_concurrent_io", _concurrent_io),
    "meta_compact": _unused,
    "meta_compact_size": _unused,
    "meta_compact_sync": _unused_switch,
    "tpm": Missing("keys in a TPM"),
}

ACCOUNT: dict[str, Handler] = {
    "max_memory": Key("max_memory_bytes", storage_size),
    "max_mem": Key("max_memory_bytes", storage_size),
    "mem": Key("max_memory_bytes", storage_size),
    "memory": Key("max_memory_bytes", storage_size),
    "max_store": Key("max_file_bytes", storage_size),
    "max_file": Key("max_file_bytes", storage_size),
    "max_disk": Key("max_file_bytes", storage_size),
    "store": Key("max_file_bytes", storage_size),
    "disk": Key("max_file_bytes", storage_size),
    "max_streams": Key("max_streams", integer),
    "streams": Key("max_streams", integer),
    "max_consumers": Key("max_consumers", integer),
    "consumers": Key("max_consumers", integer),
    "max_bytes_required": Key("max_bytes_required", boolean),
    "max_stream_bytes": Key("max_bytes_required", boolean),
    "max_bytes": Key("max_bytes_required", boolean),
    "mem_max_stream_bytes": Key("memory_max_stream_bytes", storage_size),
    "memory_max_stream_bytes": Key("memory_max_stream_bytes", storage_size),
    "disk_max_stream_bytes": Key("file_max_stream_bytes", storage_size),
    "store_max_stream_bytes": Key("file_max_stream_bytes", storage_size),
    "max_ack_pending": Key("max_ack_pending", integer),
    "cluster_traffic": _cluster_traffic,
}


def _read(section: Section, node: Node, table: Mapping[str, Handler]) -> None:
    """Read `true`, `enabled`, `disabled` or a map, which enables unless it has `enabled: false`."""
    value = node.value
    if isinstance(value, dict):
        section.put("enabled", True, node)
        read_map(node, section, table)
        return
    if not isinstance(value, str | bool):
        fail(node, f"Expected map, bool or string to define JetStream, got {value}")
    word = value.lower() if isinstance(value, str) else value
    if word in (True, "enabled", "enable"):
        section.put("enabled", True, node)
    elif word in (False, "disabled", "disable"):
        section.put("enabled", False, node)
    else:
        fail(node, f"Expected 'enabled' or 'disabled' for string value, got '{value}'")


def read_jetstream(section: Section, node: Node) -> None:
    """Read the server's block."""
    _read(section.table("jetstream", node), node, SERVER)


def read_account_jetstream(section: Section, node: Node) -> None:
    """Read an account's block."""
    _read(section.table("jetstream", node), node, ACCOUNT)


def read_feature_flags(section: Section, node: Node) -> None:
    """Read `feature_flags`, a map of flags to whether they are set."""
    for name, entry in entries(node).items():
        if name.lower() != "js_ack_fc_v2":
            fail(entry, f'field "feature_flags": midge does not know {name!r}')
        section.put("jetstream.ack_format", "v2" if boolean(entry) else "v1", entry)
