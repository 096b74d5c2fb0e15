"""Links that come up, whatever else the server does."""

from __future__ import annotations

import pytest

from tests.support.leafnodes import Inbox
from tests.support.linked import Linked, settle_both

RESTRICTED = """
accounts { A { users: [
  { user: client, password: p }
  { user: a, password: a, permissions: { %s } }
] } }
"""
"""The user of links has rules, and that of clients has none."""


@pytest.mark.parametrize("far", ["real", "midge"])
@pytest.mark.parametrize("link", ["leaf", "hub"])
@pytest.mark.parametrize("rules", ['publish: { deny: "no.>" }', 'subscribe: { deny: "no.>" }'])
async def test_a_user_with_denied_subjects_alone_may_use_all_others(
    rules: str, link: str, far: str
) -> None:
    config = RESTRICTED % rules
    async with Linked(link, far, config=config, accounts=("A",)) as places:
        near, away = await places.clients(user="client", password="p")
        for subscriber, publisher in ((near, away), (away, near)):
            inbox = Inbox()
            await subscriber.subscribe("yes.>", cb=inbox.take)
            await settle_both(near, away)
            await publisher.publish("yes.1", b"1")
            await publisher.flush()
            await inbox.has(b"1")
