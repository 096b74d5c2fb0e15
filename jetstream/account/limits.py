"""The JetStream limits of an account and of the server."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

UNLIMITED = -1


class JetStreamAccountLimits(Struct):
    """The limits of an account; -1 means unlimited, and so does 0 for the bytes of one stream."""

    max_memory: int = UNLIMITED
    max_storage: int = UNLIMITED
    max_streams: int = UNLIMITED
    max_consumers: int = UNLIMITED
    max_ack_pending: int = UNLIMITED
    memory_max_stream_bytes: int = UNLIMITED
    storage_max_stream_bytes: int = UNLIMITED
    max_bytes_required: bool = False

    def fields(self) -> dict[str, Any]:
        """Return the limits as answers show them."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


NO_TIER = ""
"""The tier of limits that apply to all streams, whatever their replicas."""


def tier_of(replicas: int) -> str:
    """Return the tier of streams with this number of replicas."""
    return f"R{max(replicas, 1)}"


class ServerLimits(Struct):
    """The limits of the server, and the bytes that streams have reserved by `max_bytes`.

    For duplicate windows and consumers, 0 means unlimited.
    """

    max_memory: int = UNLIMITED
    max_storage: int = UNLIMITED
    duplicate_window_max_ns: int = 0
    max_ack_pending: int = 0
    max_request_batch: int = 0
    reserved_memory: int = 0
    reserved_storage: int = 0

    def reserve(self, is_memory: bool, size: int) -> None:
        """Reserve `size` bytes; a negative size returns them."""
        if is_memory:
            self.reserved_memory += size
        else:
            self.reserved_storage += size
