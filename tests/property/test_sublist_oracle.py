"""The SubList equals a linear scan, for any order of inserts, removes and matches."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from midge.sublist import RemoteSubscription, SubList, SubListError, Subscription
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
    """Match token by token, written directly from the rules."""
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
    """Derives the interest only from the listener's calls."""

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

    def group_resized(self, subject: bytes, queue: bytes, members: int) -> None:
        assert (subject, queue) in self.interest
        assert self._sublist.count_members(subject, queue) == members

    def remote_changed(self, subject: bytes, queue: bytes | None) -> None:
        self.remote_changes = getattr(self, "remote_changes", 0) + 1


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


REMOTES = ("east", "west")
LINKS = st.sampled_from([None, None, *REMOTES])
REMOTE_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), SUBJECTS, QUEUES, st.sampled_from([None, *REMOTES])),
        st.tuples(st.just("remove"), st.integers(0, 30), st.none(), st.none()),
        st.tuples(st.just("match"), SUBJECTS, st.none(), st.none()),
    ),
    max_size=60,
)


@given(SUBLISTS, REMOTE_STEPS)
@settings(max_examples=300)
def test_remotes_are_kept_apart_and_once(kind: dict[str, int], steps: list[tuple]) -> None:
    sublist = SubList(**kind)
    local: list[Subscription] = []
    remote: list[RemoteSubscription] = []
    listener = sublist.listener = Listener(sublist)
    for action, what, queue, link in steps:
        if action == "insert" and link is None:
            subscription = Subscription(what, queue)
            if sublist.insert(subscription) is None:
                local.append(subscription)
        elif action == "insert":
            told = RemoteSubscription(what, queue, link)
            if sublist.insert_remote(told) is None:
                assert sublist.insert_remote(told) is SubListError.ALREADY_INSERTED
                remote.append(told)
        elif action == "remove" and what % 2 and local:
            assert sublist.remove(local.pop(what % len(local))) is None
        elif action == "remove" and remote:
            gone = remote.pop(what % len(remote))
            assert sublist.remove_remote(gone) is None
            assert sublist.remove_remote(gone) is SubListError.NOT_FOUND
        elif action == "match":
            check_with_remotes(sublist, local, remote, what)
    for subject in (b"a", b"a.b", b"a.b.c", b"b.a*"):
        check_with_remotes(sublist, local, remote, subject)
    assert listener.interest == {(one.subject, one.queue) for one in local}
    assert len(sublist) == len(local)


def check_with_remotes(
    sublist: SubList,
    local: list[Subscription],
    remote: list[RemoteSubscription],
    subject: bytes,
) -> None:
    check(sublist, local, subject)
    matching = [one for one in remote if oracle_matches(subject, one.subject)]
    result = sublist.match(subject)
    again = sublist.match_within(bytearray(subject), 0, len(subject))
    assert (again.remotes is None) is (result.remotes is None)
    assert bool(result) == bool(
        matching or any(oracle_matches(subject, one.subject) for one in local)
    )
    if not matching:
        assert result.remotes is None
        return
    assert result.remotes is not None
    assert sorted(result.remotes.plain) == sorted(
        {one.remote for one in matching if one.queue is None}
    )
    groups = {group.name: set(group.members) for group in result.remotes.queues}
    names = {one.queue for one in matching} - {None}
    assert groups == {name: {one for one in matching if one.queue == name} for name in names}


FEW_PATTERNS = st.sampled_from(
    b"a.> a.b.> *.b.> *.b.> a.b a.a b.a a.b.a a.b.* a.*.a a.* b.* * b.>".split()
)
FEW_SUBJECTS = st.lists(st.sampled_from([b"a", b"b", b"a", b"b", b""]), min_size=1, max_size=4)


@given(
    st.lists(st.tuples(FEW_PATTERNS, QUEUES, LINKS), min_size=1, max_size=5),
    st.lists(FEW_SUBJECTS.map(b".".join), min_size=10, max_size=30),
    st.sampled_from([b"z.>", b"z.*"]),
)
@settings(max_examples=500)
def test_subjects_that_never_come_twice_equal_a_linear_scan(
    patterns: list[tuple[bytes, bytes | None, str | None]], subjects: list[bytes], usual: bytes
) -> None:
    """Then results are kept by what subjects begin with."""
    sublist = SubList(cache_max=2, cache_sweep_to=0)
    first = Subscription(usual)
    sublist.insert(first)
    new = itertools.count()
    here = [Subscription(pattern, queue) for pattern, queue, link in patterns if link is None]
    here = [one for one in here if sublist.insert(one) is None]
    there = [RemoteSubscription(*one) for one in patterns if one[2] is not None]
    there = [one for one in there if sublist.insert_remote(one) is None]
    for subject in subjects:
        for _ in range(8):
            assert first in sublist.match(b"z.%d" % next(new)).plain
        check_with_remotes(sublist, here, there, subject)
