"""Convert nodes to plain values of the options' types."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from midge.protocol.errors import quote
from midge.server.config.addresses import split_address
from midge.server.config.nats_conf.errors import ConfError

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.config.nats_conf.parser import ConfNode

_DURATION = r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+"
_DURATION_PART = r"([0-9.]+)(ns|us|µs|μs|ms|s|m|h)"
_DURATION_STEP = r"([0-9]*(?:\.[0-9]*)?)([^0-9.]*)"
_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_SHIFTS = {"K": 10, "M": 20, "G": 30, "T": 40}
_DURATION_LENGTH_MAX = 64
_DURATION_MAX_S = 2**63 / 1e9
DEFAULT_PORT = 4222


def fail(node: ConfNode, text: str) -> NoReturn:
    """Refuse `node`; the error has its position."""
    raise ConfError(text, where=node.where)


def quoted(text: str) -> str:
    """Return a text as Go shows it in an error."""
    return quote(text.encode("utf-8", "surrogateescape"))


def show(node: ConfNode) -> str:
    """Return the kind of a node, for an error."""
    if isinstance(node.value, dict):
        return "a map"
    if isinstance(node.value, list):
        return "an array"
    if isinstance(node.value, bool):
        return str(node.value).lower()
    if isinstance(node.value, datetime):
        return f"the date {node.value:%Y-%m-%dT%H:%M:%SZ}"
    return repr(node.value)[:60]


def text(node: ConfNode) -> str:
    """Return a text."""
    if not isinstance(node.value, str):
        fail(node, f"expected a string, got {show(node)}")
    return node.value


def secret(node: ConfNode) -> str:
    """Return a secret text, never quoted in errors; refuse an empty one, which admits everyone."""
    if not isinstance(node.value, str):
        fail(node, "expected a string; quote it if it looks like a number")
    if not node.value:
        fail(node, "expected a string that is not empty")
    return node.value


def boolean(node: ConfNode) -> bool:
    """Return a truth value."""
    if not isinstance(node.value, bool):
        fail(node, f"expected true or false, got {show(node)}")
    return node.value


def inverted(node: ConfNode) -> bool:
    """Return the opposite of a truth value, for keys that begin with `no_`."""
    return not boolean(node)


def integer(node: ConfNode) -> int:
    """Return a whole number."""
    if isinstance(node.value, bool) or not isinstance(node.value, int):
        fail(node, f"expected an integer, got {show(node)}")
    return node.value


def limit(node: ConfNode) -> int:
    """Return a count; in nats-server's files any negative number means none."""
    return max(integer(node), 0)


def bounded(name: str, largest: int) -> Callable[[ConfNode], int]:
    """Return a reader of counts up to `largest`, with nats-server's error for more."""

    def read(node: ConfNode) -> int:
        if integer(node) > largest:
            fail(node, f"{name} value is too big")
        return integer(node)

    return read


def seconds(node: ConfNode) -> float:
    """Return a duration in seconds: `"1m30s"`, or a number."""
    if isinstance(node.value, str):
        return duration(node, node.value)
    if isinstance(node.value, bool) or not isinstance(node.value, int | float):
        fail(node, f"expected a duration, got {show(node)}")
    return node.value


def duration(node: ConfNode, written: str, prefix: str = "") -> float:
    """Return the seconds of a Go duration such as `1h15m30.5s`."""
    if written in ("0", "+0", "-0"):
        return 0.0
    if len(written) > _DURATION_LENGTH_MAX or not re.fullmatch(_DURATION, written):
        fail(node, f"{prefix}time: {_duration_fault(written)} duration {quoted(written[:60])}")
    parts = re.findall(_DURATION_PART, written)
    total = sum(float(number) * _UNITS_S[unit] for number, unit in parts)
    if total >= _DURATION_MAX_S:
        fail(node, f"{prefix}time: invalid duration {quoted(written)}")
    return round(-total if written.startswith("-") else total, 9)


def _duration_fault(written: str) -> str:
    """Return a duration's fault in Go's words: `unknown unit "y" in`, or `invalid`."""
    for number, unit in re.findall(_DURATION_STEP, written.removeprefix("-").removeprefix("+")):
        if not number.strip("."):
            break
        if unit not in _UNITS_S:
            return f"unknown unit {quoted(unit)} in" if unit else "missing unit in"
    return "invalid"


def texts(node: ConfNode) -> list[str]:
    """Return a list of texts; a single text is a list of one."""
    if isinstance(node.value, str):
        return [node.value]
    return [text(item) for item in items(node)]


def listed(node: ConfNode) -> list[str]:
    """Return a list of texts, where a single text is refused."""
    return [text(item) for item in items(node)]


def storage_size(node: ConfNode) -> int:
    """Return a number of bytes: an integer, or a text such as `"1G"`; -1 means no limit."""
    if not isinstance(node.value, str):
        return integer(node)
    found = re.fullmatch(r"([+-]?[0-9]{1,18})([KMGT])", node.value)
    if node.value and found is None:
        fail(node, f"expected a size such as 512M or 10G, got {node.value[:60]!r}")
    return int(found[1]) << _SHIFTS[found[2]] if found else 0


def span(node: ConfNode) -> float:
    """Return a duration, which must be a text."""
    return duration(node, text(node))


def items(node: ConfNode) -> list[ConfNode]:
    """Return the items of an array."""
    if not isinstance(node.value, list):
        fail(node, f"expected an array, got {show(node)}")
    return node.value


def entries(node: ConfNode) -> dict[str, ConfNode]:
    """Return the entries of a map."""
    if not isinstance(node.value, dict):
        fail(node, f"expected a map, got {show(node)}")
    return node.value


def choice(*allowed: str) -> Callable[[ConfNode], str]:
    """Return a reader of one of a few words, whatever their case."""

    def read(node: ConfNode) -> str:
        word = text(node).lower()
        if word not in allowed:
            fail(node, f"expected one of {', '.join(allowed)}, got {show(node)}")
        return word

    return read


def address(node: ConfNode) -> tuple[str | None, int]:
    """Return host and port of `4222` or `"host:4222"`; no host for a port alone."""
    if not isinstance(node.value, str):
        return None, integer(node)
    try:
        host, number = split_address(node.value)
    except ValueError:
        number = None
    if number is None:
        fail(node, f'could not parse address string "{node.value[:60]}"')
    if not re.fullmatch(r"[+-]?[0-9]{1,9}", number):
        fail(node, f'could not parse port "{number[:60]}"')
    return host, int(number)


def port(node: ConfNode) -> int:
    """Return the port for clients; 0 means nats-server's default."""
    return integer(node) or DEFAULT_PORT


def plain(node: ConfNode) -> Any:
    """Return a scalar as it is."""
    return node.value
