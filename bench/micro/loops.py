"""The loops around the measured operations.

Compiled (with the `.pxd` beside it) they call the core as the compiled server does, from C; called
from Python, the calls would cost as much as what is measured. Each does every operation once, and
the caller divides by their number.
"""

from midge.protocol.frame import Frame
from midge.protocol.parser import Parser
from midge.server.routing.outbound import Outbound
from midge.sublist.result import SubListResult
from midge.sublist.sublist import SubList
from midge.sublist.subscription import Subscription


def match(sublist: SubList, subjects: list[bytes]) -> SubListResult:
    """Match every subject; return the last result."""
    result = sublist.match(subjects[0])
    for subject in subjects:
        result = sublist.match(subject)
    return result


def insert(sublist: SubList, subscriptions: list[Subscription]) -> None:
    """Insert every subscription."""
    for subscription in subscriptions:
        sublist.insert(subscription)


def remove(sublist: SubList, subscriptions: list[Subscription]) -> None:
    """Remove every subscription."""
    for subscription in subscriptions:
        sublist.remove(subscription)


def churn(sublist: SubList, subscriptions: list[Subscription], subjects: list[bytes]) -> None:
    """Insert and remove a subscription after every ten matches."""
    turn = 0
    for index, subject in enumerate(subjects):
        sublist.match(subject)
        if index % 10 == 0:
            sublist.insert(subscriptions[turn])
            sublist.remove(subscriptions[turn])
            turn = (turn + 1) % len(subscriptions)


def parse(parser: Parser, buffer: bytearray) -> int:
    """Feed the whole buffer; return how much of it was used."""
    return parser.feed(buffer, 0, len(buffer))


def fan_out(outbounds: list[Outbound], frame: Frame, sid: bytes, count: int) -> None:
    """Append a frame to every outbound so many times, and flush each once."""
    for _ in range(count):
        for outbound in outbounds:
            outbound.append_message(frame, sid)
    for outbound in outbounds:
        outbound.flush()
