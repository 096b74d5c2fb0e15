"""Messages over links: the choice of a link for a queue group, and the message over each link.

A message crosses a link once, whatever it is for on the other side: the plain subscriptions there,
and a member of each queue group that has its receiver behind that link.

An import of a stream carries messages to the queue groups of another account. They are the same
group as any other of their name, as on nats-server: of all members in the exporter's account, in
the importers' and on other servers, one gets the message. So an import delivers to plain
subscriptions only, and leaves the groups that it finds to the router, as CarriedGroups.
"""

from collections.abc import Callable, Container, Iterator
from functools import partial
from random import Random
from typing import Any

from midge.protocol.frame import Frame
from midge.server.routing.client import Client
from midge.server.routing.passage import GROUPS, passes
from midge.sublist.result import QueueGroup, Remotes, SubListResult

AFTER_ALL = b""
"""In place of the name of a CarriedGroup: its `deliver` is called after all groups."""

SERVED = b"$MIDGE.SERVED"
"""In place of the name of a queue group: an import has brought the request to a service that has
members behind links, so no import of another server does. Servers pass over unknown groups."""


def forward(
    result: SubListResult,
    publisher: Client | None,
    frame: Frame,
    picked: dict[bytes, Client] | None,
    refused: list[bytes] | None,
    chooser: Random | None,
    carried: dict[bytes, list["CarriedGroup"]] | None,
) -> int:
    """Send `frame` once over each link that is to have it; return how many have taken it.

    `result` has remotes. `picked` are the links chosen for queue groups. Those without a member
    here, be it in other accounts, in `carried`, and those whose members have `refused` the message,
    have one chosen behind a link now.
    """
    remotes = result.remotes
    assert remotes is not None, "what lies behind links is asked for only where there is some"
    links: tuple[Any, ...] = remotes.plain
    named = _name_groups(result, publisher, picked, refused, chooser, carried)
    if carried is not None and SERVED in carried:
        named = {} if named is None else named
        for link in links:
            named.setdefault(link, []).append(SERVED)
    if named is None:
        return send_to_all(links, publisher, frame)
    taken = 0
    for link in links:
        queues = named.pop(link, None)
        if link is not publisher and link.forward(publisher, frame, queues):
            taken += 1
    for link, queues in named.items():
        if link.forward(publisher, frame, queues):
            taken += 1
    return taken


def _name_groups(
    result: SubListResult,
    publisher: Client | None,
    picked: dict[bytes, Client] | None,
    refused: list[bytes] | None,
    chooser: Random | None,
    carried: dict[bytes, list["CarriedGroup"]] | None,
) -> dict[Any, list[bytes]] | None:
    """Return the queue groups that each link is to serve; None where no link serves any."""
    remotes = result.remotes
    assert remotes is not None, "see forward"
    named: dict[Any, list[bytes]] | None = None
    for group in remotes.queues:
        chosen = None if picked is None else picked.get(group.name)
        if chosen is None:
            if carried is not None and group.name in carried:
                continue
            has_members = result.count_members(group.name) > 0
            if not has_members or (refused is not None and group.name in refused):
                chosen = pick_instead(group, publisher, chooser, has_members)
        if chosen is not None:
            named = {} if named is None else named
            named.setdefault(chosen, []).append(group.name)
    return named


def send_to_all(links: tuple[Any, ...], publisher: Client | None, frame: Frame) -> int:
    """Send `frame` over `links`, to plain subscriptions only; return over how many it goes."""
    taken = 0
    for link in links:
        if link is not publisher and link.forward(publisher, frame, None):
            taken += 1
    return taken


def links_take_run(result: SubListResult, publisher: Client | None, frame: Frame) -> bool:
    """Return whether all links in `result` get all messages of the run that `frame` begins.

    Of queue groups there may be one, with all its members behind one link.
    """
    remotes = result.remotes
    if remotes is None:
        return False
    if remotes.queues:
        chosen = None if result.queues else _only_link(remotes, publisher)
        if chosen is None or not chosen.takes_run(publisher, frame):
            return False
    links: tuple[Any, ...] = remotes.plain
    for link in links:
        if link is not publisher and not link.takes_run(publisher, frame):
            return False
    return True


def forward_run(result: SubListResult, publisher: Client | None, frame: Frame, count: int) -> int:
    """Send a run over each link in `result`, which has remotes; return over how many."""
    remotes = result.remotes
    assert remotes is not None, "what lies behind links is asked for only where there is some"
    sent = 0
    chosen = _only_link(remotes, publisher) if remotes.queues else None
    links: tuple[Any, ...] = remotes.plain
    for link in links:
        if link is not publisher and link is not chosen:
            link.forward_run(frame, count, None)
            sent += 1
    if chosen is not None:
        group: QueueGroup = remotes.queues[0]
        chosen.forward_run(frame, count, [group.name])
        sent += 1
    return sent


def _only_link(remotes: Remotes, publisher: Client | None) -> Client | None:
    """Return the link with all members of the only queue group; None where there are several."""
    if len(remotes.queues) != 1:
        return None
    only: Client | None = None
    weight = 0
    group: QueueGroup = remotes.queues[0]
    members: tuple[Any, ...] = group.members
    for member in members:
        if publisher is None or publisher.reaches(member.remote, member.origin):
            if only is not None and only is not member.remote:
                return None
            only = member.remote
            weight += member.weight
    return only if weight > 0 else None


def pick_links(
    result: SubListResult,
    publisher: Client | None,
    chooser: Random | None,
    carried: dict[bytes, list["CarriedGroup"]] | None,
) -> dict[bytes, Client] | None:
    """Choose the receiver in each queue group of `result` that has members behind links.

    Members in other accounts, in `carried`, count like those in this one. Returns the links chosen,
    by the name of the group; None without any.
    """
    remotes = result.remotes
    assert remotes is not None, "what lies behind links is asked for only where there is some"
    picked: dict[bytes, Client] | None = None
    for group in remotes.queues:
        here = result.count_members(group.name) + count_carried(carried, group.name)
        chosen = pick_link(group, publisher, chooser, here)
        if chosen is not None:
            if picked is None:
                picked = {}
            picked[group.name] = chosen
    return picked


def pick_link(
    group: QueueGroup, publisher: Client | None, chooser: Random | None, here: int = 0
) -> Client | None:
    """Choose a link for a message to `group`, each as often as its members there weigh.

    In turn, or at random with a `chooser`. The `here` members of this server count like those
    behind links, and None says that one of them is to get the message, or that no member is left
    that it may go to. Members of last choice count only without any other.
    """
    members: tuple[Any, ...] = group.members
    total = here
    last = 0
    for member in members:
        if publisher is None or publisher.reaches(member.remote, member.origin):
            if member.is_last_choice:
                last += member.weight
            else:
                total += member.weight
    if total == here and here > 0:
        return None
    is_last = total == 0
    if is_last:
        total = last
    if total <= 0:
        return None
    if chooser is None:
        group.turn += 1
        place = group.turn % total
    else:
        place = chooser.randrange(total)
    place -= here
    if place < 0:
        return None
    for member in members:
        if member.is_last_choice == is_last and (
            publisher is None or publisher.reaches(member.remote, member.origin)
        ):
            place -= member.weight
            if place < 0:
                link: Client = member.remote
                return link
    return None


def pick_instead(
    group: QueueGroup, publisher: Client | None, chooser: Random | None, has_members: bool
) -> Client | None:
    """Choose a link for a message to `group` that no member here takes, or None.

    As in nats-server, a message that came over a route then continues over another one: the
    members that it was sent here for have just left. It goes back over the same route only without
    `has_members` here, for two servers whose members all refuse would pass it to and fro.
    """
    chosen = pick_link(group, publisher, chooser, 0)
    if chosen is not None or publisher is None:
        return chosen
    back: Client | None = None
    members: tuple[Any, ...] = group.members
    for member in members:
        link: Client = member.remote
        if passes(publisher.role, link.role) == GROUPS:
            if link is not publisher:
                return link
            back = link
    return None if has_members else back


class CarriedGroup:
    """The members of the group `name` in one importer, for the message in `frame`.

    `members` counts those that are not behind leaf nodes; without any there are some that are.
    `deliver` gives one of them the message, and tells whether it was taken. `turn` is a number that
    goes up from message to message.
    """

    __slots__ = ("deliver", "frame", "members", "name", "turn")

    def __init__(
        self, frame: Frame, name: bytes, members: int, deliver: Callable[[], bool], turn: int
    ) -> None:
        self.frame = frame
        self.name = name
        self.members = members
        self.deliver = deliver
        self.turn = turn


def served_by_import(frame: Frame) -> CarriedGroup:
    """Return what marks the request in `frame`, for links, as `SERVED`."""
    return CarriedGroup(frame, SERVED, 0, bool, 0)


def take_carried(waiting: list[CarriedGroup], frame: Frame) -> dict[bytes, list[CarriedGroup]]:
    """Remove the groups for `frame` from those `waiting`, and return them by name.

    Those for other messages belong to a message on whose way this one has been published.
    """
    found: dict[bytes, list[CarriedGroup]] = {}
    for group in waiting:
        if group.frame is frame:
            found.setdefault(group.name, []).append(group)
    if AFTER_ALL in found:
        found[AFTER_ALL] = found.pop(AFTER_ALL)
    waiting[:] = [group for group in waiting if group.frame is not frame]
    return found


def count_carried(carried: dict[bytes, list[CarriedGroup]] | None, name: bytes) -> int:
    """Count the members of the group `name` in importers, on this server."""
    if carried is None:
        return 0
    return sum(group.members for group in carried.get(name, ()))


def deliver_to_each(
    carried: dict[bytes, list[CarriedGroup]],
    picked: Container[bytes] | None,
    result: SubListResult,
    deliver_to_own: Callable[[QueueGroup], bool],
    chooser: Random | None,
) -> int:
    """Deliver to one member of each group `carried` that is not `picked`; return how many took it.

    The members in `result`, which `deliver_to_own` serves, count like members in other accounts.
    """
    taken = 0
    for name, groups in carried.items():
        if picked is not None and name in picked:
            continue
        choices = [(group.members, group.deliver) for group in groups]
        own = result.group(name)
        if own is not None:
            choices.append((len(own.members), partial(deliver_to_own, own)))
        taken += any(deliver() for deliver in _in_turn(choices, groups[0].turn, chooser))
    return taken


def _in_turn(
    choices: list[tuple[int, Callable[[], bool]]], turn: int, chooser: Random | None
) -> Iterator[Callable[[], bool]]:
    """Yield what delivers to each account: first one that is chosen, by its members, then the rest.

    Members behind leaf nodes, which are not counted, are the last choice.
    """
    near = [one for one in choices if one[0]]
    total = sum(members for members, _ in near)
    if total:
        place = turn % total if chooser is None else chooser.randrange(total)
        while place >= near[0][0]:
            place -= near[0][0]
            near.append(near.pop(0))
    for _, deliver in (*near, *(one for one in choices if not one[0])):
        yield deliver
