"""The criteria of an assertion on a capture, and the check whether messages meet them."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from midge.protocol.text import encode
from midge.server.embedded.mistakes import check_names
from midge.sublist.subjects import is_valid_subject, matches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from midge.testing.captured import Captured


class Kind(TypedDict, total=False):
    """Conditions that a message must meet to count."""

    payload: bytes | str | None
    """Exactly this payload."""
    json: object
    """A payload that is JSON and equal to this, however it is formatted."""
    headers: Mapping[str, str | list[str]] | None
    """These headers, among others."""
    where: Callable[[Captured], bool] | None
    """Messages for which this is true."""
    quiet_s: float
    """How long to watch for one message too many; needs a count. 0, the default, is not at all."""


class Criteria(Kind, total=False):
    """Conditions on messages, the number of them, and the time to wait."""

    count: int | None
    """The exact number of messages; None means one or more."""
    timeout_s: float
    """How long to wait for them; 1 s by default."""


class DeliveryKind(Kind, total=False):
    """Conditions that a delivery must meet to count."""

    to: str | None
    """Deliveries to the client of this name."""


class DeliveryCriteria(Criteria, DeliveryKind, total=False):
    """Conditions on deliveries, the number of them, and the time to wait."""


class StoredKind(Kind, total=False):
    """Conditions that a stored message must meet to count, and its stream."""

    stream: str | None
    """Messages in the stream of this name."""


class StoredCriteria(Criteria, StoredKind, total=False):
    """Conditions on stored messages, the number of them, and the time to wait."""


class CountResult(enum.Enum):
    """Result of comparing the messages so far with an assertion."""

    TOO_FEW = enum.auto()
    RIGHT = enum.auto()
    TOO_MANY = enum.auto()


class _Any:
    def __repr__(self) -> str:
        return "anything"


ANYTHING: Any = _Any()
"""Any JSON, because None means JSON's null."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The criteria of one assertion; made by `wanted`."""

    what: str
    """`published`, `delivered` or `stored`."""
    pattern: str
    to: str | None
    stream: str | None
    payload: bytes | None
    json: object
    headers: dict[str, list[str]]
    where: Callable[[Captured], bool] | None
    count: int | None
    timeout_s: float
    quiet_s: float

    @property
    def waits(self) -> tuple[tuple[CountResult, float], ...]:
        """The verdicts to wait out, in order, each with its longest wait in seconds."""
        return (CountResult.TOO_FEW, self.timeout_s), (CountResult.RIGHT, self.quiet_s)

    def matching(self, messages: Iterable[Captured]) -> list[Captured]:
        """Return the messages on the right subjects."""
        raw = encode(self.pattern)
        return [message for message in messages if matches(encode(message.subject), raw)]

    def found(self, messages: Iterable[Captured]) -> list[Captured]:
        """Return the wanted messages."""
        return [message for message in self.matching(messages) if self.holds(message)]

    def holds(self, message: Captured) -> bool:
        """Return whether a message with a matching subject meets the other criteria."""
        return (
            self.payload in (None, message.payload)
            and self.to in (None, message.client)
            and self.stream in (None, message.stream)
            and all(message.headers.get(name) == values for name, values in self.headers.items())
            and (self.json is ANYTHING or _is_json(message.payload, self.json))
            and (self.where is None or bool(self.where(message)))
        )

    def judge(self, messages: Iterable[Captured]) -> CountResult:
        """Compare the number of found messages with the wanted number."""
        found = len(self.found(messages))
        if self.count is None:
            return CountResult.RIGHT if found else CountResult.TOO_FEW
        if found == self.count:
            return CountResult.RIGHT
        return CountResult.TOO_FEW if found < self.count else CountResult.TOO_MANY


_KEYWORDS = {"published": Criteria, "delivered": DeliveryCriteria, "stored": StoredCriteria}


def wanted(what: str, pattern: str, **criteria: Any) -> Wanted:
    """Return the criteria from the keywords of an assertion; see `Criteria`.

    Raises:
        TypeError: the assertion has no keyword of such a name.
        ValueError: the pattern is not a subject, or `quiet_s` is set without `count`.
    """
    __tracebackhide__ = True
    check_names(f"assert_{what}", criteria, _KEYWORDS[what].__annotations__)
    return _wanted(what, pattern, **criteria)


def _wanted(  # noqa: PLR0913 - the keywords of every assertion
    what: str,
    pattern: str,
    *,
    to: str | None = None,
    stream: str | None = None,
    payload: bytes | str | None = None,
    json: object = ANYTHING,
    headers: Mapping[str, str | list[str]] | None = None,
    where: Callable[[Captured], bool] | None = None,
    count: int | None = None,
    timeout_s: float = 1.0,
    quiet_s: float = 0.0,
) -> Wanted:
    if not is_valid_subject(encode(pattern)):
        raise ValueError(f"pattern: expected tokens separated by dots, got {pattern!r}")
    if quiet_s and count is None:
        raise ValueError("quiet_s: needs a count, after which no more may come")
    return Wanted(
        what,
        pattern,
        to,
        stream,
        payload.encode() if isinstance(payload, str) else payload,
        json,
        {name: [one] if isinstance(one, str) else one for name, one in (headers or {}).items()},
        where,
        count,
        timeout_s,
        quiet_s,
    )


def _is_json(payload: bytes, expected: object) -> bool:
    try:
        return bool(json.loads(payload) == expected)
    except (ValueError, RecursionError):
        return False
