"""An account owns its interest: `add` and `remove` change it and notify listeners."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

import midge
from midge.server.routing.account import Account
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist import SubListError
from midge.testing import SettlingClient

Event = tuple[str, bytes, bytes | None]


class Listener:
    """Records its calls."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def interest_began(self, subject: bytes, queue: bytes | None) -> None:
        self.events.append(("began", subject, queue))

    def interest_ended(self, subject: bytes, queue: bytes | None) -> None:
        self.events.append(("ended", subject, queue))

    def group_resized(self, subject: bytes, queue: bytes, members: int) -> None:
        self.events.append((str(members), subject, queue))

    def remote_changed(self, subject: bytes, queue: bytes | None) -> None:
        self.events.append(("remote", subject, queue))

    def take(self) -> list[Event]:
        """Return the calls since the last time."""
        events, self.events = self.events, []
        return events


@pytest.fixture
def account() -> Account:
    return Account("A")


@pytest.fixture
def listener(account: Account) -> Listener:
    listener = Listener()
    account.interest_listener = listener
    return listener


@pytest.mark.parametrize("subject", [b"a.b", b"a.*", b">"])
def test_the_first_and_the_last_of_each_kind_are_told_of(
    account: Account, listener: Listener, subject: bytes
) -> None:
    plain = [RoutedSubscription(subject) for _ in range(3)]
    queued = [RoutedSubscription(subject, queue) for queue in (b"q", b"q", b"r")]
    for subscription in (*plain, *queued):
        assert account.add(subscription) is None
    assert listener.take() == [
        ("began", subject, None),
        ("began", subject, b"q"),
        ("2", subject, b"q"),
        ("began", subject, b"r"),
    ]
    assert sorted(account.interest(), key=str) == sorted(
        [(subject, None), (subject, b"q"), (subject, b"r")], key=str
    )
    for subscription in (*plain, *queued):
        assert account.remove(subscription) is None
    assert listener.take() == [
        ("ended", subject, None),
        ("1", subject, b"q"),
        ("ended", subject, b"q"),
        ("ended", subject, b"r"),
    ]
    assert account.interest() == []


def test_what_is_refused_is_not_told_of(account: Account, listener: Listener) -> None:
    held = RoutedSubscription(b"a")
    account.add(held)
    listener.take()
    assert account.add(held) is SubListError.ALREADY_INSERTED
    assert account.add(RoutedSubscription(b"a..b")) is SubListError.INVALID_SUBJECT
    assert account.remove(RoutedSubscription(b"a")) is SubListError.NOT_FOUND
    assert account.remove(RoutedSubscription(b"b.*")) is SubListError.NOT_FOUND
    assert listener.take() == []


async def test_interest_of_every_source_is_told_of() -> None:
    """Clients that subscribe and go, and the process itself."""
    async with midge.Server(port=-1) as server:
        account = server._core.broker.global_account
        listener = Listener()
        account.interest_listener = listener
        client = await SettlingClient.connected(server.url)
        subscription = await client.subscribe("from.client", "workers")
        await client.subscribe("from.>")
        await client.flush()
        assert listener.take() == [
            ("began", b"from.client", b"workers"),
            ("began", b"from.>", None),
        ]
        await subscription.unsubscribe()
        await client.flush()
        assert listener.take() == [("ended", b"from.client", b"workers")]
        with server.subscribe("from.process"):
            assert listener.take() == [("began", b"from.process", None)]
        assert listener.take() == [("ended", b"from.process", None)]
        await client.close()
        async with asyncio.timeout(60):
            while not listener.events:
                await asyncio.sleep(0)
        assert listener.take() == [("ended", b"from.>", None)]


def test_nobody_else_inserts_or_removes(root: Path) -> None:
    """The account would not see it."""
    past_it = re.compile(r"sublist\.(insert|remove)\(")
    found = [
        path.relative_to(root)
        for path in sorted((root / "midge" / "server").rglob("*.py"))
        if past_it.search(path.read_text())
    ]
    assert found == [Path("midge/server/routing/account.py")]
