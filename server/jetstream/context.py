"""The state of one server's JetStream that its accounts share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

    from midge.jetstream.account.limits import ServerLimits
    from midge.jetstream.environment.surroundings import Bounds
    from midge.jetstream.stream.contents import Usage
    from midge.server.accounts.links import AccountLinks
    from midge.server.channels.fair_turns import FairTurns
    from midge.server.config.jetstream import JetStream
    from midge.server.internal.internal_publisher import InternalPublisher
    from midge.server.internal.service import Services
    from midge.server.jetstream.stores import Stores
    from midge.server.jetstream.stream_clock import StreamClock


class Context(Struct):
    """The settings, the outside and the limits that all accounts have in common.

    `purge` deletes everything that JetStream has of an account by name.
    """

    options: JetStream
    server_name: str
    max_payload: int
    publisher: InternalPublisher
    links: AccountLinks
    services: Services
    turns: FairTurns
    clock: StreamClock
    random: Random
    store_directory: Path
    stores: Stores
    limits: ServerLimits
    memory: Usage
    storage: Usage
    bounds: Bounds
    purge: Callable[[str], None]
