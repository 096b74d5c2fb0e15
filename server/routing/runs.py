"""Runs of messages that differ in payloads only: their receivers, and how a group shares one."""

from typing import Any

from midge.protocol.frame import Frame
from midge.server.routing.slow_path import DENIED_SUBJECTS, NO_HEADERS
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist.result import QueueGroup


def takes_run(subscription: RoutedSubscription, frame: Frame) -> bool:
    """Return whether a client's subscription gets all messages of the run that `frame` begins."""
    client = subscription.client
    if client is None or subscription.max_messages > 0:
        return False
    checks = client.deliver_checks
    if checks & ~(NO_HEADERS | DENIED_SUBJECTS):
        return False
    if checks & NO_HEADERS and frame.header_size >= 0:
        return False
    # All have one subject, so that one answer counts for all.
    return not checks & DENIED_SUBJECTS or client.checked(subscription, None, frame) is frame


def append_run_in_turn(group: QueueGroup, frame: Frame, count: int) -> tuple[Any, ...]:
    """Append `count` messages, `frame` the first, to members of `group` in turn; return those.

    They lie one behind the other, each `frame.end` bytes long. Returns none, and then nothing has
    happened, where one of these members does not take a run.
    """
    members: tuple[Any, ...] = group.members
    start = group.turn % len(members)
    served = members[start : start + count]
    if len(served) < count and start > 0:
        served += members[: min(start, count - len(served))]
    for member in served:
        if not takes_run(member, frame):
            return ()
    _append(served, frame, count)
    group.turn = (start + count - 1) % len(
        members
    ) + 1  # as after a single one: a new member is next
    return served


def _append(members: tuple[Any, ...], frame: Frame, count: int) -> None:
    """Append `count` messages to `members` in turn, and count them.

    One by one, since a client that has several of them gets the messages in their order.
    """
    total = len(members)
    base = frame.base
    place = 0
    for _i in range(count):
        member: RoutedSubscription = members[place]
        client = member.client
        assert client is not None, "only clients take runs"
        client.outbound.append_message(frame, member.sid)
        client.out_messages += 1
        client.out_bytes += frame.size
        member.delivered += 1
        frame.base += frame.end
        place += 1
        if place == total:
            place = 0
    frame.base = base
