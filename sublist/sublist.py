"""The SubList: the subscriptions of an account, matched by subject.

A publisher asks the SubList for the subscriptions that its subject reaches, for every message. A
subscriber changes it rarely. The data structures therefore make matching cheap, and keep answers
until a change makes them stale.

Where subscriptions are:

    _exact      Subscriptions without wildcards: a dictionary from subject to node. While there are
                no others, a match is one dictionary look-up. A plain subscription that is alone on
                its subject has the place of its node until a message matches it, which saves 64
                bytes for each subject without messages.
    _trie       Subscriptions with wildcards: one level of nodes per token, see trie.py.
    remotes     A second SubList for the interest that links announce. It is None until a link
                announces any. Its results are merged in, and its subscriptions are in no count.

A node has the subscriptions of one subject, plain ones and queue groups, and caches their result. A
result is immutable, so publishers may use it while subscriptions change.

Where answers are, in the order in which `match_within` tries them:

    recent      The results of recently published subjects, found by the bytes in the read buffer
                (see recent.py), all of one generation.
    _cache      Results by subject, while any subscription has a wildcard (see result_cache.py).
    _prefix_results
                Results that hold for all subjects with the same prefix (see prefix_results.py).
                They answer subjects that never repeat, such as inboxes and ack subjects.

`generation` changes with every insert and remove. `recent` and `_prefix_results` compare it
and ignore older results, so that no change has to search them.

Two rules keep the caches useful when subjects do not repeat. `_cache` then takes in only a sample
of the results, and the others are looked up in `_prefix_results` before the trie. And a subject
enters `recent` only on a cache hit, that is, not on its first use.

`match` reads the caches without a lock. Building a result and changing subscriptions take the lock,
so that threads may share a SubList. `steps` counts the work, so that the caller can charge it to
the client that caused it.
"""

from collections.abc import Iterator
from enum import Enum
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from midge.sublist import octets
from midge.sublist.mutex import Mutex
from midge.sublist.prefix_results import PrefixResults
from midge.sublist.recent import RecentMatches
from midge.sublist.result import EMPTY_RESULT, SubListResult
from midge.sublist.result_cache import ResultCache
from midge.sublist.sharded_dict import ShardedDict
from midge.sublist.subjects import is_literal, is_valid_subject
from midge.sublist.subscription import RemoteSubscription, Subscription
from midge.sublist.trie import ENDED, NOT_HELD, Node, Trie, build_result

if TYPE_CHECKING:
    from midge.sublist.interest_listener import InterestListener

_LEVEL_STEPS = 4  # steps for a trie level: levels are far apart in memory
_MISS_STEPS = 6  # steps for copying, hashing and looking up a subject that `recent` does not have
_READ_PER_STEP = 32  # bytes of a subject read in one step
_GROUP_STEPS = 12  # steps for building a queue group, however few its members
_PLAIN_PER_STEP = 4  # plain subscriptions in one step: they are collected in bulk
_WALKED_AT_ONCE = 32  # nodes per step of `walk`: some 10 us if none of them has interest
_FAN_OUT_SAMPLE = 1024  # cached results that the fan-out statistics read, at most


class SubListError(Enum):
    """Why a subscription was not inserted or not removed."""

    INVALID_SUBJECT = "invalid subject"
    ALREADY_INSERTED = "already inserted"
    NOT_FOUND = "no matching subscription"


class SubListStats(NamedTuple):
    """Counts of one SubList; `cache_hits` counts the matches answered without building a result."""

    subscriptions: int
    cache_size: int
    inserts: int
    removes: int
    matches: int
    cache_hits: int
    max_fan_out: int
    average_fan_out: float

    @property
    def hit_rate(self) -> float:
        """The share of matches that were answered from the cache, 0 to 1."""
        return self.cache_hits / self.matches if self.matches else 0.0


class SubList:
    """Subscriptions by subject.

    `cache_max` bounds the cached results; a result beyond it evicts the oldest until
    `cache_sweep_to` are left. `cache_max=0` switches the cache off. With `exact_match=False`
    literal subjects go into the trie as well, which measures how much the dictionary saves.

    `generation` changes with every insert and remove: a result is valid until it changes. `steps`
    counts the work of inserts, of removes and of matches that no cache answered, so that the client
    that caused it can be charged: subjects read and compared, by their length, and subscriptions
    and nodes visited. `listener`, unless None, is called when the first subscription of its kind
    comes and the last one goes. `remotes` is the SubList of the interest that links announce, and
    None until there is any; `match` includes it, and no count does. `recent` has the results of
    recently published subjects.
    """

    def __init__(
        self, *, cache_max: int = 1024, cache_sweep_to: int = 256, exact_match: bool = True
    ) -> None:
        self.generation = 0
        self.steps = 0
        self.listener: InterestListener | None = None
        self._exact_match = exact_match
        self._exact = ShardedDict()
        self._trie = Trie()
        self._elsewhere = 0  # subscriptions in the two tries, that is, outside `_exact`
        self._count = 0
        self.remotes: SubList | None = None
        self._cache = ResultCache(cache_max, cache_sweep_to)
        self.recent = RecentMatches()
        self._prefix_results = PrefixResults()
        self._empty = EMPTY_RESULT
        self._mutex = Mutex()
        self._turn = 0
        self._inserts = 0
        self._removes = 0
        self._matches = 0
        self._cache_hits = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Subscription]:
        """Iterate over a snapshot of all subscriptions, in no particular order."""
        self._mutex.enter()
        try:
            found: list[Subscription] = []
            for held in (*self._exact.values(), *self._trie.nodes()):
                found.extend(_subscriptions_of(held))
        finally:
            self._mutex.leave()
        return iter(found)

    def insert(self, subscription: Subscription) -> SubListError | None:
        """Add `subscription`; return None, or the reason for a refusal, which changes nothing."""
        subject = subscription.subject
        self.steps += 1 + len(subject) // _READ_PER_STEP
        if not is_valid_subject(subject):
            return SubListError.INVALID_SUBJECT
        literal = is_literal(subject)
        self._mutex.enter()
        try:
            if subscription.slot >= 0:
                return SubListError.ALREADY_INSERTED
            if literal and self._exact_match:
                held = self._exact.get(subject)
                if held is None and subscription.queue is None:
                    self._exact.put(subject, subscription)
                    subscription.slot = 0
                    begins = True
                else:
                    begins = self._node_for(subject, held).add(subscription)
            else:
                visited = self._trie.visited
                node = self._trie.ensure(subject)
                self.steps += (self._trie.visited - visited) * _LEVEL_STEPS
                self._elsewhere += 1
                begins = node.add(subscription)
            self._count += 1
            self._inserts += 1
            self._changed(subject, literal, subscription)
        finally:
            self._mutex.leave()
        if self.listener is not None:
            if begins:
                self.listener.interest_began(subject, subscription.queue)
            elif subscription.queue is not None:
                self.listener.group_resized(subject, subscription.queue, subscription.slot + 1)
        return None

    def remove(self, subscription: Subscription) -> SubListError | None:
        """Remove `subscription`; return None, or NOT_FOUND when it is not in this SubList."""
        subject = subscription.subject
        self.steps += 1 + len(subject) // _READ_PER_STEP
        literal = is_literal(subject)
        visited = self._trie.visited
        self._mutex.enter()
        try:
            if literal and self._exact_match:
                held = self._exact.get(subject)
                if held is subscription:
                    self._exact.pop(subject)
                    subscription.slot = -1
                    outcome = ENDED
                else:
                    node = held if isinstance(held, Node) else None
                    outcome = NOT_HELD if node is None else node.discard(subscription)
                    if node is None or outcome == NOT_HELD:
                        return SubListError.NOT_FOUND
                    if node.is_empty():
                        self._exact.pop(subject)
            else:
                outcome = self._trie.discard(subscription)
                if outcome == NOT_HELD:
                    return SubListError.NOT_FOUND
                self._elsewhere -= 1
                self.steps += (self._trie.visited - visited) * _LEVEL_STEPS
            self._count -= 1
            self._removes += 1
            self._changed(subject, literal, None)
        finally:
            self._mutex.leave()
        if self.listener is not None:
            if outcome == ENDED:
                self.listener.interest_ended(subject, subscription.queue)
            elif subscription.queue is not None:
                members = self.count_members(subject, subscription.queue)
                self.listener.group_resized(subject, subscription.queue, members)
        return None

    def _changed(self, subject: bytes, literal: bool, added: Subscription | None) -> None:
        """Make stale results unusable, after `added` came or another subscription went."""
        self.generation += 1
        if self._cache.by_subject:
            if added is None:
                self.steps += self._cache.drop(subject, literal)
            else:
                self.steps += self._cache.add(added, literal)
        self.recent.clear()
        self._prefix_results.clear()

    def insert_remote(self, subscription: RemoteSubscription) -> SubListError | None:
        """Add interest behind a link; return None, or the reason for a refusal."""
        if self.remotes is None:
            self.remotes = SubList(cache_max=0, cache_sweep_to=0, exact_match=self._exact_match)
        steps = self.remotes.steps
        refusal = self.remotes.insert(subscription)
        self.steps += self.remotes.steps - steps
        if refusal is None:
            self._note_remote(subscription, 1)
        return refusal

    def remove_remote(self, subscription: RemoteSubscription) -> SubListError | None:
        """Remove interest behind a link; return None or NOT_FOUND."""
        if self.remotes is None:
            return SubListError.NOT_FOUND
        steps = self.remotes.steps
        refusal = self.remotes.remove(subscription)
        self.steps += self.remotes.steps - steps
        if refusal is None:
            self._note_remote(subscription, -1)
        return refusal

    def _note_remote(self, subscription: RemoteSubscription, change: int) -> None:
        """Drop the results that remote interest has made stale, and notify the listener."""
        subject, literal = subscription.subject, is_literal(subscription.subject)
        self._mutex.enter()
        try:
            if not (literal and self._exact_match):
                self._elsewhere += change
            self._changed(subject, literal, None)
        finally:
            self._mutex.leave()
        if self.listener is not None:
            self.listener.remote_changed(subject, subscription.queue)

    def count_members(self, subject: bytes, queue: bytes | None) -> int:
        """Count the subscriptions of exactly `subject`, plain or in the group `queue`."""
        self._mutex.enter()
        try:
            held = self._held(subject)
            if isinstance(held, Node):
                node = held
                return node.count(queue)
            return 1 if held is not None and queue is None else 0
        finally:
            self._mutex.leave()

    def _held(self, subject: bytes) -> Node | Subscription | None:
        """Return the node of exactly `subject`, the lone subscription in its place, or None."""
        if self._exact_match and is_literal(subject):
            held: Node | Subscription | None = self._exact.get(subject)
            return held
        return self._trie.at(subject)

    def _node_for(self, subject: bytes, held: Node | Subscription | None) -> Node:
        """Return the node of a literal subject, made now if it is not `held` yet."""
        if isinstance(held, Node):
            return held
        node = Node()
        if held is not None:
            node.add(held)
        self._exact.put(subject, node)
        return node

    def interest(self) -> list[tuple[bytes, bytes | None]]:
        """List each subject that has plain subscriptions, and each subject with each queue group.

        From then on `listener` is called for every change to this list.
        """
        self._mutex.enter()
        try:
            found: list[tuple[bytes, bytes | None]] = []
            for held in (*self._exact.values(), *self._trie.nodes()):
                found.extend(_interest_of(held))
            return found
        finally:
            self._mutex.leave()

    def walk(self) -> Iterator[list[tuple[bytes, bytes | None]]]:
        """Yield the entries of `interest`, a few nodes at a time, while subscriptions may change.

        An entry that is added or removed meanwhile may be yielded or not; `listener` is called for
        it.
        """
        for batch in self._walk():
            yield [interest for held in batch for interest in _interest_of(held)]

    def walk_subscriptions(self) -> Iterator[list[Subscription]]:
        """Yield the subscriptions likewise."""
        for batch in self._walk():
            yield [one for held in batch for one in _subscriptions_of(held) if one.slot >= 0]

    def _walk(self) -> Iterator[list[Node | Subscription]]:
        literals = (list(part.values()) for part in self._exact.parts())
        nodes = chain(chain.from_iterable(literals), self._trie.walk())
        while batch := list(islice(nodes, _WALKED_AT_ONCE)):
            yield batch

    def exactly(self, subject: bytes, queue: bytes | None) -> list[Subscription]:
        """List the subscriptions of exactly `subject`, plain or in the group `queue`."""
        self._mutex.enter()
        try:
            held = self._held(subject)
            if isinstance(held, Node):
                node = held
                return node.having(queue)
            return [held] if held is not None and queue is None else []
        finally:
            self._mutex.leave()

    def clear(self) -> None:
        """Drop all subscriptions at the end of a server, without calling `listener`."""
        self._mutex.enter()
        try:
            self._exact = ShardedDict()
            self._trie = Trie()
            self._cache.clear()
            self.remotes = None
            self._elsewhere = self._count = 0
            self.generation += 1
        finally:
            self._mutex.leave()
        self.recent.clear()
        self._prefix_results.clear()

    def match(self, subject: bytes) -> SubListResult:
        """Return the subscriptions that a message published to `subject` reaches.

        `subject` is read as a literal, even with wildcards. With an empty token it matches nothing.
        """
        self._matches += 1
        if self._elsewhere == 0 and not self._is_literal_of_remotes(subject):
            held = self._exact.get(subject)
            if held is None:
                self._cache_hits += 1
                return self._empty
            result = None
            if isinstance(held, Node):
                node = held
                result = node.result
        else:
            result = self._cache.by_subject.get(subject)
        if result is not None:
            self._cache_hits += 1
            return result
        if self._cache.skips_next():  # subjects hardly repeat
            result = self._prefix_results.find(subject, self.generation)
            if (
                result is not None
                and self._exact.get(subject) is None
                and not self._is_literal_of_remotes(subject)
            ):
                self._cache.skip()
                return result
        return self._match_uncached(subject)

    def match_within(self, data: bytearray | bytes, start: int, end: int) -> SubListResult:
        """Return the same as `match` for the subject in ``data[start:end]``."""
        result = self.recent.find(data, start, end, self.generation)
        return self.match_again(data, start, end) if result is None else result

    def match_again(self, data: bytearray | bytes, start: int, end: int) -> SubListResult:
        """Return the same as `match_within` for a subject that `recent` does not have."""
        self.steps += _MISS_STEPS
        subject = octets.take(data, start, end)
        generation = self.generation
        hits = self._cache_hits
        result = self.match(subject)
        if self._cache_hits > hits:  # the subject has repeated, and may do so again
            self.recent.keep(subject, result, generation)
        return result

    def has_interest(self, subject: bytes) -> bool:
        """Return whether a message published to `subject` reaches any subscription."""
        return bool(self.match(subject))

    def stats(self) -> SubListStats:
        """Return the counts; fan-out is taken from up to 1,024 cached results of each kind."""
        self._mutex.enter()
        try:
            remembered = list(islice(self._cache.by_subject.values(), _FAN_OUT_SAMPLE))
            for held in islice(self._exact.values(), _FAN_OUT_SAMPLE):
                if isinstance(held, Node) and held.result is not None:
                    remembered.append(held.result)
            cache_size = len(self._cache.by_subject)
        finally:
            self._mutex.leave()
        fan_outs = [result.fan_out() for result in remembered]
        return SubListStats(
            subscriptions=self._count,
            cache_size=cache_size,
            inserts=self._inserts,
            removes=self._removes,
            matches=self._matches + self.recent.hits,
            cache_hits=self._cache_hits + self.recent.hits,
            max_fan_out=max(fan_outs, default=0),
            average_fan_out=sum(fan_outs) / len(fan_outs) if fan_outs else 0.0,
        )

    def depth(self) -> int:
        """Count the levels of the trie that are in use."""
        self._mutex.enter()
        try:
            return self._trie.depth()
        finally:
            self._mutex.leave()

    def _is_literal_of_remotes(self, subject: bytes) -> bool:
        """Return whether a link has literal interest in exactly `subject`."""
        remotes = self.remotes
        return remotes is not None and remotes._exact.get(subject) is not None  # noqa: SLF001 - its own

    def _match_uncached(self, subject: bytes) -> SubListResult:
        """Build the result of `subject` under the lock, unless another thread has just done so."""
        self._mutex.enter()
        try:
            held = self._exact.get(subject)
            node = held if held is None or isinstance(held, Node) else self._node_for(subject, held)
            if self._elsewhere == 0 and not self._is_literal_of_remotes(subject):
                return self._empty if node is None else self._node_result(node)
            result = self._cache.by_subject.get(subject)
            if result is not None:
                return result
            visited = self._trie.visited
            nodes = self._trie.find(subject)
            self.steps += (self._trie.visited - visited) * _LEVEL_STEPS
            if node is not None:
                nodes.append(node)
            result = self._combined_result(nodes)
            if self.remotes is not None:
                result = result.with_remotes(self.remotes.match(subject))
            if self._cache.is_sampling() and node is None:
                self._keep_prefix(subject, result)
            self._cache.keep(subject, result, self._cache_hits + self.recent.hits)
            return result
        finally:
            self._mutex.leave()

    def _keep_prefix(self, subject: bytes, result: SubListResult) -> None:
        """Remember `result` for the subjects that share a prefix with `subject` and all have it.

        Both tries have just been walked for `subject`, the trie of remotes only if it has nodes.
        """
        start = self._trie.prefix_from
        is_last_token = self._trie.is_last_token
        remotes = self.remotes
        if remotes is not None:
            if remotes._exact.get(subject) is not None:  # noqa: SLF001 - its own
                return
            if remotes._elsewhere:  # noqa: SLF001
                trie = remotes._trie  # noqa: SLF001
                start = -1 if trie.prefix_from < 0 else max(start, trie.prefix_from)
                is_last_token = is_last_token or trie.is_last_token
        if self._trie.prefix_from >= 0 and start >= 0:
            self._prefix_results.keep(subject[:start], is_last_token, result, self.generation)

    def _combined_result(self, nodes: list[Node]) -> SubListResult:
        """Return the merged result of several nodes, or the own result of a single node."""
        if not nodes:
            return self._empty
        if len(nodes) == 1:
            return self._node_result(nodes[0])
        plain: list[Subscription] = []
        queues: dict[bytes, list[Subscription]] = {}
        for node in nodes:
            node.collect(plain, queues)
        self._turn += 1
        result = build_result(plain, queues, self._turn)
        self.steps += _steps_of(result)
        return result

    def _node_result(self, node: Node) -> SubListResult:
        """Return the result of one node, cached in the node until it changes."""
        result = node.result
        if result is None:
            plain: list[Subscription] = []
            queues: dict[bytes, list[Subscription]] = {}
            node.collect(plain, queues)
            self._turn += 1
            result = build_result(plain, queues, self._turn)
            self.steps += _steps_of(result)
            node.result = result
        return result


def _subscriptions_of(held: Node | Subscription) -> list[Subscription]:
    """List the subscriptions of a node, or the lone one in its place."""
    return held.subscriptions() if isinstance(held, Node) else [held]


def _interest_of(held: Node | Subscription) -> list[tuple[bytes, bytes | None]]:
    """List the interest of a node, or of the subscription in its place, unless it has gone."""
    if isinstance(held, Node):
        return held.interest()
    return [(held.subject, None)] if held.slot >= 0 else []


def _steps_of(result: SubListResult) -> int:
    """Return the number of steps that building `result` took."""
    return result.reach() // _PLAIN_PER_STEP + _GROUP_STEPS * len(result.queues)
