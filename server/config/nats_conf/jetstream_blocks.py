"""The `jetstream` blocks of a nats-server configuration: the server's and an account's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.config.nats_conf.sections import (
    Handler,
    IgnoredKey,
    Key,
    Section,
    UnsupportedKey,
    positive,
    read_map,
)
from midge.server.config.nats_conf.values import (
    boolean,
    entries,
    fail,
    integer,
    limit,
    seconds,
    span,
    storage_size,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from midge.server.config.nats_conf.parser import ConfNode

_IO_MIN, _IO_MAX = 4, 8192


def _nested(name: str, table: Mapping[str, Handler]) -> Callable[[Section, ConfNode], None]:
    """Return the handler of a map within the map, for the table `name`."""

    def handle(section: Section, node: ConfNode) -> None:
        read_map(node, section.table(name, node) if name else section, table)

    return handle


def _sync_as(key: str) -> Callable[[Section, ConfNode], None]:
    """Return the handler of the sync interval: `always`, or a duration as it is written."""

    def handle(section: Section, node: ConfNode) -> None:
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


def _concurrent_io(node: ConfNode) -> int:
    """Return how many reads and writes nats-server would do at once, within its bounds."""
    value = node.value
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not (is_number and _IO_MIN <= integer(node) <= _IO_MAX):
        between = f"between {_IO_MIN} and {_IO_MAX}"
        fail(node, f'Expected an absolute size for "max_concurrent_io" {between}, got {value}')
    return integer(node)


_CIPHERS = {"chacha": "chacha", "chachapoly": "chacha", "aes": "aes"}


def _store_dir(section: Section, node: ConfNode) -> None:
    if section.values.get("store_dir"):
        fail(node, "Duplicate 'store_dir' configuration")
    section.put("store_dir", text(node), node)


def _cipher(node: ConfNode) -> str:
    """Return a cipher by its name here."""
    name = text(node).lower()
    if name not in _CIPHERS:
        fail(node, f'unknown cipher type: "{node.value}"')
    return _CIPHERS[name]


def _cluster_traffic(node: ConfNode) -> str:
    if text(node) not in {"system", "owner", ""}:
        fail(node, f"expected 'system' or 'owner' for cluster_traffic, got {node.value!r}")
    return text(node)


def _size_from_0(node: ConfNode) -> int:
    if storage_size(node) < 0:
        fail(node, f"expected an absolute size, got {node.value}")
    return storage_size(node)


def _count_from_0(node: ConfNode) -> int:
    if integer(node) < 0:
        fail(node, f"expected an absolute size, got {node.value}")
    return integer(node)


def _duplicate_window(node: ConfNode) -> float:
    return max(span(node), 0)


def _buffered_size(node: ConfNode) -> int:
    return max(storage_size(node), 0)


_REPLICAS = "midge has no replicated streams"

BATCH: dict[str, Handler] = {
    "max_inflight_per_stream": positive("max_batch_inflight_per_stream", "max_inflight_per_stream"),
    "max_inflight_total": positive("max_batch_inflight_total", "max_inflight_total"),
    "max_msgs": positive("max_batch_messages", "max_msgs"),
    "timeout": positive("max_batch_timeout_s", "timeout", span),
}

LIMITS: dict[str, Handler] = {
    "max_ack_pending": Key("max_ack_pending", limit),
    "max_ha_assets": IgnoredKey(_REPLICAS, integer, (0,)),
    "default_max_consumers": IgnoredKey("the default is no limit", integer),
    "max_request_batch": Key("max_request_batch", limit),
    "duplicate_window": Key("duplicate_window_s", _duplicate_window),
    "batch": _nested("", BATCH),
}

SERVER: dict[str, Handler] = {
    "strict": Key("strict", boolean),
    "enabled": Key("enabled", boolean),
    "enable": Key("enabled", boolean),
    "store_dir": _store_dir,
    "storedir": _store_dir,
    "store": _store_dir,
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
    "extension_hint": IgnoredKey("leaf nodes never extend the JetStream of a hub", text, ("",)),
    "limits": _nested("limits", LIMITS),
    "unique_tag": IgnoredKey(_REPLICAS, text, ("",)),
    "max_outstanding_catchup": IgnoredKey(_REPLICAS, storage_size),
    "max_buffered_size": Key("max_buffered_bytes", _buffered_size),
    "max_buffered_msgs": Key("max_buffered_messages", limit),
    "request_queue_limit": Key("request_queue_limit", limit),
    "info_queue_limit": IgnoredKey("request_queue_limit bounds all requests", integer, (0,)),
    "max_concurrent_io": IgnoredKey("one thread writes for all streams", _concurrent_io),
    "meta_compact": IgnoredKey(_REPLICAS, _count_from_0, (0,)),
    "meta_compact_size": IgnoredKey(_REPLICAS, _size_from_0, (0,)),
    "meta_compact_sync": IgnoredKey(_REPLICAS, boolean),
    "tpm": UnsupportedKey("keys in a TPM"),
}

ACCOUNT: dict[str, Handler] = {
    "max_memory": Key("max_memory_bytes", integer),
    "max_mem": Key("max_memory_bytes", integer),
    "mem": Key("max_memory_bytes", integer),
    "memory": Key("max_memory_bytes", integer),
    "max_store": Key("max_file_bytes", integer),
    "max_file": Key("max_file_bytes", integer),
    "max_disk": Key("max_file_bytes", integer),
    "store": Key("max_file_bytes", integer),
    "disk": Key("max_file_bytes", integer),
    "max_streams": Key("max_streams", integer),
    "streams": Key("max_streams", integer),
    "max_consumers": Key("max_consumers", integer),
    "consumers": Key("max_consumers", integer),
    "max_bytes_required": Key("max_bytes_required", boolean),
    "max_stream_bytes": Key("max_bytes_required", boolean),
    "max_bytes": Key("max_bytes_required", boolean),
    "mem_max_stream_bytes": Key("memory_max_stream_bytes", integer),
    "memory_max_stream_bytes": Key("memory_max_stream_bytes", integer),
    "disk_max_stream_bytes": Key("file_max_stream_bytes", integer),
    "store_max_stream_bytes": Key("file_max_stream_bytes", integer),
    "max_ack_pending": Key("max_ack_pending", integer),
    "cluster_traffic": IgnoredKey(_REPLICAS, _cluster_traffic, ("", "system")),
}


def _read(section: Section, node: ConfNode, table: Mapping[str, Handler]) -> None:
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


def read_jetstream(section: Section, node: ConfNode) -> None:
    """Read the server's block."""
    _read(section.table("jetstream", node), node, SERVER)


def read_account_jetstream(section: Section, node: ConfNode) -> None:
    """Read an account's block."""
    _read(section.table("jetstream", node), node, ACCOUNT)


def read_feature_flags(section: Section, node: ConfNode) -> None:
    """Read `feature_flags`, a map of flags to whether they are set."""
    for name, entry in entries(node).items():
        is_on = boolean(entry)
        if name == "js_ack_fc_v2":
            section.put("jetstream.ack_format", "v2" if is_on else "v1", entry)
        elif is_on:
            section.note(entry, f'feature flag "{name}" has no effect: midge does not have it')


def read_store_dir(section: Section, node: ConfNode) -> None:
    """Read `store_dir` outside the block."""
    _store_dir(section.table("jetstream", node), node)
