"""Permissions: the subjects that one connection may publish, subscribe to and receive.

`PermissionRules` are one user's compiled permissions; the connections of that user share them and
their bounded caches. `Permissions` belong to one connection: the rules, and the replies that
`allow_responses` has granted to it. Sockets, accounts and the texts of refusals are not here.

The rules:

==============  ====================================================================================
publish         One allow pattern must match the subject, if there are any, and no deny pattern may
                match it. Wildcards in a published subject are ordinary bytes.
subscribe       One allow pattern must *cover* the whole subscription subject (``a.*`` does not
                cover ``a.>``), if there are any, and no deny pattern may match it.
queue           ``subject queue`` entries count for subscriptions with that queue group only, where
                the queue part may be a pattern. When such entries of the allow list cover the
                subject, the queue group must be among them. A denial without queue part denies
                every queue group.
deliver         A subscription that is wider than a denial is accepted, so every message is checked
                against the deny patterns again, for plain and queue subscriptions alike.
responses       With `allow_responses`, a client may publish to the reply subject of a received
                message, a limited number of times and for a limited time.
==============  ====================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.auth.pattern_set import PatternSet, SubjectQueue, split_subject_queue
from midge.sublist.bounded_cache import BoundedCache

if TYPE_CHECKING:
    from collections.abc import Iterable

    from midge.server.config import options

CACHE_MAX = 1024
"""Most answers in each cache."""

CACHED_SUBJECT_MAX_BYTES = 256
"""Longest cached subject, in bytes, which bounds the caches' memory."""

_REMEMBER_EVERY = 8

RESPONSES_MAX = 65536
"""Most reply subjects granted to one connection at a time; a further one evicts the oldest."""

RESPONSES_MAX_BYTES = 8 << 20
"""Most bytes of these reply subjects, because peers choose their length."""


class PermissionRules:
    """One user's rules, compiled, with caches of their answers."""

    def __init__(self, table: options.Permissions) -> None:
        """Compile `table`.

        Raises:
            ValueError: an entry is not a subject, or not ``subject queue`` where that is allowed.
        """
        self.table = table
        responses = table.allow_responses
        publish_allow = _publish_entries("publish.allow", table.publish.allow)
        publish_deny = _publish_entries("publish.deny", table.publish.deny)
        subscribe_allow = _entries("subscribe.allow", table.subscribe.allow)
        subscribe_deny = _entries("subscribe.deny", table.subscribe.deny)
        # With allowed responses, an empty allow list means "only responses", not "everything".
        self.limits_publish_allow = bool(publish_allow) or responses is not None
        self.publish_allow = PatternSet(publish_allow)
        self.publish_deny = PatternSet(publish_deny)
        self.limits_subscribe_allow = bool(subscribe_allow)
        self.subscribe_allow = PatternSet(subscribe_allow)
        self.subscribe_deny = PatternSet(subscribe_deny)
        self.has_publish_rules = self.limits_publish_allow or bool(publish_deny)
        self.has_deliver_deny = bool(subscribe_deny)
        self.allows_responses = responses is not None
        self.responses_max = (responses.max or 1) if responses else 0
        self.responses_expire_s = (responses.expires_s or 120.0) if responses else 0.0
        self.publish_cache = BoundedCache(CACHE_MAX)
        self.deliver_cache = BoundedCache(CACHE_MAX)
        self.deliver_queue_cache = BoundedCache(CACHE_MAX)
        self._checks = 0

    def remembers(self) -> bool:
        """Return whether to cache the current answer: at first each, later a sample.

        Caching takes as long as finding, and is useless for subjects that never repeat.
        """
        self._checks += 1
        return self._checks <= CACHE_MAX or self._checks % _REMEMBER_EVERY == 0

    def steps(self) -> int:
        """Return the steps of all checks so far, so that the caller can be charged."""
        return (
            self.publish_allow.steps
            + self.publish_deny.steps
            + self.subscribe_allow.steps
            + self.subscribe_deny.steps
        )

    def check_publish(self, subject: bytes) -> bool:
        """Return whether the rules allow publishing to `subject`, without the cache."""
        if self.limits_publish_allow and not self.publish_allow.matches(subject):
            return False
        return not self.publish_deny.matches(subject)

    def check_subscribe(self, subject: bytes, queue: bytes | None) -> bool:
        """Return whether the rules allow a subscription to `subject`, in `queue` unless None."""
        if self.limits_subscribe_allow:
            allowed = self.subscribe_allow.covers(subject)
            if queue:
                queues = self.subscribe_allow.covering_queues(subject)
                if queues:
                    allowed = _queue_matches(queue, queues)
            if not allowed:
                return False
        return self.check_deliver(subject, queue)

    def check_deliver(self, subject: bytes, queue: bytes | None) -> bool:
        """Return whether no denial matches `subject`, in `queue` unless None."""
        if self.subscribe_deny.matches(subject):
            return False
        if not queue:
            return True
        queues = self.subscribe_deny.matching_queues(subject)
        return not queues or not _queue_matches(queue, queues)


class Permissions:
    """The permissions of one connection. Caches answer repeated checks."""

    def __init__(self, rules: PermissionRules) -> None:
        """Start with `rules` and no response granted."""
        self.rules = rules
        self.has_publish_rules = rules.has_publish_rules
        self.has_deliver_deny = rules.has_deliver_deny
        self.allows_responses = rules.allows_responses
        self._publish_cache = rules.publish_cache
        self._deliver_cache = rules.deliver_cache
        self._deliver_queue_cache = rules.deliver_queue_cache
        self._responses: dict[bytes, _Grant] = {}
        self._response_bytes = 0

    def may_publish(self, subject: bytes) -> bool:
        """Return whether the rules alone allow the connection to publish to `subject`.

        If they do not and `allows_responses` is set, `use_response` may still permit it.
        """
        answer: bool | None = self._publish_cache.get(subject)
        if answer is not None:
            return answer
        allowed = self.rules.check_publish(subject)
        if len(subject) <= CACHED_SUBJECT_MAX_BYTES and self.rules.remembers():
            self._publish_cache.put(subject, allowed)
        return allowed

    def may_subscribe(self, subject: bytes, queue: bytes | None) -> bool:
        """Return whether the connection may subscribe to `subject`, in `queue` unless None.

        With an allow list, an invalid subject is refused here; without one, the SubList refuses it.
        """
        return self.rules.check_subscribe(subject, queue)

    def may_deliver(self, subject: bytes, queue: bytes | None) -> bool:
        """Return whether its subscriptions (in `queue`) may get messages on `subject`."""
        if queue is not None:
            return self._may_deliver_to_queue(subject, queue)
        answer: bool | None = self._deliver_cache.get(subject)
        if answer is not None:
            return answer
        allowed = self.rules.check_deliver(subject, None)
        if len(subject) <= CACHED_SUBJECT_MAX_BYTES and self.rules.remembers():
            self._deliver_cache.put(subject, allowed)
        return allowed

    def grant_response(self, reply: bytes, now_s: float) -> bool:
        """Grant `reply` of a message delivered at `now_s` (a monotonic clock).

        Does nothing unless `allows_responses`, or if the rules allow `reply` anyway. Returns
        whether another grant, still valid, was evicted.
        """
        if not self.allows_responses or self.may_publish(reply):
            return False
        if reply in self._responses:
            self._forget_response(reply)
        gave_way = self._drop_stale_responses(now_s)
        self._responses[reply] = _Grant(now_s)
        self._response_bytes += len(reply)
        return gave_way

    def use_response(self, subject: bytes, now_s: float) -> bool:
        """Return whether a grant permits publishing to `subject` at `now_s`; use it once."""
        grant = self._responses.get(subject)
        if grant is None:
            return False
        grant.used += 1
        most = self.rules.responses_max
        if (0 < most < grant.used) or self._is_expired(grant, now_s):
            self._forget_response(subject)
            return False
        return True

    def responses_granted(self) -> int:
        """Return the number of reply subjects that are remembered."""
        return len(self._responses)

    def _may_deliver_to_queue(self, subject: bytes, queue: bytes) -> bool:
        """Return the same as `may_deliver`, for a queue subscription."""
        key = (subject, queue)
        answer: bool | None = self._deliver_queue_cache.get(key)
        if answer is not None:
            return answer
        allowed = self.rules.check_deliver(subject, queue)
        if len(subject) + len(queue) <= CACHED_SUBJECT_MAX_BYTES and self.rules.remembers():
            self._deliver_queue_cache.put(key, allowed)
        return allowed

    def _drop_stale_responses(self, now_s: float) -> bool:
        """Drop expired grants, and the oldest of too many; return whether there were too many.

        Grants are kept in the order of their time, so the first valid one ends the search.
        """
        gave_way = False
        while self._responses:
            oldest = next(iter(self._responses))
            full = (
                len(self._responses) >= RESPONSES_MAX or self._response_bytes >= RESPONSES_MAX_BYTES
            )
            expired = self._is_expired(self._responses[oldest], now_s)
            if not full and not expired:
                break
            self._forget_response(oldest)
            gave_way = gave_way or not expired
        return gave_way

    def _forget_response(self, reply: bytes) -> None:
        """Drop the existing grant for `reply`."""
        del self._responses[reply]
        self._response_bytes -= len(reply)

    def _is_expired(self, grant: _Grant, now_s: float) -> bool:
        """Return whether `grant` is older than the rules permit at `now_s`."""
        expires_s = self.rules.responses_expire_s
        return 0 < expires_s < now_s - grant.granted_s


class _Grant:
    """When a reply subject was granted, and how often it has been used."""

    def __init__(self, granted_s: float) -> None:
        self.granted_s = granted_s
        self.used = 0


def _queue_matches(queue: bytes, names: list[PatternSet]) -> bool:
    """Return whether one of the queue parts in `names` equals or covers `queue`."""
    for patterns in names:  # noqa: SIM110 - a generator is slower in the compiled build
        if patterns.covers(queue):
            return True
    return False


def _entries(where: str, texts: Iterable[str]) -> list[SubjectQueue]:
    """Read ``subject`` and ``subject queue`` entries."""
    return [split_subject_queue(where, text) for text in texts]


def _publish_entries(where: str, texts: tuple[str, ...]) -> list[SubjectQueue]:
    """Read ``subject`` entries; a queue part has no meaning for publishing."""
    entries = _entries(where, texts)
    for text, (_, queue) in zip(texts, entries, strict=True):
        if queue is not None:
            raise ValueError(f"{where}: expected a subject, got {text!r} with a queue part")
    return entries
