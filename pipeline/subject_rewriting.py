"""Rewrite subjects by rules such as `orders.*.new -> replay.$1.new`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from midge.pipeline.errors import OptionError
from midge.sublist.subjects import is_valid_subject, matches

_PLACE = re.compile(r"\$(\d{1,3})|\{\{\s*wildcard\(\s*(\d{1,3})\s*\)\s*\}\}")


@dataclass(frozen=True)
class Rewrite:
    """One rule: subjects that match `source` become `destination`.

    In `destination`, `$n` or `{{wildcard(n)}}` is what the n-th `*` of the source stood for, and a
    last `>` is what its `>` stood for.
    """

    source: str
    destination: str

    def __post_init__(self) -> None:
        if not is_valid_subject(self.source.encode()):
            raise OptionError(f"rewrite: {self.source!r} is not a valid subject")
        filled = _PLACE.sub("x", self.destination)
        if not is_valid_subject(filled.encode()) or "*" in filled.split("."):
            raise OptionError(
                f"rewrite: {self.destination!r} is not a subject with $1, $2, … for wildcards"
            )
        stars = self.source.split(".").count("*")
        for place in _places(self.destination):
            if not 1 <= place <= stars:
                raise OptionError(
                    f"rewrite: {self.destination!r} asks for wildcard {place}, "
                    f"and {self.source!r} has {stars}"
                )
        if filled.endswith(".>") and not self.source.endswith(">"):
            raise OptionError(
                f"rewrite: {self.destination!r} ends in > and {self.source!r} does not"
            )

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
        if not matches(subject.encode(), self.source.encode()):
            return None
        tokens, pattern = subject.split("."), self.source.split(".")
        stars = [token for token, mask in zip(tokens, pattern, strict=False) if mask == "*"]
        result = _PLACE.sub(lambda found: stars[int(found[1] or found[2]) - 1], self.destination)
        if pattern[-1] == ">" and result.split(".")[-1] == ">":
            result = result[:-1] + ".".join(tokens[len(pattern) - 1 :])
        return result


def rewrite_subject(subject: str, rules: Sequence[Rewrite]) -> str:
    """Return `subject` after the first rule that is for it; without one it stays as it is."""
    for rule in rules:
        result = rule.apply(subject)
        if result is not None:
            return result
    return subject


def _places(destination: str) -> list[int]:
    return [int(found[1] or found[2]) for found in _PLACE.finditer(destination)]
