"""An imported stream: its messages go on in the importer's account, once over each link."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

from midge.protocol.frame import Frame, with_subject
from midge.server.accounts.link_context import across, may_cross
from midge.server.accounts.plan import inverse_of
from midge.server.routing.ack_replies import as_sent
from midge.server.routing.passage import STREAM
from midge.server.routing.receivers import AFTER_ALL, CarriedGroup
from midge.server.routing.role import Role
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist.result import QueueGroup, Remotes, SubListResult
from midge.sublist.subjects import common, covers, overlaps

if TYPE_CHECKING:
    from midge.server.accounts.link_context import LinkContext
    from midge.server.accounts.plan import StreamImport
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client
    from midge.sublist.transform import Transform


class OpenTrace(Protocol):
    """The trace of one message that asks for it, in its own account and in others.

    `is_void` says that the message goes nowhere, `refusal` is the -ERR for a destination that is
    not allowed, or None. The subject `destination` is where other servers publish their traces, in
    the account that the message comes from. With `is_only`, the message itself is not delivered.
    `hops` counts the links that it has gone over.
    """

    is_void: bool
    refusal: str | None
    destination: bytes
    is_only: bool
    hops: int

    def go_on(self, subject: bytes, target: bytes, refusal: str | None) -> None:
        """Record that mappings turn `subject` into `target`, and the refusal unless None."""

    def route(self, result: SubListResult, frame: Frame) -> int:
        """Deliver `frame`, or only report the receivers; return their number."""

    def send(self) -> None:
        """Publish the trace."""

    def route_imported(
        self, link: StreamLink, result: SubListResult, frame: Frame, over: Frame | None
    ) -> int:
        """Deliver `frame`, and report the import with each receiver; return their number."""

    def forward_imported(
        self, link: StreamLink, remote: Client, frame: Frame, queues: list[bytes] | None
    ) -> bool:
        """Send `frame` over the link `remote`, and report the import; return whether it goes."""

    def route_led_back(self, way: bytes, result: SubListResult, frame: Frame) -> int:
        """Deliver a request; other servers publish their traces to `way`. Return the receivers."""


class StreamLink(RoutedSubscription):
    """Delivers the messages of an exported stream to `importer`."""

    def __init__(self, links: LinkContext, plan: StreamImport, importer: Account) -> None:
        RoutedSubscription.__init__(self, plan.source)
        self._links = links
        self.plan = plan
        self._transform = plan.transform
        self.importer = importer
        self.allows_trace = plan.allows_trace
        self._turn = 0

    @cached_property
    def _back(self) -> Transform:
        """What turns the importer's subjects into the exporter's."""
        return inverse_of(self._transform)

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        """Route `frame` in the importer's account; False when it has no plain receiver there.

        Queue groups are left to the router.
        """
        links = self._links
        if links.carrying is not None or not may_cross(publisher, STREAM):
            return False
        by = links.delivered_by(frame)
        subject = self.importers_subject(frame.subject_bytes() if by is None else by)
        result = across(self.importer.sublist.match(subject), publisher, STREAM)
        if not result:
            return False
        seen = with_subject(frame, subject) if by is None else frame
        over = None if by is None or result.remotes is None else as_sent(frame, subject)
        remotes = result.remotes
        behind: tuple[QueueGroup, ...] = () if remotes is None else remotes.queues
        plain_links: tuple[Any, ...] = () if remotes is None else remotes.plain
        reached = tuple([_marked(link) for link in plain_links])
        crossing = None
        if behind:
            crossing = Crossing(self, reached, publisher, over or seen, links.trace)
        if result.queues or behind:
            self._carry_groups(result, publisher, frame, seen, behind, crossing)
        over_links = Remotes(reached) if reached and crossing is None else None
        plain = SubListResult(result.plain, (), over_links)
        taken = self._route(plain, seen, publisher, over) if plain else 0
        return taken > 0 or (crossing is not None and bool(reached))

    def _carry_groups(
        self,
        result: SubListResult,
        publisher: Client | None,
        frame: Frame,
        seen: Frame,
        behind: tuple[QueueGroup, ...],
        crossing: Crossing | None,
    ) -> None:
        """Make the router choose among the members of the queue groups in `result` and `behind`."""
        self._turn += 1
        carry, trace, turn = self._links.carry, self._links.trace, self._turn
        for group in result.queues:
            if publisher is None or publisher.names_group(group.name):
                deliver = partial(self._route_to_group, group, seen, publisher)
                if trace is not None:
                    deliver = partial(self._deliver_traced, trace, deliver)
                carry(CarriedGroup(frame, group.name, len(group.members), deliver, turn))
        if crossing is None:
            return
        for group in behind:
            if publisher is None or publisher.names_group(group.name):
                far: tuple[Any, ...] = group.members
                for one in far:
                    deliver = partial(crossing.name, one.remote, group.name)
                    is_last = one.is_last_choice
                    carried = CarriedGroup(
                        frame, group.name, one.weight, deliver, turn, is_last_choice=is_last
                    )
                    carry(carried)
        carry(CarriedGroup(frame, AFTER_ALL, 0, crossing.go, turn))

    def _deliver_traced(self, trace: OpenTrace, deliver: Callable[[], bool]) -> bool:
        """Call `deliver` for a traced message, which this link has received before."""
        self._links.trace = trace
        try:
            return deliver()
        finally:
            self._links.trace = None

    def _route_to_group(self, group: QueueGroup, seen: Frame, publisher: Client | None) -> bool:
        return self._route(SubListResult((), (group,)), seen, publisher) > 0

    def _route(
        self,
        result: SubListResult,
        seen: Frame,
        publisher: Client | None,
        over: Frame | None = None,
    ) -> int:
        """Route `seen` in the importer's account, and through no other import.

        Links get `over`, where that is another form of it.
        """
        links = self._links
        before, links.carrying = links.carrying, StreamLink
        trace: OpenTrace | None = links.trace
        links.trace = None
        try:
            if trace is not None:
                return trace.route_imported(self, result, seen, over)
            return links.route(self.importer, result, seen, publisher, over)
        finally:
            links.carrying, links.trace = before, trace

    def importers_subject(self, subject: bytes) -> bytes:
        """Return the importer's subject for messages to `subject` in the exporter's account."""
        rewritten: bytes = self._transform.rewrite(subject)
        return rewritten

    def exporters_subject(self, subject: bytes) -> bytes | None:
        """Return what the importer's `subject` means in the exporter's account; None for nothing.

        A subject that is wider than the import means as much of it as both have in common.
        """
        local = self.plan.target
        if not covers(local, subject):
            if not overlaps(local, subject):
                return None
            subject = common(local, subject)
        meant: bytes = self._back.rewrite(subject)
        return meant

    def trace_events(self, frame: Frame) -> list[dict[str, Any]]:
        """Return a trace event for each receiver of `frame` in the importer's account."""
        if self._links.carrying is not None:
            return []
        subject = self._transform.rewrite(frame.subject_bytes())
        count = self.importer.sublist.match(subject).fan_out()
        return [self.import_event(subject)] * count

    def import_event(self, subject: bytes) -> dict[str, Any]:
        """Return the trace event of a message that the importer sees as one to `subject`."""
        return {"type": "se", "acc": self.importer.name, "to": subject.decode(errors="replace")}


class Crossing:
    """The links that a message goes over in an importer's account, once over each.

    `links` have plain interest in it. Messages to the routers of other workers are marked, because
    workers must not forward them to other servers of a cluster, which have the import themselves.
    """

    def __init__(
        self,
        stream: StreamLink,
        links: tuple[Client, ...],
        publisher: Client | None,
        seen: Frame,
        trace: OpenTrace | None,
    ) -> None:
        self._stream = stream
        self._publisher = publisher
        self._seen = seen
        self._trace = trace
        self._names: dict[Any, list[bytes] | None] = dict.fromkeys(links)

    def name(self, link: Client, queue: bytes) -> bool:
        """Add the queue group `queue` to those that get the message behind `link`; True."""
        marked = _marked(link)
        self._names[marked] = [*(self._names.get(marked) or ()), queue]
        return True

    def go(self) -> bool:
        """Send the message; False, for what takes it has been counted."""
        for link, queues in self._names.items():
            if self._trace is None:
                link.forward(self._publisher, self._seen, queues)
            else:
                self._trace.forward_imported(self._stream, link, self._seen, queues)
        return False


def _marked(link: Any) -> Client:
    """Return `link`, or what marks messages over it as carried by an import."""
    marked: Client = link.carried() if link.role == Role.WORKER else link
    return marked
