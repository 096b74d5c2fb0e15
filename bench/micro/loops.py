"""The loops around the measured operations.

Compiled (with the `.pxd` beside it), they call the core from C, as the compiled server does. Calls
from Python would cost as much as the measured operations. Each loop does every operation once, and
the caller divides by their number.
"""

from midge.protocol.frame import Frame
from midge.protocol.parser import Parser
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import Outbound
from midge.server.routing.router import Router
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist.result import SubListResult
from midge.sublist.sublist import SubList
from midge.sublist.subscription import Subscription


class Counting(RoutedSubscription):
    """An internal subscriber that only counts messages, so that its cost is the delivery's."""

    def __init__(self, subject: bytes) -> None:
        RoutedSubscription.__init__(self, subject)
        self.messages = 0

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        """Count a message."""
        self.messages += 1
        return True

    def takes_runs(self) -> bool:
        """Return True."""
        return True

    def receive_run(self, publisher: Client | None, frame: Frame, count: int) -> int:
        """Count `count` messages."""
        self.messages += count
        frame.base += count * frame.end
        return count


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
    """Append a frame to every outbound `count` times, and flush each once."""
    for _ in range(count):
        for outbound in outbounds:
            outbound.append_message(frame, sid)
    for outbound in outbounds:
        outbound.flush()


def route(
    router: Router, account: Account, result: SubListResult, frame: Frame, count: int
) -> None:
    """Route a frame to the subscriptions in `result` `count` times."""
    for _ in range(count):
        router.route(account, result, None, frame)
