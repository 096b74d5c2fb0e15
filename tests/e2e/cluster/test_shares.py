"""How often each server of a cluster is chosen for queue groups, by real sockets."""

from __future__ import annotations

from tests.support.clusters import Cluster, settle
from tests.support.leafnodes import Inbox, until

COUNT = 10_000


async def test_shares_are_within_three_percent_of_the_weights() -> None:
    async with Cluster("midge", "real") as cluster:
        at_midge, at_real = await cluster.clients()
        shares = {at_midge: [Inbox(), Inbox()], at_real: [Inbox(), Inbox(), Inbox()]}
        for client, inboxes in shares.items():
            for inbox in inboxes:
                await client.subscribe("work", "g", cb=inbox.take)
        await settle([at_midge, at_real])
        for _ in range(COUNT):
            await at_midge.publish("work", b"")
        every = [inbox for inboxes in shares.values() for inbox in inboxes]
        await until(lambda: sum(len(inbox.messages) for inbox in every) >= COUNT)
        here = sum(len(inbox.messages) for inbox in shares[at_midge])
        assert abs(here - 0.4 * COUNT) <= 0.03 * 0.4 * COUNT
        for inbox in shares[at_midge]:
            assert abs(len(inbox.messages) - 0.2 * COUNT) <= 0.03 * 0.2 * COUNT
        for inbox in every:
            inbox.messages.clear()
        for _ in range(2000):
            await at_real.publish("work", b"")
        await until(lambda: sum(len(inbox.messages) for inbox in every) >= 2000)
        here = sum(len(inbox.messages) for inbox in shares[at_midge])
        assert 600 < here < 1000, "a nats-server chooses at random: 800 and six deviations"
