"""Permissions: each rule of the module's table, the caches' bounds, and response grants."""

from __future__ import annotations

import pytest

from midge.server.auth import permissions
from midge.server.auth.permissions import PermissionRules, Permissions
from midge.server.config.options import AllowResponses, SubjectPermissions
from midge.server.config.options import Permissions as Table


def allowing(
    *,
    publish: tuple[str, ...] = (),
    publish_deny: tuple[str, ...] = (),
    subscribe: tuple[str, ...] = (),
    subscribe_deny: tuple[str, ...] = (),
    responses: AllowResponses | None = None,
) -> Permissions:
    table = Table(
        publish=SubjectPermissions(allow=publish, deny=publish_deny),
        subscribe=SubjectPermissions(allow=subscribe, deny=subscribe_deny),
        allow_responses=responses,
    )
    return Permissions(PermissionRules(table))


class TestPublish:
    def test_everything_is_allowed_without_rules(self) -> None:
        unrestricted = allowing()
        assert not unrestricted.has_publish_rules
        assert unrestricted.may_publish(b"a")
        assert unrestricted.may_publish(b"a..b")

    def test_only_what_an_allow_pattern_matches(self) -> None:
        some = allowing(publish=("foo.*", "bar.>"))
        assert some.has_publish_rules
        assert some.may_publish(b"foo.x")
        assert some.may_publish(b"bar.x.y")
        assert not some.may_publish(b"foo.x.y")
        assert not some.may_publish(b"bar")

    def test_a_denial_outweighs_an_allowance(self) -> None:
        some = allowing(publish=("foo.>",), publish_deny=("foo.secret", "*.*.key"))
        assert some.may_publish(b"foo.open")
        assert not some.may_publish(b"foo.secret")
        assert not some.may_publish(b"foo.any.key")

    def test_denials_alone_leave_the_rest_open(self) -> None:
        some = allowing(publish_deny=("secret.>",))
        assert some.may_publish(b"other")
        assert not some.may_publish(b"secret.x")

    def test_wildcards_in_a_published_subject_are_ordinary_bytes(self) -> None:
        some = allowing(publish=("foo.*",))
        assert some.may_publish(b"foo.*")
        assert some.may_publish(b"foo.>")
        assert not some.may_publish(b"*.x")

    def test_a_subject_with_an_empty_token_is_covered_by_no_allowance(self) -> None:
        assert not allowing(publish=(">",)).may_publish(b"a..b")
        assert not allowing(publish=("a.*.b",)).may_publish(b"a..b")

    def test_a_second_answer_is_the_same(self) -> None:
        some = allowing(publish=("a",))
        assert [some.may_publish(b"a"), some.may_publish(b"a")] == [True, True]
        assert [some.may_publish(b"b"), some.may_publish(b"b")] == [False, False]


class TestSubscribe:
    def test_the_whole_subscription_must_be_covered(self) -> None:
        some = allowing(subscribe=("foo.*",))
        assert some.may_subscribe(b"foo.bar", None)
        assert some.may_subscribe(b"foo.*", None)
        assert some.may_subscribe(b"foo.*a", None)
        assert not some.may_subscribe(b"*.bar", None)
        assert not some.may_subscribe(b">", None)

    def test_a_single_token_wildcard_does_not_cover_the_rest_of_the_subject(self) -> None:
        # nats-server 2.15.1 takes `>` for a literal token here and lets foo.a.b through.
        assert not allowing(subscribe=("foo.*",)).may_subscribe(b"foo.>", None)
        assert allowing(subscribe=("foo.>",)).may_subscribe(b"foo.>", None)
        assert allowing(subscribe=("foo.>",)).may_subscribe(b"foo.*.>", None)

    def test_a_wider_subscription_than_a_denial_is_accepted(self) -> None:
        some = allowing(subscribe_deny=("foo.*",))
        assert some.has_deliver_deny
        assert some.may_subscribe(b">", None)
        assert some.may_subscribe(b"*.bar", None)
        assert not some.may_subscribe(b"foo.bar", None)
        assert not some.may_subscribe(b"foo.*", None)
        assert not some.may_subscribe(b"foo.>", None)

    def test_an_invalid_subject_is_refused_only_by_an_allow_list(self) -> None:
        assert not allowing(subscribe=("foo.>",)).may_subscribe(b"foo..a", None)
        assert allowing(subscribe_deny=("foo.>",)).may_subscribe(b"foo..a", None)


class TestQueues:
    def test_a_queue_entry_restricts_the_queue_groups_of_its_subject(self) -> None:
        some = allowing(subscribe=("foo", "foo q1"))
        assert some.may_subscribe(b"foo", None)
        assert some.may_subscribe(b"foo", b"q1")
        assert not some.may_subscribe(b"foo", b"q2")

    def test_a_queue_entry_alone_allows_no_plain_subscription(self) -> None:
        some = allowing(subscribe=("foo.> v1.*",))
        assert not some.may_subscribe(b"foo.a", None)
        assert some.may_subscribe(b"foo.a", b"v1.x")
        assert some.may_subscribe(b"foo.a", b"v1.*")
        assert not some.may_subscribe(b"foo.a", b"v1.>")
        assert not some.may_subscribe(b"foo.a", b"v2.x")

    def test_a_plain_entry_allows_every_queue_group(self) -> None:
        assert allowing(subscribe=("foo",)).may_subscribe(b"foo", b"any")

    def test_a_denied_queue_group_leaves_the_others_alone(self) -> None:
        some = allowing(subscribe_deny=("foo.bar q1", "*.x v*.>", "all.* >"))
        assert some.may_subscribe(b"foo.bar", None)
        assert some.may_subscribe(b"foo.bar", b"q2")
        assert not some.may_subscribe(b"foo.bar", b"q1")
        assert some.may_subscribe(b"a.x", b"v1.y")
        assert not some.may_subscribe(b"a.x", b"v*.y")
        assert some.may_subscribe(b"all.x", None)
        assert not some.may_subscribe(b"all.x", b"anything")

    def test_a_queue_name_that_is_no_subject_matches_only_itself(self) -> None:
        some = allowing(subscribe=("foo *",))
        assert some.may_subscribe(b"foo", b"q")
        assert not some.may_subscribe(b"foo", b"a..b")


class TestDeliver:
    def test_a_denied_subject_reaches_neither_plain_nor_queue_subscriptions(self) -> None:
        some = allowing(subscribe_deny=("foo.secret",))
        for _ in range(2):
            assert some.may_deliver(b"foo.open", None)
            assert some.may_deliver(b"foo.open", b"q")
            assert not some.may_deliver(b"foo.secret", None)
            assert not some.may_deliver(b"foo.secret", b"q")

    def test_a_denied_queue_group_is_kept_out_of_the_subject_alone(self) -> None:
        some = allowing(subscribe_deny=("foo.secret q1",))
        for _ in range(2):
            assert some.may_deliver(b"foo.secret", None)
            assert some.may_deliver(b"foo.secret", b"q2")
            assert not some.may_deliver(b"foo.secret", b"q1")
            assert some.may_deliver(b"foo.open", b"q1")


class TestResponses:
    def test_nothing_but_replies_may_be_published(self) -> None:
        some = allowing(responses=AllowResponses())
        assert some.has_publish_rules
        assert not some.may_publish(b"inbox.1")
        assert not some.use_response(b"inbox.1", 0.0)
        some.grant_response(b"inbox.1", 0.0)
        assert not some.may_publish(b"inbox.1")
        assert some.use_response(b"inbox.1", 119.0)

    def test_a_grant_is_used_up(self) -> None:
        some = allowing(responses=AllowResponses(max=2))
        some.grant_response(b"r", 0.0)
        assert [some.use_response(b"r", 1.0) for _ in range(4)] == [True, True, False, False]
        assert some.responses_granted() == 0

    def test_a_grant_expires(self) -> None:
        some = allowing(responses=AllowResponses(max=-1, expires_s=5.0))
        some.grant_response(b"r", 10.0)
        assert some.use_response(b"r", 15.0)
        assert not some.use_response(b"r", 15.1)
        assert some.responses_granted() == 0

    def test_negative_bounds_mean_unlimited(self) -> None:
        some = allowing(responses=AllowResponses(max=-1, expires_s=-1))
        some.grant_response(b"r", 0.0)
        assert all(some.use_response(b"r", 1e9) for _ in range(1000))

    def test_a_zero_means_the_default(self) -> None:
        some = allowing(responses=AllowResponses(max=0, expires_s=0))
        some.grant_response(b"r", 0.0)
        assert [some.use_response(b"r", 120.0), some.use_response(b"r", 120.0)] == [True, False]

    def test_the_allow_list_stays_open_beside_replies(self) -> None:
        some = allowing(publish=("open",), responses=AllowResponses())
        assert some.may_publish(b"open")
        some.grant_response(b"open", 0.0)
        assert some.responses_granted() == 0

    def test_receiving_again_renews_the_grant(self) -> None:
        some = allowing(responses=AllowResponses())
        some.grant_response(b"r", 0.0)
        assert some.use_response(b"r", 1.0)
        some.grant_response(b"r", 2.0)
        assert some.use_response(b"r", 3.0)

    def test_nothing_is_granted_unless_responses_are_allowed(self) -> None:
        some = allowing(publish=("a",))
        some.grant_response(b"r", 0.0)
        assert some.responses_granted() == 0

    def test_expired_grants_are_dropped_by_later_ones(self) -> None:
        some = allowing(responses=AllowResponses(expires_s=1.0))
        for i in range(100):
            some.grant_response(b"r%d" % i, float(i))
        assert some.responses_granted() <= 2

    def test_unlimited_grants_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(permissions, "RESPONSES_MAX", 10)
        some = allowing(responses=AllowResponses(max=-1, expires_s=-1))
        for i in range(100):
            some.grant_response(b"r%d" % i, 0.0)
        assert some.responses_granted() == 10
        assert some.use_response(b"r99", 0.0)
        assert not some.use_response(b"r0", 0.0)

    def test_long_replies_are_bounded_by_their_bytes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(permissions, "RESPONSES_MAX_BYTES", 1000)
        some = allowing(responses=AllowResponses(max=1, expires_s=100))
        gave_way = [some.grant_response(b"%0100d" % i, 0.0) for i in range(50)]
        assert gave_way == [False] * 10 + [True] * 40
        assert some.responses_granted() == 10
        for i in range(40, 50):
            assert some.use_response(b"%0100d" % i, 0.0)
            assert not some.use_response(b"%0100d" % i, 0.0)
        assert not any(some.grant_response(b"%0100d" % i, 0.0) for i in range(10))

    def test_what_has_expired_gives_way_unnoticed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(permissions, "RESPONSES_MAX", 10)
        some = allowing(responses=AllowResponses(expires_s=1.0))
        assert not any(some.grant_response(b"r%d" % i, 0.0) for i in range(10))
        assert not some.grant_response(b"late", 5.0)
        assert some.responses_granted() == 1


class TestCaches:
    def test_they_never_outgrow_their_bound(self) -> None:
        some = allowing(publish=("a.>",), subscribe_deny=("b.>",))
        for i in range(3 * permissions.CACHE_MAX):
            subject = b"a.%d" % i
            assert some.may_publish(subject)
            assert some.may_deliver(subject, None)
            assert some.may_deliver(subject, b"q")
        rules = some.rules
        assert 0 < len(rules.publish_cache) <= permissions.CACHE_MAX
        assert 0 < len(rules.deliver_cache) <= permissions.CACHE_MAX
        assert 0 < len(rules.deliver_queue_cache) <= permissions.CACHE_MAX

    def test_long_subjects_are_not_kept(self) -> None:
        some = allowing(publish=("a",), subscribe_deny=("a",))
        long = b"x" * 4000
        assert not some.may_publish(long)
        assert some.may_deliver(long, None)
        assert some.may_deliver(long, b"q")
        rules = some.rules
        caches = [rules.publish_cache, rules.deliver_cache, rules.deliver_queue_cache]
        assert [cache.entries for cache in caches] == [{}, {}, {}]

    def test_the_connections_of_one_user_share_them(self) -> None:
        rules = PermissionRules(Table(publish=SubjectPermissions(allow=("a",))))
        assert Permissions(rules).may_publish(b"a")
        assert rules.publish_cache.entries == {b"a": True}
        assert Permissions(rules).may_publish(b"a")


class TestBadEntries:
    @pytest.mark.parametrize("text", ["", "a..b", "a q r", "a .q", "a.>.b", "a q..r"])
    def test_an_entry_that_is_no_subject_is_refused_by_name(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"subscribe\.deny: expected a subject"):
            allowing(subscribe_deny=(text,))

    def test_publishing_knows_no_queues(self) -> None:
        with pytest.raises(ValueError, match=r"publish\.allow: expected a subject, got 'a q'"):
            allowing(publish=("a q",))
