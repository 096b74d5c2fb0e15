"""The SubList equals a linear scan, whatever is inserted, removed and matched in which order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from midge.sublist import SubList, Subscription
from midge.sublist.subjects import is_valid_subject, matches

TOKENS = st.sampled_from([b"a", b"b", b"c", b"*", b">", b"a*", b""])
SUBJECTS = st.lists(TOKENS, min_size=1, max_size=4).map(b".".join)
QUEUES = st.sampled_from([None, None, b"q", b"r"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), SUBJECTS, QUEUES),
        st.tuples(st.just("remove"), st.integers(0, 30), st.none()),
        st.tuples(st.just("match"), SUBJECTS, st.none()),
    ),
    max_size=60,
)
SUBLISTS = st.sampled_from(
    [
        {},
        {"cache_max": 0, "cache_sweep_to": 0},
        {"cache_max": 3, "cache_sweep_to": 1},
        {"exact_match": False},
        {"exact_match": False, "cache_max": 3, "cache_sweep_to": 0},
    ]
)


def oracle_matches(literal: bytes, pattern: bytes) -> bool:
    """Match token by token, written as the rules are told."""
    tokens = literal.split(b".")
    if b"" in tokens:
        return False
    wanted = pattern.split(b".")
    if wanted[-1] == b">":
        if len(tokens) < len(wanted):
            return False
        wanted, tokens = wanted[:-1], tokens[: len(wanted) - 1]
    return len(wanted) == len(tokens) and all(
        want in (b"*", token) for want, token in zip(wanted, tokens, strict=True)
    )


class Listener:
    """Knows what there is interest in from what it is told alone."""

    def __init__(self, sublist: SubList) -> None:
        self.interest: set[tuple[bytes, bytes | None]] = set()
        self._sublist = sublist

    def interest_began(self, subject: bytes, queue: bytes | None) -> None:
        assert (subject, queue) not in self.interest
        self.interest.add((subject, queue))
        assert (subject, queue) in self._sublist.interest(), "the lock is free"

    def interest_ended(self, subject: bytes, queue: bytes | None) -> None:
        self.interest.remove((subject, queue))
        assert (subject, queue) not in self._sublist.interest()


@given(SUBLISTS, STEPS)
@settings(max_examples=300)
def test_equals_a_linear_scan(kind: dict[str, int], steps: list[tuple]) -> None:
    sublist = SubList(**kind)
    listener = sublist.listener = Listener(sublist)
    held: list[Subscription] = []
    for action, what, queue in steps:
        if action == "insert":
            subscription = Subscription(what, queue)
            if sublist.insert(subscription) is None:
                held.append(subscription)
            else:
                assert not is_valid_subject(what)
        elif action == "remove" and held:
            assert sublist.remove(held.pop(what % len(held))) is None
        elif action == "match":
            check(sublist, held, what)
        assert listener.interest == {(one.subject, one.queue) for one in held}
    interest = sublist.interest()
    assert set(interest) == listener.interest
    assert len(interest) == len(listener.interest)
    for subject in (b"a", b"a.b", b"a.b.c", b"b.a*"):
        check(sublist, held, subject)
    assert len(sublist) == len(held)
    assert set(sublist) == set(held)


def check(sublist: SubList, held: list[Subscription], subject: bytes) -> None:
    expected = [s for s in held if oracle_matches(subject, s.subject)]
    result = sublist.match(subject)
    assert len(result.plain) == len(set(result.plain))
    assert set(result.plain) == {s for s in expected if s.queue is None}
    groups = {group.name: list(group.members) for group in result.queues}
    assert len(groups) == len(result.queues)
    for name in {s.queue for s in expected if s.queue is not None} | set(groups):
        members = [s for s in expected if s.queue == name]
        assert len(groups[name]) == len(members)
        assert set(groups[name]) == set(members)


@given(SUBJECTS, SUBJECTS)
def test_matches_equals_the_rules(literal: bytes, pattern: bytes) -> None:
    if is_valid_subject(pattern):
        assert matches(literal, pattern) is oracle_matches(literal, pattern)
