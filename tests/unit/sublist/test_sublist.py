"""The SubList: insert, remove, match, the cache's policy, its counts, and threads."""

import random
import subprocess
import sys
import threading
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midge.sublist import (
    EMPTY_RESULT,
    OwnedSubscription,
    SubList,
    SubListError,
    SubListResult,
    Subscription,
)
from midge.sublist.subjects import is_valid_subject, matches
from midge.sublist.subscription import RemoteSubscription


def inserted(sublist: SubList, subject: bytes, queue: bytes | None = None) -> Subscription:
    subscription = Subscription(subject, queue, b"1")
    assert sublist.insert(subscription) is None
    return subscription


def names(sublist: SubList, subject: bytes) -> list[bytes]:
    return sorted(found.subject for found in sublist.match(subject).subscriptions())


@pytest.fixture(params=[True, False], ids=["exact", "trie"])
def sublist(request: pytest.FixtureRequest) -> SubList:
    return SubList(exact_match=request.param)


def test_literal_and_wildcards_together(sublist: SubList) -> None:
    for subject in (b"a.b", b"a.*", b"a.>", b"*.b", b">", b"a", b"x.y"):
        inserted(sublist, subject)
    assert names(sublist, b"a.b") == [b"*.b", b">", b"a.*", b"a.>", b"a.b"]
    assert names(sublist, b"a") == [b">", b"a"]
    assert names(sublist, b"a.b.c") == [b">", b"a.>"]
    assert names(sublist, b"a..b") == []
    assert len(sublist) == 7


def test_no_match_is_the_one_shared_empty_result(sublist: SubList) -> None:
    assert sublist.match(b"a") is EMPTY_RESULT
    inserted(sublist, b"*.*")
    assert sublist.match(b"a") is EMPTY_RESULT
    assert not sublist.match(b"a")


def test_queue_groups_are_merged_by_name_across_nodes(sublist: SubList) -> None:
    one = inserted(sublist, b"a.b", b"q")
    two = inserted(sublist, b"a.*", b"q")
    three = inserted(sublist, b"a.>", b"r")
    groups = {group.name: set(group.members) for group in sublist.match(b"a.b").queues}
    assert groups == {b"q": {one, two}, b"r": {three}}


def test_invalid_subject_is_refused_before_anything_changes(sublist: SubList) -> None:
    before = sublist.generation
    refused = Subscription(b"a..b")
    assert sublist.insert(refused) is SubListError.INVALID_SUBJECT
    assert (len(sublist), sublist.generation, sublist.depth()) == (0, before, 0)
    assert sublist.remove(refused) is SubListError.NOT_FOUND


def test_the_same_object_cannot_be_in_twice(sublist: SubList) -> None:
    subscription = inserted(sublist, b"a.*")
    assert sublist.insert(subscription) is SubListError.ALREADY_INSERTED
    assert SubList().insert(subscription) is SubListError.ALREADY_INSERTED
    assert len(sublist) == 1
    assert sublist.remove(subscription) is None
    assert sublist.insert(subscription) is None


def test_removing_what_is_not_there_is_an_error_value(sublist: SubList) -> None:
    twin = Subscription(b"a.b")
    assert sublist.remove(twin) is SubListError.NOT_FOUND
    inserted(sublist, b"a.b")
    assert sublist.remove(twin) is SubListError.NOT_FOUND
    elsewhere = SubList()
    stranger = inserted(elsewhere, b"a.b")
    assert sublist.remove(stranger) is SubListError.NOT_FOUND
    assert elsewhere.remove(stranger) is None
    assert len(sublist) == 1


def test_the_trie_is_pruned() -> None:
    sublist = SubList(exact_match=False)
    subscriptions = [inserted(sublist, s) for s in (b"a.b.c.d", b"a.b", b"a.*.c", b"a.>")]
    assert sublist.depth() == 4
    for subscription in subscriptions:
        assert sublist.remove(subscription) is None
    assert sublist.depth() == 0
    assert list(sublist) == []


def test_without_wildcards_the_trie_is_never_touched() -> None:
    sublist = SubList()
    inserted(sublist, b"a.b")
    assert sublist.depth() == 0
    assert names(sublist, b"a.b") == [b"a.b"]
    stats = sublist.stats()
    assert stats.cache_size == 0  # the dictionary's node remembers the result itself


def test_literal_results_are_remembered_until_they_change() -> None:
    sublist = SubList()
    first = inserted(sublist, b"a")
    result = sublist.match(b"a")
    assert sublist.match(b"a") is result
    inserted(sublist, b"b")
    assert sublist.match(b"a") is result
    second = inserted(sublist, b"a")
    assert set(sublist.match(b"a").plain) == {first, second}
    assert result.plain == (first,), "a result never changes"


def test_literal_insert_touches_one_cached_key() -> None:
    sublist = SubList()
    inserted(sublist, b"*")
    kept = sublist.match(b"a")
    sublist.match(b"b")
    added = inserted(sublist, b"b")
    assert sublist.match(b"a") is kept
    assert added in sublist.match(b"b").plain
    assert sublist.stats().cache_size == 2, "updated in place, not thrown away"


def test_wildcard_insert_updates_the_keys_it_matches() -> None:
    sublist = SubList()
    inserted(sublist, b"a.>")
    known = {subject: sublist.match(subject) for subject in (b"a.b", b"a.c", b"b.b")}
    added = inserted(sublist, b"*.b")
    hits = sublist.stats().cache_hits
    assert added in sublist.match(b"a.b").plain
    assert sublist.match(b"b.b").plain == (added,)
    assert sublist.match(b"a.c") is known[b"a.c"]
    assert sublist.stats().cache_hits == hits + 3, "all three came from the cache"


def test_remove_invalidates_just_what_it_matches() -> None:
    sublist = SubList()
    inserted(sublist, b"a.>")
    gone = inserted(sublist, b"*.b")
    kept = sublist.match(b"a.c")
    sublist.match(b"a.b")
    assert sublist.remove(gone) is None
    assert sublist.stats().cache_size == 1
    assert sublist.match(b"a.c") is kept
    assert names(sublist, b"a.b") == [b"a.>"]


def test_the_cache_is_bounded_and_swept_from_the_oldest() -> None:
    sublist = SubList(cache_max=8, cache_sweep_to=2)
    inserted(sublist, b">")
    for i in range(8):
        sublist.match(b"%d" % i)
    assert sublist.stats().cache_size == 8
    sublist.match(b"8")
    assert sublist.stats().cache_size == 2
    hits = sublist.stats().cache_hits
    sublist.match(b"8")
    sublist.match(b"7")
    assert sublist.stats().cache_hits == hits + 2


def test_a_cache_that_helps_nobody_keeps_a_share_only() -> None:
    sublist = SubList(cache_max=8, cache_sweep_to=2)
    inserted(sublist, b">")
    for i in range(9):
        sublist.match(b"%d" % i)  # nothing comes twice, and the ninth sweeps
    for i in range(9, 9 + 16):
        sublist.match(b"%d" % i)
    assert sublist.stats().cache_size == 2 + 16 // 8
    for _ in range(100):
        for i in range(4):
            sublist.match(b"again %d" % i)
    hits = sublist.stats().cache_hits
    for i in range(4):
        sublist.match(b"again %d" % i)
    assert sublist.stats().cache_hits == hits + 4, "what comes again is kept in the end"


def test_a_match_within_a_buffer_is_the_match_of_the_subject() -> None:
    sublist = SubList()
    inserted(sublist, b"a.*")
    data = b"PUB a.b 0"
    for _ in range(3):  # built, kept, found
        assert sublist.match_within(data, 4, 7) is sublist.match(b"a.b")
    assert sublist.match_within(data, 4, 6) is sublist.match(b"a."), "the end counts"
    added = inserted(sublist, b"a.b")
    assert set(sublist.match_within(data, 4, 7).plain) == set(sublist.match(b"a.b").plain)
    assert added in sublist.match_within(data, 4, 7).plain
    assert sublist.remove(added) is None
    assert added not in sublist.match_within(data, 4, 7).plain


@given(st.lists(st.binary(min_size=1, max_size=20).filter(is_valid_subject), max_size=300))
def test_matches_within_agree_with_matches(subjects: list[bytes]) -> None:
    sublist = SubList(cache_max=16, cache_sweep_to=4)
    for subject in subjects[::3]:
        inserted(sublist, subject)
    for subject in [*subjects, *subjects]:
        found = sublist.match_within(subject, 0, len(subject)).plain
        assert Counter(found) == Counter(sublist.match(subject).plain)


@pytest.mark.parametrize("pattern", [b"a.b", b"a.*"])
@pytest.mark.parametrize("change", ["remove", "insert"])
def test_what_has_been_found_does_not_hold_on_to_who_has_left(pattern: bytes, change: str) -> None:
    sublist = SubList()
    left = Subscription(pattern)
    free = sys.getrefcount(left)
    sublist.insert(left)
    for _ in range(3):
        assert sublist.match_within(b"a.b", 0, 3).plain == (left,)
    assert sublist.remove(left) is None
    if change == "insert":
        inserted(sublist, b"a.b")
        assert len(sublist.match_within(b"a.b", 0, 3).plain) == 1
    assert sys.getrefcount(left) == free


def test_a_result_knows_its_only_receiver() -> None:
    sublist = SubList()
    assert sublist.match(b"a").lone is None
    first = inserted(sublist, b"a")
    assert sublist.match(b"a").lone is first
    other = inserted(sublist, b"*")
    assert sublist.match(b"a").lone is None
    assert sublist.match(b"b").lone is other
    inserted(sublist, b"b", b"workers")
    assert sublist.match(b"b").lone is None, "one of the group gets it as well"
    remote = RemoteSubscription(b"c", remote=object())
    assert sublist.insert_remote(remote) is None
    assert sublist.match(b"c").lone is None, "it goes over a link as well"


def test_subjects_beside_literal_interest_behind_links_take_no_walk() -> None:
    sublist = SubList()
    local = inserted(sublist, b"a")
    remotes = [RemoteSubscription(subject, remote=object()) for subject in (b"a", b"x.y")]
    for remote in remotes:
        assert sublist.insert_remote(remote) is None
    steps = sublist.steps
    for i in range(100):
        assert not sublist.match(b"new.%d" % i)
    assert sublist.steps == steps
    assert sublist.match(b"a").remotes is not None
    assert sublist.match(b"x.y").remotes is not None
    assert not sublist.match(b"x")
    assert sublist.match(b"a").plain == (local,)
    for remote in remotes:
        assert sublist.remove_remote(remote) is None
    assert sublist.match(b"a").lone is local
    assert not sublist.match(b"x.y")


def test_owners_differ() -> None:
    one, other = object(), object()
    subscriptions = [OwnedSubscription(b"a", owner=owner) for owner in (one, other, one)]
    assert SubListResult(tuple(subscriptions[:2])).owners_differ()
    assert not SubListResult(tuple(subscriptions)).owners_differ()
    assert EMPTY_RESULT.owners_differ()


def test_defaults_of_the_cache() -> None:
    sublist = SubList()
    inserted(sublist, b">")
    for i in range(1024):
        sublist.match(b"%d" % i)
    assert sublist.stats().cache_size == 1024
    sublist.match(b"x")
    assert sublist.stats().cache_size == 256


def test_cache_off() -> None:
    sublist = SubList(cache_max=0, cache_sweep_to=0)
    inserted(sublist, b">")
    assert names(sublist, b"a") == [b">"]
    assert sublist.stats().cache_size == 0


@pytest.mark.parametrize(("most", "sweep_to"), [(-1, 0), (4, 5), (4, -1)])
def test_impossible_cache_sizes(most: int, sweep_to: int) -> None:
    with pytest.raises(ValueError, match="cache_sweep_to"):
        SubList(cache_max=most, cache_sweep_to=sweep_to)


def test_counts() -> None:
    sublist = SubList()
    one, two = inserted(sublist, b"a.*"), inserted(sublist, b"a.b")
    inserted(sublist, b"a.b", b"q")
    for _ in range(4):
        sublist.match(b"a.b")
    sublist.match(b"x")
    stats = sublist.stats()
    assert (stats.subscriptions, stats.inserts, stats.removes) == (3, 3, 0)
    assert (stats.matches, stats.cache_hits) == (5, 3)
    assert stats.hit_rate == 3 / 5
    assert (stats.max_fan_out, stats.average_fan_out) == (3, 1.5)
    sublist.remove(one)
    sublist.remove(two)
    assert sublist.stats().removes == 2
    assert sublist.stats().subscriptions == 1


def test_generation_changes_with_every_insert_and_remove(sublist: SubList) -> None:
    seen = {sublist.generation}
    subscription = inserted(sublist, b"a")
    seen.add(sublist.generation)
    sublist.remove(subscription)
    seen.add(sublist.generation)
    sublist.match(b"a")
    seen.add(sublist.generation)
    assert len(seen) == 3


def test_deep_subjects_neither_recurse_nor_blow_up(sublist: SubList) -> None:
    deep = b".".join([b"t"] * 2000)
    stars = b".".join([b"*"] * 2000)
    mixed = [b".".join([b"*"] * i + [b"t"] * (1000 - i)) for i in range(100)]
    subscriptions = [inserted(sublist, s) for s in (deep, stars, b"t.>", *mixed)]
    assert names(sublist, deep) == sorted([deep, stars, b"t.>"])
    assert len(sublist.match(b".".join([b"t"] * 1000)).plain) == 101
    for subscription in subscriptions:
        assert sublist.remove(subscription) is None
    assert sublist.depth() == 0


DEEP = """
import threading
from midge.sublist import SubList, Subscription

def drop():
    sublist = SubList()
    for token in (b"*", b"t"):
        assert sublist.insert(Subscription(b".".join([token] * 200_000 + [b">"]))) is None

threading.stack_size(1 << 18)
thread = threading.Thread(target=drop)
thread.start()
thread.join()
"""


def test_a_deep_trie_is_taken_apart_on_a_small_stack() -> None:
    done = subprocess.run([sys.executable, "-c", DEEP], check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_many_on_one_subject_leave_in_any_order(sublist: SubList) -> None:
    subscriptions = [inserted(sublist, b"a", b"q" if i % 3 == 0 else None) for i in range(300)]
    random.Random(1).shuffle(subscriptions)
    while subscriptions:
        assert sublist.remove(subscriptions.pop()) is None
        assert set(sublist.match(b"a").subscriptions()) == set(subscriptions)


def test_turns_of_a_group_survive_other_subjects() -> None:
    """A wildcard group's round goes on from subject to subject: they share one result."""
    sublist = SubList()
    for _ in range(4):
        inserted(sublist, b"work.*", b"q")
    assert sublist.match(b"work.1").queues[0] is sublist.match(b"work.2").queues[0]


def test_threads_against_an_oracle() -> None:  # noqa: C901
    """Readers never see a result that no state of the SubList could have given."""
    sublist = SubList(cache_max=16, cache_sweep_to=4)
    patterns = [b"a.*", b"a.>", b"*.b", b"a.b", b">", b"c.d"]
    subjects = [b"a.b", b"a.c", b"c.d", b"z.b"]
    fixed = [inserted(sublist, pattern) for pattern in patterns]
    stop = threading.Event()
    wrong: list[object] = []

    def churn(seed: int) -> None:
        rng = random.Random(seed)
        held: list[Subscription] = []
        for _ in range(1500):
            if held and rng.random() < 0.5:
                if sublist.remove(held.pop(rng.randrange(len(held)))) is not None:
                    wrong.append("remove failed")
            else:
                held.append(inserted(sublist, rng.choice(patterns)))
        for subscription in held:
            sublist.remove(subscription)

    def read() -> None:
        while not stop.is_set():
            for subject in subjects:
                found = sublist.match(subject).plain
                if any(not matches(subject, s.subject) for s in found):
                    wrong.append(("stranger", subject))
                expected = [s for s in fixed if matches(subject, s.subject)]
                if not set(expected) <= set(found):
                    wrong.append(("missing", subject))

    readers = [threading.Thread(target=read) for _ in range(2)]
    writers = [threading.Thread(target=churn, args=(seed,)) for seed in range(3)]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert wrong == []
    assert len(sublist) == len(fixed)
    for subject in subjects:
        expected = {s for s in fixed if matches(subject, s.subject)}
        assert set(sublist.match(subject).plain) == expected


def test_large_remembered_matches_are_not_copied_for_each_insert() -> None:
    sublist = SubList()
    for _ in range(500):
        inserted(sublist, b">")
    inserted(sublist, b"a.*")
    for number in range(1000):
        sublist.match(b"a.%d" % number)
    before = sublist.steps
    for _ in range(100):
        inserted(sublist, b">")
    assert sublist.steps - before < 10_000, "each of the 1,000 is looked at once, and forgotten"
    assert sublist.match(b"a.1").fan_out() == 601
    assert sublist.match(b"b").fan_out() == 600


def test_small_remembered_matches_are_brought_up_to_date() -> None:
    sublist = SubList()
    inserted(sublist, b"a.*")
    inserted(sublist, b"*.b")
    sublist.match(b"a.b")
    hits = sublist.stats().cache_hits
    inserted(sublist, b"a.>")
    assert sublist.match(b"a.b").fan_out() == 3
    assert sublist.stats().cache_hits == hits + 1


def test_what_is_remembered_is_bounded_by_its_subscriptions_too() -> None:
    sublist = SubList(cache_max=1000)
    for _ in range(20_000):
        inserted(sublist, b">")
    inserted(sublist, b"a.*")
    for number in range(500):
        assert sublist.match(b"a.%d" % number).fan_out() == 20_001
        assert sublist.stats().cache_size * 20_001 < 1.1 * (1 << 20)


def test_steps_tell_what_was_done(sublist: SubList) -> None:
    for number in range(100):
        inserted(sublist, b"a.*.%d" % number)
    inserted(sublist, b"a.>")
    before = sublist.steps
    sublist.match(b"a.b.1")
    done = sublist.steps
    assert before < done
    sublist.match(b"a.b.1")
    assert sublist.steps == done, "it was at hand"


@pytest.mark.parametrize("length", [4, 7, 8, 15, 16, 17, 24, 31, 32, 33])
def test_remembered_subjects_that_differ_in_a_byte_or_two_are_told_apart(length: int) -> None:
    # So many that most of the sets in which they are remembered hold several.
    sublist = SubList()
    subscriptions: dict[bytes, Subscription] = {}
    for number in range(6_000):
        subject = bytearray(b"s" * length)
        subject[number % length] = 0x41 + number // length % 50
        subject[number * 7 % length] = 0x41 + number // length // 50 % 50
        subscriptions.setdefault(bytes(subject), Subscription(bytes(subject)))
    for subscription in subscriptions.values():
        sublist.insert(subscription)
    for _ in range(3):  # found, remembered, and found again
        for subject, subscription in subscriptions.items():
            assert sublist.match_within(subject, 0, length).plain == (subscription,)


@pytest.mark.parametrize("length", [6, 8, 12, 20, 32, 33, 60])
def test_subjects_that_alternate_are_nearly_all_at_hand(length: int) -> None:
    sublist = SubList()
    inserted(sublist, b">")
    subjects = [(b"%06d" % (number * 7919)).ljust(length, b"x") for number in range(600)]
    for _ in range(4):  # the table of recent subjects grows, and is cleared each time
        done = sublist.steps
        for subject in subjects:
            assert len(sublist.match_within(subject, 0, length).plain) == 1
    # A subject that is not recent takes six or more steps; a bucket holds four.
    assert sublist.steps - done <= 100
    added = inserted(sublist, b"*")
    assert all(added in sublist.match_within(one, 0, length).plain for one in subjects)


def test_a_subject_within_is_not_taken_for_one_that_differs_in_the_middle() -> None:
    sublist = SubList()
    one, other = (b"a" * 20 + middle + b"z" * 20 for middle in (b"1", b"2"))
    inserted(sublist, one)
    for _ in range(3):
        assert len(sublist.match_within(one, 0, len(one)).plain) == 1
        assert sublist.match_within(other, 0, len(other)).plain == ()


def test_the_subscriptions_of_exactly_a_subject_and_group_are_listed(sublist: SubList) -> None:
    for pattern in (b"a.b", b"a.*", b"a.>"):
        plain = [inserted(sublist, pattern)]
        assert sublist.exactly(pattern, None) == plain
        plain.append(inserted(sublist, pattern))
        member = inserted(sublist, pattern, b"g")
        inserted(sublist, pattern, b"h")
        assert sublist.exactly(pattern, None) == plain
        assert sublist.exactly(pattern, b"g") == [member]
        assert sublist.exactly(pattern, b"none") == []
    assert sublist.exactly(b"a.c", None) == sublist.exactly(b"a..b", None) == []


def test_a_walk_lists_every_subscription_while_others_come_and_go(sublist: SubList) -> None:
    kept = {
        inserted(sublist, b"s.%d" % i if i % 3 else b"s.%d.*" % i, queue)
        for i in range(500)
        for queue in (None, b"g")
    }
    gone = [inserted(sublist, b"gone.%d" % i) for i in range(500)]
    found = []
    for batch in sublist.walk_subscriptions():
        found += batch
        if gone:
            sublist.remove(gone.pop())
            inserted(sublist, b"new.%d" % len(gone))
    assert kept <= set(found)
    assert len(found) == len(set(found))
