"""nats-py's client, with a flush that a test can rely on and no socket left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from nats.aio.client import DEFAULT_FLUSH_TIMEOUT, Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest


class SettlingClient(Client):  # type: ignore[misc]  # nats-py is not typed
    """A nats-py client whose `flush` returns once the server has all earlier messages.

    nats-py writes the PING of a flush at once, but published messages in a separate task, so the
    PING may overtake a message (nats-py 2.15). The second PING cannot. It also forgets, still open,
    the stream of an attempt to connect that failed after the server had accepted it; where
    warnings are errors, that fails some later test. This class closes it.
    """

    @classmethod
    async def connected(cls, url: str, **options: Any) -> Self:
        """Connect; takes the options of `nats.connect`."""
        client = cls()
        await client.connect(url, **options)
        return client

    async def _connect_to_server(self, s: Any) -> None:
        if self._transport is not None:
            self._transport.close()
        await super()._connect_to_server(s)

    async def flush(self, timeout: int = DEFAULT_FLUSH_TIMEOUT) -> None:  # noqa: ASYNC109 - as nats-py
        """Wait until the server has everything sent so far; `timeout` is in seconds."""
        await super().flush(timeout)
        await super().flush(timeout)


async def connected_client(
    request: pytest.FixtureRequest, nats_url: str
) -> AsyncIterator[SettlingClient]:
    """Connect a client for one test, called like the test, and close it afterwards.

    The frameworks that run async fixtures make `nats_client` from it.
    """
    given = request.getfixturevalue("nats_client_options")
    client = await SettlingClient.connected(nats_url, **{"name": request.node.name, **given})
    yield client
    await client.close()
