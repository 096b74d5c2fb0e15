"""The names, subjects and sequences that a configuration may contain."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from midge.sublist import subjects
from midge.sublist.overlaps import OverlapIndex

SEQ_MAX = (1 << 63) - 1
"""The last sequence that a stream can use, so that sums of two still fit into 64 bits."""

NAME_MAX_BYTES = 255
DESCRIPTION_MAX_BYTES = 4 * 1024
METADATA_MAX_BYTES = 128 * 1024

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_HASH_LENGTH = 8


def to_bytes(subject: str) -> bytes:
    """Return a subject in its wire form."""
    try:
        return subject.encode()
    except UnicodeEncodeError:  # a lone surrogate, which JSON may contain
        return subject.encode("utf-8", "surrogatepass")


def is_valid_name(name: str) -> bool:
    """Return whether `name` is valid for a stream or a consumer."""
    for character in name:
        if character in " \t\r\n\f.*>\\/":
            return False
    return len(name) > 0


def size(text: str) -> int:
    """Return the length of `text` in bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def is_valid_subject(subject: str) -> bool:
    """Return whether `subject` is valid for a subscription."""
    return "\f" not in subject and subjects.is_valid_subject(to_bytes(subject))


def is_valid_publish_subject(subject: str) -> bool:
    """Return whether `subject` is valid and holds no wildcards."""
    return is_valid_subject(subject) and subjects.is_literal(to_bytes(subject))


def is_literal(subject: str) -> bool:
    """Return whether `subject` holds no wildcards."""
    return subjects.is_literal(to_bytes(subject))


def collide(one: str, other: str) -> bool:
    """Return whether some subject matches both."""
    return one == other or subjects.overlaps(to_bytes(one), to_bytes(other))


def pattern_set(subjects_of: Iterable[str]) -> OverlapIndex:
    """Return a set of these subjects, each with its index for a number."""
    found = OverlapIndex()
    for number, subject in enumerate(subjects_of):
        found.insert(to_bytes(subject), number)
    return found


def is_subset(subject: str, pattern: str) -> bool:
    """Return whether `pattern` matches every subject that `subject` matches."""
    return subjects.covers(to_bytes(pattern), to_bytes(subject))


def short_hash(text: str) -> str:
    """Return nats-server's hash of a text, in eight characters."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return "".join(_DIGITS[byte % len(_DIGITS)] for byte in digest[:_HASH_LENGTH])
