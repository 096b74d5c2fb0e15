"""The base class of every table of options, and the types that many fields share."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Secret = Annotated[str, Meta(extra={"secret": True})]
"""Text that no log line, monitoring page or `midge check` may show."""

REDACTED = "[REDACTED]"
"""The text that stands in place of a secret."""

EXPECTED = "expected"
"""What the extra of a type's `Meta` names its values by, where a pattern would tell nobody."""

Seconds = Annotated[float, Meta(ge=0)]
"""A duration in seconds; integers are welcome."""

Count = Annotated[int, Meta(ge=0)]
"""A number of things, never negative."""


class Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Be one table of the configuration: immutable, keyword-only, closed to unknown keys."""
