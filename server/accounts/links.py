"""Links that carry messages between accounts, as the plan of their imports says.

Each import is one subscription in the account that messages come from; its messages are routed
again in the other account, under the subject that the import defines. A request gets a reply
subject of its own, which leads the exporter's response back; it can be used as often as the export
allows, for a limited time, and cannot be guessed. No message crosses in any other way.
"""

from __future__ import annotations

import base64
import os
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from midge.protocol.frame import Frame, compose, with_subject
from midge.server.accounts.mapping import Mappings
from midge.server.routing.over_links import AFTER_ALL, CarriedGroup, pick_link
from midge.server.routing.reserved import REPLY_PREFIX
from midge.server.routing.role import BEHIND_ROUTES, Role
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist.result import QueueGroup, Remotes, SubListResult

if TYPE_CHECKING:
    from random import Random

    from midge.server.accounts.plan import (
        AccountPlan,
        ImportPlan,
        ServiceImport,
        StreamImport,
    )
    from midge.server.clock import Clock
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client

REQUESTS_MAX = 65536
"""Most unanswered requests of one import; a further one evicts the oldest."""

REPLIES_MAX_BYTES = 8 << 20
"""Most bytes of the reply subjects of those requests: clients choose their length."""

_REQUEST_INFO = rb"(?i)(?:\r\n|\r|\n)[ \t]*nats-request-info[ \t]*:[^\r\n]*"
_STATUS_LINE = b"NATS/1.0"
_INFO_FIELDS = (
    *("start", "host", "id", "acc", "svc", "user", "name", "lang", "ver", "rtt", "server"),
    *("kind", "client_type"),
)
"""Fields of ``Nats-Request-Info``, in nats-server's order."""


RouteFrame = Callable[["Account", "SubListResult", Frame, "Client | None"], int]
"""Routes a frame of `publisher` to the subscriptions in a result."""

Carry = Callable[[CarriedGroup], object]
"""Takes a queue group that a message has reached, for the router to choose a member."""

Describe = Callable[["Client | None"], dict[str, Any]]
"""Returns the fields about a requesting client that a sharing import passes on."""


class AccountLinks:
    """The links between the accounts of one server, changed by plan."""

    def __init__(
        self,
        route: RouteFrame,
        clock: Clock,
        random: Random,
        account: Callable[[str], Account],
        describe: Describe,
        carry: Carry,
    ) -> None:
        """Deliver with `route` and `carry`; `account` returns the account of a name."""
        self.route = route
        self.carry = carry
        self.clock = clock
        self.describe = describe
        self.random = random
        self._account = account
        self.plans: dict[str, AccountPlan] = {}
        self.applied: Callable[[], object] = lambda: None
        """Called when other plans are in force."""
        self._links: dict[ImportPlan, RoutedSubscription] = {}
        self._carried: Counter[tuple[str, bytes]] = Counter()
        self._streams: dict[str, list[StreamLink]] = {}
        self.evicted_requests = 0  # unanswered requests that a further one evicted
        self.carrying: type[RoutedSubscription] | None = None
        """The kind of link that the current message has crossed. Only requests may cross further
        links, and only of services: a message of an imported stream is for that importer alone, and
        streams do not export the requests to a service.
        """
        self.delivery: tuple[Frame, bytes] | None = None
        """The message that JetStream delivers, and the subject by which it does. It shows another
        one and its ack subject, and both stay as they are across links.
        """
        self.request_info: dict[str, Any] = {}
        """The requester's fields that a service on the current request's way has received."""

    def apply(self, plans: Mapping[str, AccountPlan]) -> None:
        """Apply `plans`; links that stay the same are not touched."""
        wanted: dict[ImportPlan, None] = {}
        for plan in plans.values():
            wanted.update(dict.fromkeys([*plan.stream_imports, *plan.service_imports]))
        for gone in self._links.keys() - wanted.keys():
            self._unlink(gone)
        for plan in plans.values():
            before = self.plans.get(plan.name)
            if before is None or before.mappings != plan.mappings:
                account = self._account(plan.name)
                account.mapper = Mappings(plan.mappings, self.random) if plan.mappings else None
            for stream in plan.stream_imports:
                if stream not in self._links:
                    self._link(stream, StreamLink(self, stream, self._account(plan.name)))
            for service in plan.service_imports:
                if service not in self._links:
                    exporter = self._account(service.target_account)
                    self._link(
                        service, ServiceLink(self, service, self._account(plan.name), exporter)
                    )
        self.plans = dict(plans)
        self.applied()

    def delivered_by(self, frame: Frame) -> bytes | None:
        """Return the subject by which JetStream delivers `frame`; None for any other message."""
        delivery = self.delivery
        return None if delivery is None or delivery[0] is not frame else delivery[1]

    def _link(self, plan: ImportPlan, link: RoutedSubscription) -> None:
        """Start to carry messages over `link`."""
        if isinstance(link, ServiceLink):
            self._carried[plan.source_account, plan.source] += 1
        elif isinstance(link, StreamLink):
            self._streams.setdefault(plan.source_account, []).append(link)
        self._account(plan.source_account).add(link)
        self._links[plan] = link

    def _unlink(self, plan: ImportPlan) -> None:
        """Remove the link of `plan`, and the pending responses to its requests."""
        link = self._links.pop(plan)
        self._account(plan.source_account).remove(link)
        if isinstance(link, ServiceLink):
            self._carried[plan.source_account, plan.source] -= 1
            link.forget_all()
        elif isinstance(link, StreamLink):
            self._streams[plan.source_account].remove(link)

    def carries(self, account: str, subject: bytes) -> bool:
        """Tell whether requests to `subject` in `account` go to a service of another account."""
        return self._carried[account, subject] > 0

    def streams_of(self, account: str) -> list[StreamLink]:
        """List the imports of what `account` exports as streams."""
        return list(self._streams.get(account, ()))

    def count_streams(self, account: str, subject: bytes) -> int:
        """Count the imports of exactly `subject` from `account`, as a stream."""
        return sum(one.subject == subject for one in self._streams.get(account, ()))

    def count_crossings(self, account: str, subject: bytes) -> int:
        """Count the imports, of either kind, that messages to `subject` in `account` go through."""
        return self._carried[account, subject] + self.count_streams(account, subject)


def is_from_worker(publisher: Client | None) -> bool:
    """Tell whether a message of `publisher` comes from another worker of this server."""
    return publisher is not None and publisher.role == Role.WORKER


class StreamLink(RoutedSubscription):
    """Delivers the messages of an exported stream to `importer`."""

    def __init__(self, links: AccountLinks, plan: StreamImport, importer: Account) -> None:
        RoutedSubscription.__init__(self, plan.source)
        self._links = links
        self.plan = plan
        self._transform = plan.transform
        self.importer = importer
        self._turn = 0

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        """Route `frame` in the importer's account; False when it has no plain receiver there.

        Queue groups are left to the router. What comes from another worker has been carried there,
        by the same import, and so it is on the other servers of a cluster.
        """
        links = self._links
        if links.carrying is not None or is_from_worker(publisher):
            return False
        by = links.delivered_by(frame)
        subject = self.importers_subject(frame.subject_bytes() if by is None else by)
        result = self.importer.sublist.match(subject)
        if not result:
            return False
        seen = with_subject(frame, subject) if by is None else frame
        behind = _groups_behind(result, publisher, self._turn)
        reached = _reached(result, publisher)
        crossing = Crossing(reached, publisher, seen) if behind else None
        if result.queues or behind:
            self._carry_groups(result, publisher, frame, seen, behind, crossing)
        remotes = Remotes(reached) if reached and crossing is None else None
        plain = SubListResult(result.plain, (), remotes)
        taken = self._route(plain, seen, publisher) if plain else 0
        return taken > 0 or (crossing is not None and bool(reached))

    def _carry_groups(
        self,
        result: SubListResult,
        publisher: Client | None,
        frame: Frame,
        seen: Frame,
        behind: dict[bytes, QueueGroup],
        crossing: Crossing | None,
    ) -> None:
        """Have the router choose among the members of the queue groups in `result` and `behind`."""
        self._turn += 1
        for name in dict.fromkeys([*(group.name for group in result.queues), *behind]):
            if publisher is not None and not publisher.names_group(name):
                continue
            here, there = result.group(name), behind.get(name)
            deliver = partial(self._deliver_to_group, here, there, seen, publisher, crossing)
            members = 0 if here is None else len(here.members)
            if there is not None:
                far: tuple[Any, ...] = there.members
                members += sum(one.weight for one in far if not one.is_last_choice)
            self._links.carry(CarriedGroup(frame, name, members, deliver, self._turn))
        if crossing is not None:
            self._links.carry(CarriedGroup(frame, AFTER_ALL, 0, crossing.go, self._turn))

    def _deliver_to_group(
        self,
        here: QueueGroup | None,
        there: QueueGroup | None,
        seen: Frame,
        publisher: Client | None,
        crossing: Crossing | None,
    ) -> bool:
        """Deliver to a member `here`, or name the group on the link of one that is `there`."""
        if there is None or crossing is None:
            return here is not None and self._route_to_group(here, seen, publisher)
        chooser = self._links.random
        members = 0 if here is None else len(here.members)
        link = pick_link(there, publisher, chooser, members)
        if link is None and here is not None:
            if self._route_to_group(here, seen, publisher):
                return True
            link = pick_link(there, publisher, chooser)
        if link is not None:
            crossing.name(link, there.name)
        return link is not None

    def _route_to_group(self, group: QueueGroup, seen: Frame, publisher: Client | None) -> bool:
        return self._route(SubListResult((), (group,)), seen, publisher) > 0

    def _route(self, result: SubListResult, seen: Frame, publisher: Client | None) -> int:
        """Route `seen` in the importer's account, and through no other import."""
        links = self._links
        before, links.carrying = links.carrying, StreamLink
        try:
            return links.route(self.importer, result, seen, publisher)
        finally:
            links.carrying = before

    def importers_subject(self, subject: bytes) -> bytes:
        """Return the subject in the importer's account of what has `subject` in the exporter's."""
        rewritten: bytes = self._transform.rewrite(subject)
        return rewritten

    def trace_events(self, frame: Frame) -> list[dict[str, Any]]:
        """Tell a trace who in the importer's account gets `frame`: an event for each."""
        subject = self._transform.rewrite(frame.subject_bytes())
        count = self.importer.sublist.match(subject).fan_out()
        shown = {"type": "se", "acc": self.importer.name, "to": subject.decode(errors="replace")}
        return [shown] * count


class Crossing:
    """The links that a message goes over in an importer's account, once over each.

    `links` have plain interest in it. What goes to the routers of other workers is marked, for they
    must not pass it on to the other servers of a cluster, which have the import, too.
    """

    def __init__(self, links: tuple[Client, ...], publisher: Client | None, seen: Frame) -> None:
        self._publisher = publisher
        self._seen = seen
        self._names: dict[Any, list[bytes] | None] = dict.fromkeys(links)

    def name(self, link: Client, queue: bytes) -> None:
        """Have a member of the group `queue` get the message behind `link`."""
        marked = _marked(link)
        self._names[marked] = [*(self._names.get(marked) or ()), queue]

    def go(self) -> bool:
        """Send the message; False, for what takes it has been counted."""
        for link, queues in self._names.items():
            link.forward(self._publisher, self._seen, queues)
        return False


def _reached(result: SubListResult, publisher: Client | None) -> tuple[Client, ...]:
    """Return the links that a message goes on over in an importer's account; no routes are."""
    remotes = result.remotes
    links: tuple[Any, ...] = () if remotes is None else remotes.plain
    return tuple([_marked(link) for link in links if _may_go_over(link, "", publisher)])


def _marked(link: Any) -> Client:
    """Return `link`, or what marks messages over it as carried by an import."""
    marked: Client = link.carried() if link.role == Role.WORKER else link
    return marked


def _groups_behind(
    result: SubListResult, publisher: Client | None, turn: int
) -> dict[bytes, QueueGroup]:
    """Return the queue groups behind such links, with the members there, by name."""
    found: dict[bytes, QueueGroup] = {}
    if result.remotes is None:
        return found
    for group in result.remotes.queues:
        members: tuple[Any, ...] = group.members
        reached = [one for one in members if _may_go_over(one.remote, one.origin, publisher)]
        if reached:
            found[group.name] = QueueGroup(group.name, tuple(reached), turn)
    return found


def _may_go_over(link: Any, origin: str, publisher: Client | None) -> bool:
    """Tell whether a message that an import has carried may go over `link`."""
    if link.role == Role.ROUTE or origin.startswith(BEHIND_ROUTES):
        return False  # the other server has the import, too
    return publisher is None or publisher.reaches(link, origin)


class ServiceLink(RoutedSubscription):
    """Carries requests to the exporter and keeps their reply subjects for the responses."""

    def __init__(
        self, links: AccountLinks, plan: ServiceImport, importer: Account, exporter: Account
    ) -> None:
        RoutedSubscription.__init__(self, plan.source)
        self.route = links.route
        self.importer = importer
        self.exporter = exporter
        self.response_type = plan.response_type
        self.links = links
        self._clock = links.clock
        self._describe = links.describe
        self._plan = plan
        self._waiting: OrderedDict[bytes, Response] = OrderedDict()
        self._reply_bytes = 0

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        """Route `frame` in the exporter's account; False when it has no receiver there.

        What comes from another worker has been carried there, by the same import.
        """
        links = self.links
        before = links.carrying
        if before is StreamLink or is_from_worker(publisher):
            return False
        subject = self._target_subject(frame)
        if subject is None:
            return False
        result = self.exporter.sublist.match(subject)
        if not result.fan_out():
            return False
        reply = frame.reply_bytes()
        response = None if reply is None else self._expect_response(reply)
        told_before = links.request_info
        info = self._request_info(publisher)
        headers = with_request_info(frame.header_bytes(), msgspec.json.encode(info))
        token = None if response is None else response.subject
        request = compose(subject, frame.payload_bytes(), token, headers)
        links.carrying, links.request_info = ServiceLink, info
        try:
            taken = links.route(self.exporter, result, request, publisher)
        finally:
            links.carrying, links.request_info = before, told_before
        if taken == 0 and response is not None:
            self.forget(response)
        return taken > 0

    def trace_events(self, frame: Frame) -> list[dict[str, Any]]:
        """Tell a trace where the request `frame` goes."""
        subject = frame.subject_bytes()
        target = self._target_subject(frame) or b""
        names = {"from": subject.decode(errors="replace"), "to": target.decode(errors="replace")}
        return [{"type": "si", "acc": self.exporter.name, **names}]

    def waiting(self) -> int:
        """Count the requests that may still be answered."""
        return len(self._waiting)

    def forget(self, response: Response) -> None:
        """Drop `response`: its request takes no more answers."""
        if self._waiting.pop(response.subject, None) is not None:
            self._reply_bytes -= len(response.reply)
            self.exporter.remove(response)

    def forget_all(self) -> None:
        """Drop all pending responses."""
        for response in list(self._waiting.values()):
            self.forget(response)

    def is_too_late_for(self, response: Response) -> bool:
        """Tell whether `response` has expired but has not been dropped yet."""
        return response.until_s < self._clock.monotonic()

    def keep_waiting(self, response: Response) -> None:
        """Restart the time limit of `response` after one of several answers."""
        if response.subject in self._waiting:
            response.until_s = self._clock.monotonic() + self._plan.response_threshold_s
            self._waiting.move_to_end(response.subject)

    def _expect_response(self, reply: bytes) -> Response:
        """Open a response to `reply`."""
        now_s = self._clock.monotonic()
        self._forget_stale(now_s)
        until_s = now_s + self._plan.response_threshold_s
        response = Response(self, _new_reply(), reply, until_s)
        self.exporter.add(response)
        self._waiting[response.subject] = response
        self._reply_bytes += len(reply)
        return response

    def _forget_stale(self, now_s: float) -> None:
        """Drop the responses that have expired, and the oldest of too many."""
        while self._waiting:
            oldest = next(iter(self._waiting.values()))
            if oldest.until_s >= now_s:
                if len(self._waiting) < REQUESTS_MAX and self._reply_bytes < REPLIES_MAX_BYTES:
                    return
                self.links.evicted_requests += 1
            self.forget(oldest)

    def _target_subject(self, frame: Frame) -> bytes | None:
        """Return the exporter's subject of a request, after its mappings; None if they drop it."""
        subject = self._plan.transform.rewrite(frame.subject_bytes())
        mapper = self.exporter.mapper
        mapped: bytes | None = subject if mapper is None else mapper.map(subject)
        return mapped

    def _request_info(self, publisher: Client | None) -> dict[str, Any]:
        """Return the requester's fields for the service; in a chain, with the last account."""
        known = self._describe(publisher)
        shares = self._plan.shares_client
        before = self.links.request_info
        if before:
            server = {"server": known.get("server")} if shares else {}
            told = {**server, **before, "svc": self.importer.name}
        else:
            least = {"acc": self.importer.name, "rtt": known.get("rtt", 0)}
            told = {**known, **least} if shares else least
        return {key: told[key] for key in _INFO_FIELDS if told.get(key) is not None}


class Response(RoutedSubscription):
    """Carries the answers to one request back to the importer."""

    def __init__(self, service: ServiceLink, subject: bytes, reply: bytes, until_s: float) -> None:
        RoutedSubscription.__init__(self, subject)
        self._service = service
        self.reply = reply
        self.until_s = until_s

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        """Route the answer in the importer's account; False when it has no receiver any more."""
        service = self._service
        if service.is_too_late_for(self):
            service.forget(self)
            return False
        is_last = service.response_type == "singleton" or (
            service.response_type == "chunked" and frame.size == 0
        )
        if is_last:
            service.forget(self)
        else:
            service.keep_waiting(self)
        result = service.importer.sublist.match(self.reply)
        if not result.fan_out():
            return False
        links = service.links
        if links.delivered_by(frame) is None:
            answer = compose(self.reply, frame.payload_bytes(), None, frame.header_bytes())
            return service.route(service.importer, result, answer, publisher) > 0
        before, links.delivery = links.delivery, (frame, self.reply)
        try:
            return service.route(service.importer, result, frame, publisher) > 0
        finally:
            links.delivery = before

    def has_receiver(self) -> bool:
        """Tell whether an answer would have a receiver, in the account of who asked."""
        result = self._service.importer.sublist.match(self.reply)
        return any_reached(result)


def any_reached(result: SubListResult) -> bool:
    """Tell whether what is sent to those of a match would reach anyone, also across accounts."""
    if result.queues or result.remotes is not None:
        return True
    return any(not isinstance(one, Response) or one.has_receiver() for one in result.plain)


def with_request_info(headers: bytes | None, info: bytes) -> bytes:
    """Return the header block `headers` with `info` as its only ``Nats-Request-Info``.

    Headers of that name from the client are removed, in any spelling and position.
    """
    block = b"" if headers is None else re.sub(_REQUEST_INFO, b"", headers).rstrip(b"\r\n")
    if not block.startswith(_STATUS_LINE):
        # Not a header block: keep nothing of it.
        block = _STATUS_LINE
    return b"%b\r\nNats-Request-Info: %b\r\n\r\n" % (block, info)


def _new_reply() -> bytes:
    """Return an unguessable reply subject."""
    return b"%b%b.%b" % (REPLY_PREFIX, _random_token(), _random_token())


def _random_token() -> bytes:
    """Return 16 random characters that are valid in a subject."""
    return base64.b64encode(os.urandom(12), altchars=b"Zz")
