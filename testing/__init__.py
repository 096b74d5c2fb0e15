"""For tests of programs that use NATS: a pytest plugin, a unittest mix-in, a clock, captures.

Names are imported on first use, so that the plugin costs nothing in a project that does not use it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from midge.testing.bucket_under_test import Buckets, BucketUnderTest
    from midge.testing.capture import Capture
    from midge.testing.captured import Captured, read_recording
    from midge.testing.certificates import CertificateFiles, Certificates
    from midge.testing.clock import ManualClock, ThreadedClock
    from midge.testing.infos import ConsumerInfo, StreamInfo, StreamState
    from midge.testing.settling_client import SettlingClient
    from midge.testing.several_servers import Servers
    from midge.testing.simulated_disk import SimulatedDisk
    from midge.testing.stream_api import StreamRefusedError
    from midge.testing.stream_under_test import Streams, StreamUnderTest
    from midge.testing.strict import ClientBugWarning, StrictMode
    from midge.testing.unittest_mixin import NatsServerMixin

__all__ = [
    "BucketUnderTest",
    "Buckets",
    "Capture",
    "Captured",
    "CertificateFiles",
    "Certificates",
    "ClientBugWarning",
    "ConsumerInfo",
    "ManualClock",
    "NatsServerMixin",
    "Servers",
    "SettlingClient",
    "SimulatedDisk",
    "StreamInfo",
    "StreamRefusedError",
    "StreamState",
    "StreamUnderTest",
    "Streams",
    "StrictMode",
    "ThreadedClock",
    "read_recording",
]

_HOMES = {
    "BucketUnderTest": "bucket_under_test",
    "Buckets": "bucket_under_test",
    "Capture": "capture",
    "Captured": "captured",
    "CertificateFiles": "certificates",
    "Certificates": "certificates",
    "ClientBugWarning": "strict",
    "ConsumerInfo": "infos",
    "ManualClock": "clock",
    "NatsServerMixin": "unittest_mixin",
    "Servers": "several_servers",
    "SettlingClient": "settling_client",
    "SimulatedDisk": "simulated_disk",
    "StreamInfo": "infos",
    "StreamRefusedError": "stream_api",
    "StreamState": "infos",
    "StreamUnderTest": "stream_under_test",
    "Streams": "stream_under_test",
    "StrictMode": "strict",
    "ThreadedClock": "clock",
    "read_recording": "captured",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'midge.testing' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"midge.testing.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        from midge.extras import EXTRAS, install_command  # noqa: PLC0415 - only for this message

        package = (error.name or "").partition(".")[0].replace("nats", "nats-py")
        extra = "testing" if package == "nats-py" else EXTRAS.get(package)
        if extra is None:
            raise
        needed = f"midge.testing.{name} needs {package}; {install_command(extra)}"
        raise ModuleNotFoundError(needed, name=error.name) from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
