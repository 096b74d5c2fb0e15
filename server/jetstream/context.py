"""What JetStream of one server shares among its accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from random import Random

    from midge.jetstream.limits import ServerLimits
    from midge.jetstream.stream.usage import Usage
    from midge.server.clients.fair_turns import FairTurns
    from midge.server.config.jetstream import JetStream
    from midge.server.internal.publisher import InternalPublisher
    from midge.server.internal.service import Services
    from midge.server.jetstream.clock import NanosecondClock
    from midge.server.jetstream.stores import Stores


class Context(NamedTuple):
    """The settings, the outside and the limits that all accounts have in common."""

    options: JetStream
    publisher: InternalPublisher
    services: Services
    turns: FairTurns
    clock: NanosecondClock
    random: Random
    stores: Stores
    limits: ServerLimits
    memory: Usage
    storage: Usage
    max_payload: int
    server_name: str
