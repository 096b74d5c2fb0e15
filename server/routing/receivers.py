"""The receivers of a message: chosen once, and then written each in its own form.

The match of a message has three kinds of receivers:

    plain subscriptions    each gets it: those of clients here, and of the server itself
    links                  each link with plain interest behind it gets it once
    queue groups           one member of each gets it, whether it is here or behind a link

Only the groups need a choice. For each group with members behind links `pick_links` chooses, by
the number of members, one of the links or this server. In a group that no link serves, the router
gives the message to a member here. Nothing is chosen again for a group that has its receiver. Only
when all members of the group here refuse the message, `pick_instead` chooses a link in their place.

Then each receiver gets its own form, by `deliver` of the router or `forward` of a link, which knows
what the other side reads: an ack reply shown or raw, headers or none, the origin. `forward` here
only passes the message to the links, once to each, with the names of the groups that it serves.

An import of a stream carries messages to the queue groups of another account. They are the same
group as any other of their name, as on nats-server: of all members in the exporter's account, in
the importers' and on other servers, one gets the message. So an import delivers to plain
subscriptions only, and leaves the groups that it finds to the router, as CarriedGroups: one for
the members here, and one for each link with members.
"""

from collections.abc import Callable, Container
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
    carried: dict[bytes, list["CarriedGroup"]] | None,
) -> int:
    """Send `frame` once over each link that is to have it; return how many have taken it.

    `result` has remotes. `picked` are the links chosen for queue groups.
    """
    remotes = result.remotes
    assert remotes is not None, "what lies behind links is asked for only where there is some"
    links: tuple[Any, ...] = remotes.plain
    if picked is None and (carried is None or SERVED not in carried):
        return send_to_all(links, publisher, frame)
    named = name_groups(links, publisher, picked, carried)
    taken = 0
    for link in links:
        queues = named.pop(link, None)
        if link is not publisher and link.forward(publisher, frame, queues):
            taken += 1
    for link, queues in named.items():
        if link.forward(publisher, frame, queues):
            taken += 1
    return taken


def name_groups(
    links: tuple[Any, ...],
    publisher: Client | None,
    picked: dict[bytes, Client] | None,
    carried: dict[bytes, list["CarriedGroup"]] | None,
) -> dict[Any, list[bytes]]:
    """Return the queue groups that each link serves; `links` are those with plain interest."""
    named: dict[Any, list[bytes]] = {}
    if picked is not None:
        for name, chosen in picked.items():
            named.setdefault(chosen, []).append(name)
    if carried is not None and SERVED in carried:
        for link in links:
            if link is not publisher:
                named.setdefault(link, []).append(SERVED)
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
    """Choose a link, or this server, for each queue group of `result` with members behind links.

    Members in other accounts, in `carried`, count like those in this one. Returns the links chosen,
    by the name of the group; None without any.
    """
    remotes = result.remotes
    assert remotes is not None, "what lies behind links is asked for only where there is some"
    picked: dict[bytes, Client] | None = None
    for group in remotes.queues:
        here = result.count_members(group.name)
        is_carried = carried is not None and group.name in carried
        if is_carried:
            here += count_carried(carried, group.name)
        chosen = pick_link(group, publisher, chooser, here)
        if chosen is None and here == 0 and not is_carried:
            chosen = _pick_back(group, publisher, False)
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
    name: bytes, result: SubListResult, publisher: Client | None, chooser: Random | None
) -> Client | None:
    """Choose a link for a message to the group `name` that all its members here have refused."""
    remotes = result.remotes
    if remotes is not None:
        for group in remotes.queues:
            if group.name == name:
                chosen = pick_link(group, publisher, chooser, 0)
                return _pick_back(group, publisher, True) if chosen is None else chosen
    return None


def _pick_back(group: QueueGroup, publisher: Client | None, has_members: bool) -> Client | None:
    """Choose a route for a message to `group` that came over a route, or None.

    As in nats-server, such a message continues over another route where no member here takes it:
    those that it was sent here for have just left. It goes back over the same route only without
    `has_members` here, for two servers whose members all refuse would pass it to and fro.
    """
    if publisher is None:
        return None
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
    """Members of the group `name` in one importer, here or behind one link, for one message.

    `deliver` gives one of the `members` the message in `frame`, and returns whether it was taken.
    Those of `is_last_choice` get it only if no others do. `turn` is a number that goes up from
    message to message.
    """

    __slots__ = ("deliver", "frame", "is_last_choice", "members", "name", "turn")

    def __init__(
        self,
        frame: Frame,
        name: bytes,
        members: int,
        deliver: Callable[[], bool],
        turn: int,
        *,
        is_last_choice: bool = False,
    ) -> None:
        self.frame = frame
        self.name = name
        self.members = members
        self.deliver = deliver
        self.turn = turn
        self.is_last_choice = is_last_choice


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
    """Count the members of the group `name` in importers, without those of last choice."""
    if carried is None:
        return 0
    return sum(group.members for group in carried.get(name, ()) if not group.is_last_choice)


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
        turn = groups[0].turn
        near = [(one.members, one.deliver) for one in groups if not one.is_last_choice]
        last = [(one.members, one.deliver) for one in groups if one.is_last_choice]
        own = result.group(name)
        if own is not None:
            near.append((len(own.members), partial(deliver_to_own, own)))
        order = (*_in_turn(near, turn, chooser), *_in_turn(last, turn, chooser))
        taken += any(deliver() for deliver in order)
    return taken


def _in_turn(
    choices: list[tuple[int, Callable[[], bool]]], turn: int, chooser: Random | None
) -> list[Callable[[], bool]]:
    """Return what delivers to each choice: one that is chosen by members, then the rest."""
    total = sum(members for members, _ in choices)
    if total:
        place = turn % total if chooser is None else chooser.randrange(total)
        while place >= choices[0][0]:
            place -= choices[0][0]
            choices.append(choices.pop(0))
    return [deliver for _, deliver in choices]
