"""JetStream of one account: its subjects, its streams' subscriptions, and what is sent to them."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from midge.jetstream import errors
from midge.jetstream.account import JetStreamAccount
from midge.jetstream.api import dispatch
from midge.jetstream.stream.direct_get import DirectGet
from midge.jetstream.stream.surroundings import Surroundings
from midge.server.internal.service import Request
from midge.server.jetstream import subjects
from midge.server.jetstream.delivery import Deliveries
from midge.server.jetstream.ingest import StreamSubscription
from midge.server.jetstream.sink import AccountSink, Interest

if TYPE_CHECKING:
    from midge.jetstream.config.stream import StreamConfig
    from midge.jetstream.consumer.consumer import Consumer
    from midge.jetstream.stream.stream import Stream
    from midge.server.jetstream.engine import Engine
    from midge.server.routing.account import Account
    from midge.server.routing.subscription import RoutedSubscription

_DELETED_TOKENS_MAX = 2


class AccountJetStream:
    """What JetStream does in one account, from `open` to `close`."""

    def __init__(self, engine: Engine, account: Account) -> None:
        self._engine = engine
        self._account = account
        self.interest = Interest(account)
        self.sink = AccountSink(account, engine.publisher, self.interest)
        self.deliveries = Deliveries(engine.turns, account, self.sink)
        self.streams = self._make_streams()
        self._subscriptions: dict[str, list[RoutedSubscription]] = {}
        self._direct: dict[bytes, DirectGet] = {}
        self._own: list[RoutedSubscription] = []
