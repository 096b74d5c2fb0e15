"""Hypothesis strategies for NATS: subjects, patterns, headers, payloads and whole messages.

`from midge.testing.strategies import subjects`, then `@given(subjects())`.
"""

from __future__ import annotations

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as error:
    needed = "midge.testing.strategies needs hypothesis; python -m pip install hypothesis"
    raise ModuleNotFoundError(needed, name=error.name) from None

from midge.testing.captured import Captured

# Alphabets are texts: hypothesis takes seconds to make its table of all characters.
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_DIGITS = "0123456789"
_PRINTED = "".join(chr(code) for code in range(33, 127))
_SIMPLE = st.text(f"{_LETTERS}{_DIGITS}-_", min_size=1, max_size=8)
_TOKEN = st.text(
    "".join(one for one in _PRINTED if one not in ".*>$") + "äéßЖλ中日🦟", min_size=1, max_size=8
)
_NAME = st.text(f"{_LETTERS}{_LETTERS.upper()}{_DIGITS}-", min_size=1, max_size=12)
_VALUE = st.text(f"{_PRINTED} ", max_size=20).map(str.strip)


def tokens() -> st.SearchStrategy[str]:
    """Return a strategy for tokens of subjects: plain names, and any text that NATS takes."""
    return _SIMPLE | _TOKEN


def subjects(*, tokens_max: int = 6, prefix: str = "") -> st.SearchStrategy[str]:
    """Return a strategy for subjects that can be published to, below `prefix` if it is given."""
    below = st.lists(tokens(), min_size=1, max_size=tokens_max).map(".".join)
    return below.map(lambda subject: f"{prefix}.{subject}") if prefix else below


def patterns(*, tokens_max: int = 6) -> st.SearchStrategy[str]:
    """Return a strategy for patterns of subscriptions, with and without wildcards."""
    token = tokens() | st.just("*")
    last = token | st.just(">")
    begin = st.lists(token, max_size=tokens_max - 1)
    return st.tuples(begin, last).map(lambda parts: ".".join([*parts[0], parts[1]]))


@st.composite
def matching_patterns(draw: st.DrawFn, subject: str) -> str:
    """Return a strategy for patterns that match `subject`."""
    found = [draw(st.sampled_from([token, "*"])) for token in subject.split(".")]
    if draw(st.booleans()):
        kept = draw(st.integers(0, len(found) - 1))
        found = [*found[:kept], ">"]
    return ".".join(found)


def payloads(*, max_bytes: int = 64) -> st.SearchStrategy[bytes]:
    """Return a strategy for payloads."""
    return st.binary(max_size=max_bytes)


def headers() -> st.SearchStrategy[dict[str, list[str]]]:
    """Return a strategy for headers, each with one value or several."""
    return st.dictionaries(_NAME, st.lists(_VALUE, min_size=1, max_size=3), max_size=3)


def messages(
    subject: st.SearchStrategy[str] | None = None,
    payload: st.SearchStrategy[bytes] | None = None,
) -> st.SearchStrategy[Captured]:
    """Return a strategy for messages: a subject, a payload and headers."""
    return st.builds(
        Captured,
        subject=subjects() if subject is None else subject,
        payload=payloads() if payload is None else payload,
        headers=headers(),
    )
