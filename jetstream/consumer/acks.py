"""Parsing of an ack's payload: its kind, and the delay that comes with a NAK."""

from __future__ import annotations

from msgspec import Struct

from midge.jetstream.json import structure
from midge.jetstream.json.structure import Field, Integer, Structure
from midge.jetstream.json.times import TimeProblem, parse_duration

OTHER = 0
ACK = 1
NEXT = 2
NAK = 3
PROGRESS = 4
TERM = 5

_NEXT = b"+NXT"
_NAK = b"-NAK"
_TERM = b"+TERM"
_BLANKS = b" \t\r\n\f\v"


def kind_of(body: bytes) -> int:
    """Return the kind of the ack whose payload, without headers, is `body`."""
    if not body or body == b"+ACK" or body == b"+OK":
        return ACK
    if body.startswith(_NEXT):
        return NEXT
    if body.startswith(_NAK):
        return NAK
    if body == b"+WPI":
        return PROGRESS
    if body.startswith(_TERM):
        return TERM
    return OTHER


def next_request(body: bytes) -> bytes:
    """Return the pull request that comes with a ``+NXT``."""
    return body[len(_NEXT) :]


def term_reason(body: bytes) -> str:
    """Return why a ``+TERM`` gives the message up, empty when it does not say."""
    return body[len(_TERM) :].strip(_BLANKS).decode("utf-8", "surrogateescape")


class _NakOptions(Struct):
    delay_ns: int = 0


_ARGUMENT_MAX_BYTES = 4096
"""The largest argument of a NAK that is read: a delay has 30 bytes."""

_OPTIONS = Structure(
    "ConsumerNakOptions", _NakOptions, [Field("delay", Integer("time.Duration"), "delay_ns")]
)


def nak_delay_ns(body: bytes) -> int | None:
    """Return the delay of a NAK, or None without one; a delay that cannot be parsed is ignored."""
    argument = body[len(_NAK) :].strip(_BLANKS)
    if not argument or len(argument) > _ARGUMENT_MAX_BYTES:
        return None
    if argument.startswith(b"{"):
        options = _NakOptions()
        try:
            structure.decode_lenient(argument, _OPTIONS, options)
        except structure.JsonProblem:
            return None
        return options.delay_ns
    try:
        return parse_duration(argument.decode("utf-8", "surrogateescape"))
    except TimeProblem:
        return None
