"""The base class of every table of options, and the types that many fields share."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, structs

Secret = Annotated[str, Meta(extra={"secret": True})]
"""Text that no log line, monitoring page or `midge check` may show."""

REDACTED = "[REDACTED]"
"""The text that stands in place of a secret."""

EXPECTED = "expected"
"""Key in the extra of a type's `Meta` for a description of its values, in place of a pattern."""

Seconds = Annotated[float, Meta(ge=0)]
"""A duration in seconds; integers are welcome."""

Count = Annotated[int, Meta(ge=0)]
"""A number of things, never negative."""

WriteTimeout = Literal["default", "close", "retry"]
"""What happens to a connection that does not take output in time."""


class Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Be one table of the configuration: immutable, keyword-only, closed to unknown keys."""

    ZERO_IS_DEFAULT: ClassVar[tuple[str, ...]] = ()
    """Fields of which 0 means the default, because nothing works with 0."""

    def __post_init__(self) -> None:
        """Replace each 0 that means a default."""
        for name in self.ZERO_IS_DEFAULT:
            if not getattr(self, name):
                default = next(one for one in structs.fields(self) if one.name == name).default
                structs.force_setattr(self, name, default)
