"""Shapes: match patterns and subjects by an equi-join, without a trie and without a broadcast.

A pattern's shape is its mask of literals and wildcards: `orders.*.new.>` has the shape `L*L>`.
A subject can only match a pattern whose tokens at the `L` places equal its own, so it gives one
candidate key for each shape that its length allows, and patterns and subjects join on shape and
key. There are few shapes, however many patterns there are.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as sf

LITERAL, PWC, FWC = "L", "*", ">"

INVALID_PATTERN = r"^$|(^|\.)(\.|$)|(^|\.)>\.|[ \t\r\n]"
"""Regular expression that finds invalid patterns, for both Java and Python."""

INVALID_SUBJECT = r"^$|(^|\.)(\.|$)"
"""Regular expression that finds subjects with an empty token, which match nothing."""


@dataclass(frozen=True, order=True)
class Shape:
    """The mask of a pattern, one character a token."""

    mask: str

    @property
    def is_open(self) -> bool:
        """Return whether it ends in `>` and so takes subjects of any greater length."""
        return self.mask.endswith(FWC)

    @property
    def literals(self) -> list[int]:
        """The places of the literal tokens, from 0."""
        return [place for place, token in enumerate(self.mask) if token == LITERAL]

    def takes(self, token_count: int) -> bool:
        """Return whether a subject of `token_count` tokens can match a pattern of this shape."""
        return token_count >= len(self.mask) if self.is_open else token_count == len(self.mask)

    def key(self, tokens: Sequence[str]) -> str:
        """Return the candidate key of a subject that this shape takes."""
        return ".".join(tokens[place] for place in self.literals)


def shape_of(pattern: str) -> Shape:
    """Return the shape of a valid pattern."""
    return Shape("".join(t if t in (PWC, FWC) else LITERAL for t in pattern.split(".")))


def key_of(pattern: str) -> str:
    """Return the key of a valid pattern: its literal tokens."""
    return ".".join(token for token in pattern.split(".") if token not in (PWC, FWC))


def is_general(mask: str) -> bool:
    """Return whether a shape has hardly a literal, so that one key would attract many subjects."""
    literals = mask.count(LITERAL)
    return literals == 0 or (literals == 1 and len(mask) >= 3)


def general_column(mask: Column) -> Column:
    """Return `is_general` as a column."""
    literals = sf.length(mask) - sf.length(sf.replace(mask, sf.lit(LITERAL), sf.lit("")))
    return (literals == 0) | ((literals == 1) & (sf.length(mask) >= 3))


def mask_column(pattern: Column) -> Column:
    """Return the masks of valid patterns, as `shape_of` does."""
    tokens = sf.split(pattern, r"\.")
    return sf.array_join(
        sf.transform(tokens, lambda t: sf.when(t.isin(PWC, FWC), t).otherwise(sf.lit(LITERAL))), ""
    )


def key_column(pattern: Column) -> Column:
    """Return the keys of valid patterns, as `key_of` does."""
    tokens = sf.split(pattern, r"\.")
    return sf.array_join(sf.filter(tokens, lambda t: ~t.isin(PWC, FWC)), ".")


def candidates_column(subject: Column, shapes: Iterable[Shape]) -> Column:
    """Return one (mask, key) for each shape that takes the subject, as an array of structures."""
    tokens = sf.split(subject, r"\.")
    candidates = [_candidate(tokens, shape) for shape in sorted(shapes)]
    if not candidates:
        return sf.expr("CAST(array() AS array<struct<mask: string, key: string>>)")
    return sf.array_compact(sf.array(*candidates))


def _candidate(tokens: Column, shape: Shape) -> Column:
    key = sf.concat_ws(".", *(sf.get(tokens, sf.lit(place)) for place in shape.literals))
    count = sf.size(tokens)
    length = sf.lit(len(shape.mask))
    takes = count >= length if shape.is_open else count == length
    return sf.when(takes, sf.struct(sf.lit(shape.mask).alias("mask"), key.alias("key")))
