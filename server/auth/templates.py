"""Templates of scoped signing keys: fill ``{{name()}}``, ``{{tag(x)}}`` and the like into subjects.

A tag may have several values, and a subject with tags becomes one subject for each combination,
up to a limit. An unfillable subject is dropped from an allow list; in a deny list it causes the
user to be refused, so that a missing tag never permits anything. Values with wildcards or blanks
are refused, because the holder of a scoped key chooses names and tags of users, and must not widen
the scope through them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

from msgspec import Struct

from midge.sublist.subjects import is_literal, is_valid_subject

EXPANSIONS_MAX = 4096
"""Most subjects that one list may expand to."""

_PLACEHOLDER = re.compile(r"\{\{([^}]+)\}\}")
_TAG = re.compile(r"^(account-tag|tag)\((.*)\)$", re.IGNORECASE)


class TemplateError(Exception):
    """A template that yields no safe permissions; the text gives the reason."""


class TemplateValues(Struct, frozen=True, kw_only=True):
    """The values of the placeholders."""

    name: str
    subject: str
    account_name: str
    account_subject: str
    tags: Sequence[str]
    account_tags: Sequence[str]

    def look_up(self, operation: str) -> list[str]:
        """Return the values of `operation`; none if it is a tag that the user does not have."""
        single = {
            "name()": self.name,
            "subject()": self.subject,
            "account-name()": self.account_name,
            "account-subject()": self.account_subject,
        }.get(operation.lower())
        if single is not None:
            return [single]
        tag = _TAG.match(operation)
        if tag is None:
            raise TemplateError(f"unknown template operation {operation!r}")
        tags = self.account_tags if tag[1].lower() == "account-tag" else self.tags
        prefix = f"{tag[2].lower()}:"
        return [value.removeprefix(prefix) for value in tags if value.startswith(prefix)]


def fill_in_allowed(
    subjects: Sequence[str], denied: Sequence[str], values: TemplateValues
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the allow and the deny list with all placeholders filled in.

    If nothing remains of an allow list, the result denies everything, because an empty list would
    allow everything.

    Raises:
        TemplateError: see the module docstring.
    """
    allowed = _fill_in(subjects, values, is_deny=False)
    refused = _fill_in(denied, values, is_deny=True)
    if subjects and not allowed:
        refused = (*refused, ">")
    return allowed, refused


def _fill_in(subjects: Sequence[str], values: TemplateValues, *, is_deny: bool) -> tuple[str, ...]:
    """Fill in all placeholders of one list."""
    filled: list[str] = []
    for subject in subjects:
        if "{{" not in subject:
            filled.append(subject)
            continue
        candidates = _combinations(subject, values, EXPANSIONS_MAX - len(filled))
        good = [candidate for candidate in candidates if candidate is not None]
        if is_deny and (not good or len(good) < len(candidates)):
            raise TemplateError(f"deny subject {subject!r} cannot be filled in")
        filled += good
    return tuple(filled)


def _combinations(subject: str, values: TemplateValues, room: int) -> list[str | None]:
    """List `subject` with every combination of the values, or None where a value is refused."""
    parts = _PLACEHOLDER.split(subject)
    found = [values.look_up(operation.strip()) for operation in parts[1::2]]
    count = 1
    for choices in found:
        count *= len(choices)
    if count > room:
        raise TemplateError(f"template gives more than {EXPANSIONS_MAX} subjects")
    combined: list[str | None] = []
    for choice in product(*found):
        parts[1::2] = choice
        combined.append("".join(parts) if all(map(_is_plain, choice)) else None)
    return combined


def _is_plain(value: str) -> bool:
    """Return whether `value` can neither widen a subject by a wildcard nor add a queue to it."""
    raw = value.encode()
    return is_valid_subject(raw) and is_literal(raw)
