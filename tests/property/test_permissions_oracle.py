"""Permissions against a brute-force oracle: nothing denied is ever published or delivered.

The oracle expands every pattern over a small alphabet of tokens instead of walking a trie, so the
two share no idea of how to decide.
"""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from midge.server.auth.permissions import PermissionRules, Permissions
from midge.server.config.options import AllowResponses, SubjectPermissions
from midge.server.config.options import Permissions as Table

TOKENS = ("a", "b", "c")
DEPTH = 3

UNIVERSE = [".".join(tokens) for n in range(1, DEPTH + 2) for tokens in product(TOKENS, repeat=n)]
"""Every literal subject up to one token deeper than any pattern, so `>` has room to differ."""

subjects = st.lists(st.sampled_from(TOKENS), min_size=1, max_size=DEPTH).map(".".join)


@st.composite
def patterns(draw: st.DrawFn) -> str:
    tokens = draw(st.lists(st.sampled_from((*TOKENS, "*")), min_size=1, max_size=DEPTH))
    if draw(st.booleans()):
        tokens[-1] = ">"
    return ".".join(tokens)


queues = st.sampled_from(("q", "v1.x", "v1.y", "v2.x"))
queue_patterns = st.sampled_from(("q", "v1.*", "*.x", ">", "v2.x", "*"))
entries = st.one_of(patterns(), st.tuples(patterns(), queue_patterns).map(" ".join))
rules_of = st.builds(
    Table,
    publish=st.builds(
        SubjectPermissions,
        allow=st.lists(patterns(), max_size=4).map(tuple),
        deny=st.lists(patterns(), max_size=4).map(tuple),
    ),
    subscribe=st.builds(
        SubjectPermissions,
        allow=st.lists(entries, max_size=5).map(tuple),
        deny=st.lists(entries, max_size=5).map(tuple),
    ),
    allow_responses=st.none(),
)


def stands_for(pattern: str, literal: str) -> bool:
    """Return whether `pattern` matches `literal`, token by token."""
    wanted, given_tokens = pattern.split("."), literal.split(".")
    if wanted[-1] == ">":
        wanted, given_tokens = (
            wanted[:-1],
            given_tokens[: len(wanted) - 1] + (["end"] if len(given_tokens) >= len(wanted) else []),
        )
        wanted = [*wanted, "end"]
    return len(wanted) == len(given_tokens) and all(
        w in {"*", g} for w, g in zip(wanted, given_tokens, strict=True)
    )


def meant_by(pattern: str) -> set[str]:
    """List the subjects of the universe that match `pattern`."""
    return {literal for literal in UNIVERSE if stands_for(pattern, literal)}


def denies(deny: tuple[str, ...], literal: str, queue: str | None) -> bool:
    """Return whether a deny list forbids a delivery."""
    for entry in deny:
        subject, _, of_queue = entry.partition(" ")
        if stands_for(subject, literal) and (
            not of_queue or (queue is not None and stands_for(of_queue, queue))
        ):
            return True
    return False


@given(rules_of, subjects)
def test_publishing_agrees_with_the_oracle(table: Table, subject: str) -> None:
    allow, deny = table.publish.allow, table.publish.deny
    expected = (not allow or any(stands_for(p, subject) for p in allow)) and not any(
        stands_for(p, subject) for p in deny
    )
    checked = Permissions(PermissionRules(table))
    assert checked.may_publish(subject.encode()) == expected
    assert checked.may_publish(subject.encode()) == expected


@given(rules_of, patterns(), st.none() | queues, subjects)
def test_no_denied_delivery_gets_through(
    table: Table, subscription: str, queue: str | None, subject: str
) -> None:
    """A message that passes both subscribe and deliver is allowed and not denied."""
    checked = Permissions(PermissionRules(table))
    queue_bytes = queue.encode() if queue else None
    if not stands_for(subscription, subject):
        return
    delivered = checked.may_subscribe(subscription.encode(), queue_bytes) and checked.may_deliver(
        subject.encode(), queue_bytes
    )
    if delivered:
        assert not denies(table.subscribe.deny, subject, queue)
        allow = [entry.partition(" ")[0] for entry in table.subscribe.allow]
        assert not allow or any(stands_for(pattern, subject) for pattern in allow)


@given(rules_of, subjects, st.none() | queues)
def test_delivery_is_refused_only_by_a_denial(
    table: Table, subject: str, queue: str | None
) -> None:
    checked = Permissions(PermissionRules(table))
    queue_bytes = queue.encode() if queue else None
    for _ in range(2):
        assert checked.may_deliver(subject.encode(), queue_bytes) != denies(
            table.subscribe.deny, subject, queue
        )


@given(rules_of, patterns())
def test_a_plain_subscription_must_lie_inside_one_allowance(table: Table, subject: str) -> None:
    allow = [entry for entry in table.subscribe.allow if " " not in entry]
    checked = Permissions(PermissionRules(table)).may_subscribe(subject.encode(), None)
    if checked and table.subscribe.allow:
        assert any(meant_by(subject) <= meant_by(pattern) for pattern in allow)
    inside = any(meant_by(subject) <= meant_by(pattern) for pattern in allow)
    if inside and not table.subscribe.deny:
        assert checked


@given(
    st.integers(1, 5),
    st.floats(0.5, 100),
    st.lists(st.tuples(st.booleans(), st.sampled_from((b"r1", b"r2")), st.floats(0, 50))),
)
def test_grants_agree_with_a_ledger(
    most: int, expires_s: float, steps: list[tuple[bool, bytes, float]]
) -> None:
    table = Table(allow_responses=AllowResponses(max=most, expires_s=expires_s))
    checked = Permissions(PermissionRules(table))
    ledger: dict[bytes, tuple[float, int]] = {}
    now_s = 0.0
    for is_receiving, reply, later_s in steps:
        now_s += later_s
        if is_receiving:
            checked.grant_response(reply, now_s)
            ledger[reply] = (now_s, 0)
            continue
        granted_s, used = ledger.get(reply, (0.0, most))
        expected = used < most and now_s - granted_s <= expires_s
        ledger[reply] = (granted_s, used + 1 if expected else most)
        assert checked.use_response(reply, now_s) == expected
