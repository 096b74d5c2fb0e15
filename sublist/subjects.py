"""Subjects: validity, literals, and which pattern matches which subject.

A subject is a byte string of tokens separated by ``.``. A token ``*`` matches exactly one token,
and a last token ``>`` matches one or more; anywhere else both are ordinary bytes.
Everything here works on bytes, keeps no state and never recurses.
"""

_DOT = 0x2E
_STAR = 0x2A
_GREATER = 0x3E
_SPACE = 0x20
_TAB = 0x09
_CR = 0x0D
_LF = 0x0A


def is_valid_subject(subject: bytes) -> bool:
    """Return whether a client may subscribe to `subject`.

    A valid subject has no empty token, a token ``>`` only as its last one, and no blank, TAB, CR or
    LF, which a control line cannot carry. Every other byte is allowed, NUL and non-UTF-8 included.
    """
    length = len(subject)
    token_start = 0
    fwc_seen = False
    for i in range(length):
        byte = subject[i]
        if byte == _DOT:
            if i == token_start or fwc_seen:
                return False
            token_start = i + 1
        elif byte == _GREATER:
            if i == token_start and (i + 1 == length or subject[i + 1] == _DOT):
                fwc_seen = True
        elif byte == _SPACE or byte == _TAB or byte == _CR or byte == _LF:
            return False
    return length > token_start


def is_literal(subject: bytes) -> bool:
    """Return whether no whole token of `subject` is a wildcard (``a*`` and ``>b`` are literal)."""
    length = len(subject)
    at_token_start = True
    for i in range(length):
        byte = subject[i]
        if (
            at_token_start
            and (byte == _STAR or byte == _GREATER)
            and (i + 1 == length or subject[i + 1] == _DOT)
        ):
            return False
        at_token_start = byte == _DOT
    return True


def has_dot(subject: bytes, start: int = 0) -> bool:
    """Return whether a token ends within ``subject[start:]``."""
    for i in range(start, len(subject)):  # noqa: SIM110 - no generator where it is compiled
        if subject[i] == _DOT:
            return True
    return False


def is_valid_publish_subject(subject: bytes) -> bool:
    """Return whether a pedantic client may publish to `subject`: it is valid and literal."""
    return is_valid_subject(subject) and is_literal(subject)


def matches(literal: bytes, pattern: bytes) -> bool:
    """Return whether the valid `pattern` matches the subject `literal`.

    Wildcards in `literal` are ordinary bytes. A `literal` with an empty token matches nothing.
    """
    literal_length = len(literal)
    pattern_length = len(pattern)
    i = 0
    p = 0
    if literal_length == 0 or literal[0] == _DOT or literal[literal_length - 1] == _DOT:
        return False
    while p < pattern_length:
        if i >= literal_length:
            return False
        byte = pattern[p]
        token_ends = p + 1 == pattern_length or pattern[p + 1] == _DOT
        if byte == _GREATER and token_ends:
            return not has_empty_token(literal, i)
        if byte == _STAR and token_ends:
            if literal[i] == _DOT:
                return False
            while i < literal_length and literal[i] != _DOT:
                i += 1
            p += 1
        else:
            while p < pattern_length and pattern[p] != _DOT:
                if i >= literal_length or literal[i] != pattern[p]:
                    return False
                i += 1
                p += 1
        # Both must now be at the end of a token: at a dot, or at the end of the subject.
        if p == pattern_length:
            return i == literal_length
        if i >= literal_length or literal[i] != _DOT:
            return False
        p += 1
        i += 1
    return False


def covers(pattern: bytes, subject: bytes) -> bool:
    """Return whether `pattern` matches every subject that `subject` matches.

    Both may hold wildcards: ``a.>`` covers ``a.*``, ``*`` does not cover ``>``. Both must be valid.
    """
    pattern_tokens = pattern.split(b".")
    subject_tokens = subject.split(b".")
    for i, token in enumerate(pattern_tokens):
        if i >= len(subject_tokens):
            return False
        other = subject_tokens[i]
        if token == b">":
            return True
        if other == b">" or (token != b"*" and token != other):
            return False
    return len(pattern_tokens) == len(subject_tokens)


def overlaps(one: bytes, other: bytes) -> bool:
    """Return whether some subject matches both patterns. Both must be valid."""
    tokens = one.split(b".")
    others = other.split(b".")
    for i, token in enumerate(tokens):
        if i >= len(others):
            return False
        if token == b">" or others[i] == b">":
            return True
        if token != others[i] and token != b"*" and others[i] != b"*":
            return False
    return len(tokens) == len(others)


def common(one: bytes, other: bytes) -> bytes:
    """Return the pattern of the subjects that match both patterns, which must overlap."""
    tokens = one.split(b".")
    others = other.split(b".")
    found: list[bytes] = []
    for i in range(max(len(tokens), len(others))):
        if i >= len(tokens) or tokens[i] == b">":
            return b".".join(found + others[i:])
        if i >= len(others) or others[i] == b">":
            return b".".join(found + tokens[i:])
        found.append(others[i] if tokens[i] == b"*" else tokens[i])
    return b".".join(found)


def has_empty_token(subject: bytes, start: int = 0) -> bool:
    """Return whether a token of `subject`, from the one at `start` on, is empty."""
    data = subject
    last = len(subject) - 1
    if last < start or data[start] == _DOT or data[last] == _DOT:
        return True
    dot = _DOT
    pairs = 0
    for i in range(start, last):  # without an early exit, C compares several bytes at once
        pairs |= (data[i] == dot) & (data[i + 1] == dot)
    return pairs != 0
