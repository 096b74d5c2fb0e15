"""Rewrite subjects by rules such as `orders.*.new -> replay.$1.new`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Self

from midge.client.errors import OptionError
from midge.sublist.transform import Transform


@dataclass(frozen=True)
class Rewrite:
    """One rule: subjects that match `source` become `destination`.

    In `destination`, `$n` or `{{wildcard(n)}}` is what the n-th `*` of the source stood for, and a
    last `>` is what its `>` stood for; the functions of the server's subject mappings work as well.
    """

    source: str
    destination: str

    def __post_init__(self) -> None:
        try:
            _transform(self.source, self.destination)
        except ValueError as error:
            raise OptionError(f"rewrite: {error}") from error

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the rule that `SOURCE:DESTINATION` says.

        Raises:
            OptionError: it has no meaning.
        """
        source, colon, destination = text.partition(":")
        if not colon:
            raise OptionError(f"rewrite: expected SOURCE:DESTINATION, got {text!r}")
        return cls(source.strip(), destination.strip())

    def apply(self, subject: str) -> str | None:
        """Return what a subject becomes, or None when the rule is not for it."""
        result = _transform(self.source, self.destination).apply(subject.encode())
        return None if result is None else result.decode()


def rewrite_subject(subject: str, rules: Sequence[Rewrite]) -> str:
    """Return `subject` after the first rule that is for it; without one it stays as it is."""
    for rule in rules:
        result = rule.apply(subject)
        if result is not None:
            return result
    return subject


@lru_cache(maxsize=256)
def _transform(source: str, destination: str) -> Transform:
    """Compile a rule once in each process: a rule travels to Spark's workers as two texts."""
    random = Random()  # noqa: S311 - it spreads subjects, and guards nothing
    return Transform(source, destination, random, is_template=True)
