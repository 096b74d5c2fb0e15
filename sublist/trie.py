"""The trie of subscriptions: one level of nodes per token, with nodes for `*` and `>`."""

from collections.abc import Iterator

from midge.sublist.result import QueueGroup, SubListResult
from midge.sublist.subjects import has_empty_token
from midge.sublist.subscription import Subscription

_DOT = 0x2E

NOT_HELD = 0
LEFT = 1
ENDED = 2
"""Outcomes of removing a subscription: it was not found, others of its kind are left, or it was the
last one."""

_NOT_HELD, _LEFT, _ENDED = NOT_HELD, LEFT, ENDED  # C numbers where this is compiled


class Node:
    """The subscriptions of exactly one subject, and the level below it in the trie.

    Most subjects have a single subscription: it is `only`, and needs no list. Otherwise a
    subscription's `slot` is its index in its list, so that adding and removing take constant time,
    however many subscriptions share the subject. The order within a list has no meaning.
    """

    __slots__ = ("below", "only", "plain", "queues", "result")

    def __init__(self) -> None:
        self.only: Subscription | None = None
        self.plain: list[Subscription] | None = None
        self.queues: dict[bytes, list[Subscription]] | None = None
        self.below: Level | None = None
        self.result: SubListResult | None = None

    def add(self, subscription: Subscription) -> bool:
        """Add `subscription`, which must be in no node yet; return whether it is the first one.

        That is the first plain subscription, or the first of its queue group.
        """
        self.result = None
        queue = subscription.queue
        if queue is not None:
            if self.queues is None:
                self.queues = {}
            members = self.queues.get(queue)
            if members is None:
                members = []
                self.queues[queue] = members
        else:
            if self.plain is None:
                if self.only is None:
                    self.only = subscription
                    subscription.slot = 0
                    return True
                self.plain = [self.only]
                self.only = None
            members = self.plain
        subscription.slot = len(members)
        members.append(subscription)
        return subscription.slot == 0

    def discard(self, subscription: Subscription) -> int:
        """Remove `subscription`; return NOT_HELD, LEFT or ENDED.

        ENDED means that it was the last plain subscription, or the last of its queue group, and
        NOT_HELD that this node does not have it.
        """
        if self.only is subscription:
            self.only = None
            self.result = None
            subscription.slot = -1
            return _ENDED
        members = self._members(subscription.queue)
        slot = subscription.slot
        if members is None or slot < 0 or slot >= len(members):
            return _NOT_HELD
        if members[slot] is not subscription:
            return _NOT_HELD
        last = members.pop()
        if last is not subscription:
            members[slot] = last
            last.slot = slot
        subscription.slot = -1
        self.result = None
        if members:
            return _LEFT
        self._drop(subscription.queue)
        return _ENDED

    def count(self, queue: bytes | None) -> int:
        """Count the plain subscriptions, or the members of the group `queue`."""
        if queue is None and self.only is not None:
            return 1
        members = self._members(queue)
        return 0 if members is None else len(members)

    def is_inhabited(self) -> bool:
        """Return whether the node has a subscription."""
        return self.only is not None or self.plain is not None or self.queues is not None

    def is_empty(self) -> bool:
        """Return whether the node has neither a subscription nor a level below it."""
        return self.below is None and not self.is_inhabited()

    def interest(self) -> list[tuple[bytes, bytes | None]]:
        """List the subject for the plain subscriptions, and with the name of each queue group."""
        found: list[tuple[bytes, bytes | None]] = []
        if self.only is not None:
            found.append((self.only.subject, None))
        elif self.plain is not None:
            found.append((self.plain[0].subject, None))
        for name, members in (self.queues or {}).items():
            found.append((members[0].subject, name))
        return found

    def subscriptions(self) -> list[Subscription]:
        """List the subscriptions of this node."""
        found = list(self.plain or ())
        if self.only is not None:
            found.append(self.only)
        for members in (self.queues or {}).values():
            found.extend(members)
        return found

    def having(self, queue: bytes | None) -> list[Subscription]:
        """List the plain subscriptions, or the members of the group `queue`."""
        if queue is None and self.only is not None:
            return [self.only]
        return list(self._members(queue) or ())

    def collect(self, plain: list[Subscription], queues: dict[bytes, list[Subscription]]) -> None:
        """Add the subscriptions of this node to `plain` and, by group name, to `queues`."""
        if self.only is not None:
            plain.append(self.only)
        elif self.plain is not None:
            plain.extend(self.plain)
        if self.queues is not None:
            for name, members in self.queues.items():
                known = queues.get(name)
                if known is None:
                    queues[name] = list(members)
                else:
                    known.extend(members)

    def _members(self, queue: bytes | None) -> list[Subscription] | None:
        if queue is None:
            return self.plain
        if self.queues is None:
            return None
        return self.queues.get(queue)

    def _drop(self, queue: bytes | None) -> None:
        if queue is None:
            self.plain = None
        elif self.queues is not None:
            del self.queues[queue]
            if not self.queues:
                self.queues = None


class Level:
    """The nodes that one more token leads to: by literal token, for ``*`` (pwc) and ``>`` (fwc)."""

    __slots__ = ("fwc", "nodes", "pwc")

    def __init__(self) -> None:
        self.nodes: dict[bytes, Node] = {}
        self.pwc: Node | None = None
        self.fwc: Node | None = None

    def __dealloc__(self) -> None:
        """Dismantle the levels below from the top; otherwise deallocation would recurse in C."""
        if self.is_empty():
            return
        levels = [self]
        while levels:
            level = levels.pop()
            for node in (*level.nodes.values(), level.pwc, level.fwc):
                if node is not None and node.below is not None:
                    levels.append(node.below)
                    node.below = None

    def find(self, token: bytes) -> Node | None:
        """Return the node of `token`, a wildcard or a literal."""
        if token == b"*":
            return self.pwc
        if token == b">":
            return self.fwc
        return self.nodes.get(token)

    def ensure(self, token: bytes) -> Node:
        """Return the node of `token`; make it if there is none."""
        node = self.find(token)
        if node is None:
            node = Node()
            if token == b"*":
                self.pwc = node
            elif token == b">":
                self.fwc = node
            else:
                self.nodes[token] = node
        return node

    def prune(self, token: bytes) -> None:
        """Drop the node of `token`."""
        if token == b"*":
            self.pwc = None
        elif token == b">":
            self.fwc = None
        else:
            del self.nodes[token]

    def is_empty(self) -> bool:
        """Return whether the level has no node."""
        return self.pwc is None and self.fwc is None and not self.nodes


class Trie:
    """Subscriptions by subject, token by token.

    Every walk is a loop, so that the stack does not limit the depth. `visited` counts visited
    levels; a level that a walk makes or drops counts twice. `prefix_from` is an index into the
    subject of the last `find`: all valid subjects that share the bytes before it have the same
    result, or with `is_last_token` all those with exactly one token behind these bytes. It is -1
    if the result depends on the whole subject.
    """

    __slots__ = ("_root", "is_last_token", "prefix_from", "visited")

    def __init__(self) -> None:
        self._root = Level()
        self.visited = 0
        self.prefix_from = -1
        self.is_last_token = False

    def ensure(self, subject: bytes) -> Node:
        """Return the node of `subject`; make the missing part of the path to it."""
        level = self._root
        tokens = subject.split(b".")
        self.visited += len(tokens)
        node = level.ensure(tokens[0])
        for i in range(1, len(tokens)):
            if node.below is None:
                self.visited += 1
                node.below = Level()
            level = node.below
            node = level.ensure(tokens[i])
        return node

    def at(self, subject: bytes) -> Node | None:
        """Return the node of exactly `subject`, which may have wildcards, or None."""
        level: Level | None = self._root
        node = None
        for token in subject.split(b"."):
            node = None if level is None else level.find(token)
            if node is None:
                return None
            level = node.below
        return node

    def discard(self, subscription: Subscription) -> int:
        """Remove `subscription` and prune empty nodes; return the outcome of `Node.discard`."""
        tokens = subscription.subject.split(b".")
        self.visited += len(tokens)
        levels = [self._root]
        path: list[Node] = []
        for token in tokens:
            node = levels[-1].find(token)
            if node is None:
                return _NOT_HELD
            path.append(node)
            if len(path) < len(tokens):
                if node.below is None:
                    return _NOT_HELD
                levels.append(node.below)
        outcome = path[-1].discard(subscription)
        if outcome == _NOT_HELD:
            return _NOT_HELD
        for depth in range(len(path) - 1, -1, -1):
            if not path[depth].is_empty():
                break
            self.visited += 1
            levels[depth].prune(tokens[depth])
            if depth and levels[depth].is_empty():
                path[depth - 1].below = None
        return outcome

    def find(self, subject: bytes) -> list[Node]:  # noqa: C901, PLR0912 - one scan loop
        """List the nodes that match the literal `subject`.

        Follows one path at a time and keeps the others in a list. Each node is visited at most
        once, however many wildcards there are. A subject with an empty token matches nothing.
        """
        found: list[Node] = []
        self.prefix_from = -1
        self.is_last_token = False
        length = len(subject)
        if length == 0 or has_empty_token(subject):
            return found
        data = subject
        others: list[tuple[Level, int]] = []
        is_only_path = True
        level = self._root
        start = 0
        while True:
            end = start
            while end < length and data[end] != _DOT:
                end += 1
            if is_only_path and not level.nodes:
                if level.pwc is None:
                    self.prefix_from = start
                elif end == length:
                    self.prefix_from = start
                    self.is_last_token = True
            below = None
            self.visited += 1
            if level.fwc is not None and level.fwc.is_inhabited():
                found.append(level.fwc)
            node = level.pwc
            if node is not None:
                if end < length:
                    below = node.below
                elif node.is_inhabited():
                    found.append(node)
            if level.nodes:
                node = level.nodes.get(data[start:end])
                if node is not None:
                    if end == length:
                        if node.is_inhabited():
                            found.append(node)
                    elif below is None:
                        below = node.below
                    elif node.below is not None:
                        others.append((node.below, end + 1))
                        is_only_path = False
            if below is not None:
                level = below
                start = end + 1
            elif others:
                level, start = others.pop()
            else:
                if is_only_path and self.prefix_from < 0 and end < length:
                    self.prefix_from = end + 1  # nothing matches beyond this token
                return found

    def nodes(self) -> list[Node]:
        """List every node, in no particular order."""
        found: list[Node] = []
        levels = [self._root]
        while levels:
            level = levels.pop()
            here = list(level.nodes.values())
            if level.pwc is not None:
                here.append(level.pwc)
            if level.fwc is not None:
                here.append(level.fwc)
            found.extend(here)
            levels.extend(node.below for node in here if node.below is not None)
        return found

    def walk(self) -> Iterator[Node]:
        """Yield every node, level by level, while nodes may come and go."""
        levels = [self._root]
        while levels:
            level = levels.pop()
            for node in (*level.nodes.values(), level.pwc, level.fwc):
                if node is not None:
                    yield node
                    if node.below is not None:
                        levels.append(node.below)

    def depth(self) -> int:
        """Count the levels on the longest path that holds a node."""
        deepest = 0
        levels = [] if self._root.is_empty() else [(self._root, 1)]
        while levels:
            level, depth = levels.pop()
            deepest = max(deepest, depth)
            for node in (*level.nodes.values(), level.pwc, level.fwc):
                if node is not None and node.below is not None:
                    levels.append((node.below, depth + 1))
        return deepest


def build_result(
    plain: list[Subscription], queues: dict[bytes, list[Subscription]], turn: int
) -> SubListResult:
    """Freeze the subscriptions that a walk collected; each queue group's round starts at `turn`."""
    if not queues:
        return SubListResult(tuple(plain))
    groups = [QueueGroup(name, tuple(members), turn) for name, members in queues.items()]
    return SubListResult(tuple(plain), tuple(groups))
