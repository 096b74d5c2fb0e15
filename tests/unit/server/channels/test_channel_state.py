"""A connection goes from state to state by the table, and by no other way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from random import Random

import pytest

from midge.server.auth import Identity, Verdict
from midge.server.broker.broker import Broker
from midge.server.channels.channel_state import TRANSITIONS, ChannelState
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clients.connection import Connection
from midge.server.config.options import Options
from midge.testing import ManualClock
from tests.support.transports import Transport

CONNECT = b'CONNECT {"verbose":false,"pedantic":false}\r\n'

WAYS = {
    ChannelState.CONNECTING: [],
    ChannelState.INTRODUCING: [ChannelState.INTRODUCING],
    ChannelState.CONNECTED: [ChannelState.INTRODUCING, ChannelState.CONNECTED],
    ChannelState.CLOSING: [ChannelState.CLOSING],
    ChannelState.CLOSED: [ChannelState.CLOSED],
}
"""How each state is reached from the first."""


def made() -> Connection:
    return Broker(Options(), ManualClock(), Random(1)).make_connection(("127.0.0.1", 1))


@pytest.mark.parametrize("before", ChannelState)
@pytest.mark.parametrize("after", ChannelState)
def test_only_what_the_table_allows_follows(before: ChannelState, after: ChannelState) -> None:
    connection = made()
    for state in WAYS[before]:
        connection.channel.become(state)
    if after in TRANSITIONS[before]:
        connection.channel.become(after)
        assert connection.channel.state == after
        return
    with pytest.raises(AssertionError, match=f"{after.name}.* after .*{before.name}"):
        connection.channel.become(after)
    assert connection.channel.state == before


def test_every_state_can_be_reached_and_the_last_one_is_final() -> None:
    assert set(TRANSITIONS) == set(ChannelState)
    assert {after for allowed in TRANSITIONS.values() for after in allowed} == set(ChannelState) - {
        ChannelState.CONNECTING
    }
    assert [state for state in ChannelState if not TRANSITIONS[state]] == [ChannelState.CLOSED]


def test_a_life() -> None:
    connection, transport = made(), Transport()
    states = [connection.channel.state]
    connection.channel.connection_made(transport)
    states.append(connection.channel.state)
    connection.channel.feed(b"SUB a 1\r\n" + CONNECT)
    states.append(connection.channel.state)
    connection.channel.feed(CONNECT)
    states.append(connection.channel.state)
    connection.close(ClosedReason.KICKED)
    connection.close(ClosedReason.CLIENT_CLOSED)
    states.append(connection.channel.state)
    connection.channel.connection_lost(None)
    states.append(connection.channel.state)
    assert states == [
        ChannelState.CONNECTING,
        ChannelState.INTRODUCING,
        ChannelState.CONNECTED,
        ChannelState.CONNECTED,
        ChannelState.CLOSING,
        ChannelState.CLOSED,
    ]
    assert connection.reason is ClosedReason.KICKED


def test_a_connection_that_never_was_is_closed_at_once() -> None:
    connection = made()
    connection.channel.dispose()
    connection.close(ClosedReason.CLIENT_CLOSED)
    assert connection.channel.state == ChannelState.CLOSED
    assert connection.reason is None


def answer_with(
    verdict: Verdict | Awaitable[Verdict], connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Make the authenticator check each client, and answer `verdict`."""
    authenticator = connection.broker.admission.authenticator
    monkeypatch.setattr(authenticator, "open_listeners", frozenset())
    monkeypatch.setattr(authenticator, "authenticate", lambda _request: verdict)


async def test_another_connect_introduces_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = made()
    connection.channel.connection_made(Transport())
    connection.channel.feed(CONNECT)
    verdict: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
    answer_with(verdict, connection, monkeypatch)
    connection.channel.feed(CONNECT + b"PING\r\n")
    assert connection.channel.state == ChannelState.INTRODUCING
    assert connection.introduced
    assert connection.identity is not None
    verdict.set_result(Identity(account=connection.identity.account))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert connection.channel.state == ChannelState.CONNECTED


async def test_a_verdict_that_comes_too_late_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = made()
    connection.channel.connection_made(Transport())
    verdict: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
    answer_with(verdict, connection, monkeypatch)
    connection.channel.feed(CONNECT)
    connection.close(ClosedReason.KICKED)
    verdict.set_result(Identity(account="$G"))
    await asyncio.sleep(0)
    assert connection.channel.state == ChannelState.CLOSING
    assert not connection.introduced


def test_who_expires_while_it_is_let_in_is_not_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = made()
    connection.channel.connection_made(Transport())
    answer_with(Identity(account="$G", expires_at_s=0.0), connection, monkeypatch)
    connection.channel.feed(CONNECT)
    assert connection.reason is ClosedReason.AUTHENTICATION_EXPIRED
    assert not connection.introduced
