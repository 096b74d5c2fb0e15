"""The lines of the other server of a link, whatever their dialect: what its parser calls.

The `end` of the link decides on the handshake and on violations. What a link is to one account,
where messages go to and come from, is a Branch, called the source here.
"""

from typing import Any, cast

from midge.protocol import memory
from midge.protocol.frame import Frame, with_subject
from midge.protocol.handler import Handler
from midge.server.channels.charges import DELIVERY_BYTES, DELIVERY_IN_RUN_BYTES, STEP_BYTES
from midge.server.peers.link import Branch, Link
from midge.server.routing import trace_headers
from midge.server.routing.account import Account
from midge.server.routing.ack_replies import ACK_PREFIX, as_shown
from midge.server.routing.client import Client
from midge.server.routing.receivers import SERVED
from midge.sublist.result import Remotes, SubListResult
from midge.sublist.sublist import SubList
from midge.sublist.subscription import RemoteSubscription

_DELIVERY_BYTES = DELIVERY_BYTES  # C numbers where this is compiled
_DELIVERY_IN_RUN_BYTES = DELIVERY_IN_RUN_BYTES
_CARE_BYTES = 1024  # permissions, mappings and a copy of the frame
_TRACED_BYTES = 32 * 1024  # reading headers in plain Python, and reporting where a message went
_VIEW_BYTES = 64  # per named queue group, which is searched in the result
_PUB_BYTES = 4  # with its blank
_PONG = b"PONG\r\n"
_ACK_PREFIX = ACK_PREFIX  # a C variable where this is compiled


class LinkCommands(Handler):
    """Takes the lines that come over `link`, which the link itself sets; by itself, a leaf node's.

    With `maps`, the mappings of an account apply to messages. `branches` has the link's branches
    by their names.
    """

    def __init__(self, maps: bool) -> None:
        self.link = cast("Link", None)
        self.branches: dict[bytes, Any] = {}
        self._here: Branch | None = None
        self._here_name = b""
        self._maps = maps
        self._view: SubListResult | None = None
        self._view_of: SubList | None = None
        self._generation = 0
        self._is_unusual = False
        self._for_groups: list[bytes] | None = None
        self._names_every_group = False

    # The handshake, and what keeps the link alive.

    def sender(self) -> Link:
        """Return the link."""
        return self.link

    def on_budget_spent(self) -> None:
        """Draw more of this turn, or halt until the next one."""
        self.link.on_budget_spent()

    def on_connect(self, document: bytes) -> None:
        """Take the other server's introduction."""
        self.link.end.on_connect(self.link, document)

    def on_info(self, document: bytes) -> None:
        """Take what the other server says of itself, at first and when that changes."""
        self.link.end.on_info(self.link, document)

    def on_peer_error(self, text: bytes) -> None:
        """Take the other server's word that something is wrong."""
        self.link.end.on_peer_error(self.link, text)

    def on_ping(self) -> None:
        """Answer."""
        self.link.send(_PONG)

    def on_pong(self) -> None:
        """Take the answer to a PING."""
        self.link.answered()

    # Branches, and interest.

    def on_link_subscribe(self, subject: bytes, queue: bytes | None, weight: int) -> None:
        """Note the other server's interest, or that a queue group has another weight."""
        link, here = self.link, self.present()
        if here is None or not link.is_ready:
            return
        is_leaf = not here.name
        if not is_leaf or not link.end.ends_for(link, subject):
            origin = here.origin
            is_last_choice = is_leaf or bool(origin)
            remote = RemoteSubscription(subject, queue, here, weight, origin, is_last_choice)
            link.announced.begin(link, here, remote)

    def on_link_unsubscribe(self, subject: bytes, queue: bytes | None) -> None:
        """Forget interest of the other server."""
        here = self.present()
        if here is not None:
            self.link.announced.end(self.link, here, subject, queue, here.origin)

    def carry(self, account: Account) -> Branch:
        """Return a new branch for the only account of the link; it takes no messages before."""
        self._here = self.branches[b""] = Branch(self.link, account, b"")
        return self._here

    def branch(self, name: bytes) -> Any:
        """Return the branch of the account called `name`, made now if necessary.

        None, if the other server names too many accounts that are not here.
        """
        found = self.branches.get(name)
        if found is None:
            found = self.make_branch(name)
            if found is not None:
                self.branches[name] = found
        return found

    def make_branch(self, name: bytes) -> Branch | None:
        """Return a new branch for the account called `name`, or None."""
        return None

    def named(self, name: bytes) -> Any:
        """Return the branch of the account that the current line names."""
        if name is not self._here_name or self._here is None:
            self._here = self.branch(name)
            self._here_name = name
        return self._here

    def account_of_lines(self) -> Account | None:
        """Return the account of the next PUBs, or None if each of them must be checked."""
        return None

    def lost(self) -> None:
        """Drop all references: the transport is gone."""
        self._view = None
        self._here = None
        self.branches.clear()

    # Messages.

    def present(self) -> Branch | None:
        """Return the branch that the current line belongs to; None ignores the line."""
        return self._here

    def source_of(self, frame: Frame) -> Branch | None:
        """Return the branch that a message without, or with one, queue group is of; likewise."""
        return self.present()

    def on_publish(self, frame: Frame) -> None:
        """Route a message to plain subscriptions, or to a queue group that its line names."""
        source = self.source_of(frame)
        if source is not None:
            self.take(source, frame)

    def on_publish_run(self, frame: Frame, count: int) -> int:
        """Route messages that differ in their payloads only; return how many."""
        source = self.source_of(frame)
        return count if source is None else self.take_run(source, frame, count)

    def on_link_message(self, frame: Frame, queues: list[bytes]) -> None:
        """Route a message that is for a member of each of `queues` too."""
        source = self.present()
        if source is not None:
            self.take_for(source, frame, queues)

    def take(self, source: Client, frame: Frame) -> None:
        """Route a message to plain subscriptions and to the queue groups that its line names."""
        self.link.in_messages += 1
        self.link.in_bytes += frame.size
        if not frame.repeated:
            self._view = None
            self._for_groups = self._queues_of(frame)
            self._is_unusual = self._needs_care(source.account, frame)
        is_traced = frame.header_size >= 0 and self._take_traced(source, frame, self._for_groups)
        if self._is_unusual and not is_traced:
            self._take_with_care(source, frame, self._for_groups, None)
        elif not is_traced:
            self._route(source, self._match(source, frame), frame)

    def take_run(self, source: Client, frame: Frame, count: int) -> int:
        """Route messages that differ in their payloads only; return how many."""
        if frame.header_size >= 0:
            count = trace_headers.count_untraced(frame, count)
        if count and not self._is_unusual:
            view = self._match(source, frame)
            deliveries = view.count_run_deliveries() * (frame.end + _DELIVERY_IN_RUN_BYTES)
            cost = deliveries + frame.end  # which the parser charges
            if not self.link.channel.reading.may_spend(cost * count):
                count = max(self.link.parser.budget // cost + 1, 1)
            taken = self.link.router.route_run(source.account, view, source, frame, count)
            if taken:
                self.link.in_messages += taken
                self.link.in_bytes += taken * frame.size
                self.link.spend(deliveries * taken)
                return taken
        self.take(source, frame)
        return 1

    def take_for(self, source: Client, frame: Frame, queues: list[bytes]) -> None:
        """Route a message that is for a member of each of `queues` too."""
        self.link.in_messages += 1
        self.link.in_bytes += frame.size
        self._view = None
        self._for_groups = queues
        if frame.header_size >= 0 and self._take_traced(source, frame, queues):
            return
        if self._needs_care(source.account, frame):
            self._take_with_care(source, frame, queues, None)
            return
        found = self._found(source.account.sublist, frame)
        self._route(source, self._view_for(source, found, queues), frame)

    def names_group(self, name: bytes) -> bool:
        """Return whether the current line is for the queue group `name`.

        A message that a mapping changes is for every group, as on nats-server: the sending server
        knows the groups of the original subject, not the groups of the mapped one.
        """
        if self._names_every_group:
            return name != SERVED
        return self._for_groups is not None and name in self._for_groups

    def _queues_of(self, frame: Frame) -> list[bytes] | None:
        """Return the queue groups that the current line names; a PUB or HPUB names none."""
        if frame.header_size >= 0 or frame.subject_start <= _PUB_BYTES:
            return None
        return self.link.parser.queues

    def _needs_care(self, account: Account, frame: Frame) -> bool:
        """Return whether anything may forbid or change `frame`."""
        if not self.link.is_ready or self.link.take_rules is not None:
            return True
        if self._maps and account.mapper is not None:
            return True
        return frame.reply_end > frame.reply_start and memory.starts_with(
            frame.data, frame.base + frame.reply_start, frame.base + frame.reply_end, _ACK_PREFIX
        )

    def _take_traced(self, source: Client, frame: Frame, queues: list[bytes] | None) -> bool:
        """Route a message with headers that is traced; False where none of them asks for that."""
        if trace_headers.count_untraced(frame, 1):
            return False
        self.link.spend(_TRACED_BYTES)
        trace = self.link.broker.traces.begin_on_link(source, frame) if self.link.is_ready else None
        if trace is None:
            return False
        if not trace.is_void:
            self._take_with_care(source, frame, queues, trace)
            trace.send()
        return True

    def _take_with_care(
        self, source: Client, frame: Frame, queues: list[bytes] | None, trace: Any
    ) -> None:
        """Route `frame` unless it must not be taken, as its subject is mapped, and as it shows.

        With `trace`, that follows it.
        """
        if not self.link.is_ready:
            return
        subject = frame.subject_bytes()
        self.link.spend(_CARE_BYTES)
        if self.link.take_rules is not None and not self._may_take(subject):
            self.link.end.refuse_message(self.link, subject)
            return
        mapper = source.account.mapper if self._maps else None
        is_mapped = False
        if mapper is not None:
            mapped = mapper.map(subject)
            if mapped is None:
                return
            if mapped != subject:
                frame = with_subject(frame, mapped)
                is_mapped = True
        found = self._found(source.account.sublist, frame)
        if queues is not None:
            view = self._view_for(source, found, queues)
        elif is_mapped:
            view = full_view(source, found)
        else:
            view = plain_view(source, found)
        if trace is not None:
            trace.go_on(subject, frame.subject_bytes(), None)
        self._names_every_group = is_mapped and queues is None
        try:
            self._route_as_shown(source, view, frame, trace)
        finally:
            self._names_every_group = False

    def _route_as_shown(
        self, source: Client, view: SubListResult, frame: Frame, trace: Any
    ) -> None:
        """Deliver `frame` to those in `view`: over links as it came, to clients as they see it.

        With `trace`, that delivers it.
        """
        shown = as_shown(frame)
        links = self.link.broker.admission.links
        before = links.delivery
        if shown is not frame:
            links.delivery = (shown, frame.subject_bytes())
        offers = self.link.router.offers
        try:
            if trace is not None:
                taken = trace.route(view, shown, frame)
            elif shown is frame:
                self.link.router.route(source.account, view, source, frame)
            else:
                self.link.router.route_in_two_forms(source.account, view, source, shown, frame)
            if trace is None:
                taken = self.link.router.offers - offers
        finally:
            links.delivery = before
        self.link.spend(taken * (frame.end + _DELIVERY_BYTES))

    def _may_take(self, subject: bytes) -> bool:
        rules = self.link.take_rules
        return (
            rules is None
            or rules.may_publish(subject)
            or (
                rules.allows_responses
                and rules.use_response(subject, self.link.broker.clock.monotonic())
            )
        )

    def _route(self, source: Client, view: SubListResult, frame: Frame) -> None:
        """Deliver `frame` to those in `view`, which is charged."""
        offers = self.link.router.offers
        self.link.router.route(source.account, view, source, frame)
        self.link.spend((self.link.router.offers - offers) * (frame.end + _DELIVERY_BYTES))

    def _found(self, sublist: SubList, frame: Frame) -> SubListResult:
        """Return the subscriptions that match the subject of `frame`."""
        start = frame.base + frame.subject_start
        steps = sublist.steps
        found = sublist.match_within(frame.data, start, frame.base + frame.subject_end)
        if sublist.steps != steps:
            self.link.spend((sublist.steps - steps) * STEP_BYTES)
        return found

    def _match(self, source: Client, frame: Frame) -> SubListResult:
        """Return the receivers of the current message; found once for repeated lines."""
        sublist = source.account.sublist
        view = self._view
        if view is None or self._generation != sublist.generation or self._view_of is not sublist:
            self._generation = sublist.generation
            self._view_of = sublist
            found = self._found(sublist, frame)
            if self._for_groups is None:
                view = plain_view(source, found)
            else:
                view = self._view_for(source, found, self._for_groups)
            self._view = view
        return view

    def _view_for(self, source: Client, found: SubListResult, queues: list[bytes]) -> SubListResult:
        """Return what a message for these queue groups reaches."""
        self.link.spend(_VIEW_BYTES * (len(queues) + len(found.queues)))
        return view_for(source, found, queues)


# What a message from a link reaches, of the subscriptions that match its subject: plain ones, and a
# member of each queue group that its line names. It goes on over those links to which its source
# `reaches`, see routing/passage.py.


def plain_view(source: Client, found: SubListResult) -> SubListResult:
    """Return what a message without queue groups reaches: no member of any."""
    if not found.queues and found.remotes is None:
        return found
    return SubListResult(found.plain, (), _others(source, found.remotes, None))


def full_view(source: Client, found: SubListResult) -> SubListResult:
    """Return what a message for every queue group reaches."""
    if found.remotes is None:
        return found
    named = {group.name for group in found.remotes.queues}
    return SubListResult(found.plain, found.queues, _others(source, found.remotes, named))


def view_for(source: Client, found: SubListResult, queues: list[bytes]) -> SubListResult:
    """Return what a message for these queue groups reaches."""
    only: tuple[Any, ...] = found.queues
    if len(only) == len(queues) == 1 and found.remotes is None and only[0].name == queues[0]:
        return found
    named = set(queues)
    groups = tuple([group for group in found.queues if group.name in named])
    return SubListResult(found.plain, groups, _others(source, found.remotes, named))


def _others(source: Client, remotes: Remotes | None, named: set[bytes] | None) -> Remotes | None:
    """Return the links that a message of `source` goes on to; None without any."""
    if remotes is None:
        return None
    plain = tuple([link for link in remotes.plain if source.reaches(link, "")])
    groups: tuple[Any, ...] = ()
    if named and remotes.queues:
        groups = tuple([group for group in remotes.queues if group.name in named])
    return Remotes(plain, groups) if plain or groups else None
