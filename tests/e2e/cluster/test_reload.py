"""Permissions of a midge that change under a route to a nats-server."""

from __future__ import annotations

import asyncio

from tests.e2e.cluster.test_monitoring import PORT, document
from tests.support.clusters import Cluster, settle
from tests.support.leafnodes import Inbox, until

PERMISSIONS = 'permissions { import: ["in.>", "probe.>"], export: ["out.>", "probe.>"] }'


async def test_a_nats_server_keeps_to_other_permissions() -> None:
    async with Cluster("real", "midge", config=PORT) as cluster:
        at_real, at_midge = await cluster.clients()
        real, midge = cluster.servers
        inboxes = {name: Inbox() for name in ("in.a", "out.a", "late.a")}
        await at_midge.subscribe("in.a", cb=inboxes["in.a"].take)
        await at_real.subscribe("out.a", cb=inboxes["out.a"].take)
        await at_real.subscribe("late.a", cb=inboxes["late.a"].take)
        await settle([at_real, at_midge])
        (before,) = (await document(real, "/routez"))["routes"]
        wide = midge.config_path.read_text()
        narrow = wide.replace("connect_retries", f"{PERMISSIONS}\nconnect_retries", 1)
        await asyncio.to_thread(midge.signal, "SIGHUP", narrow)
        await until(lambda: midge.log.count("Reloaded server configuration") == 1)
        await settle([at_real, at_midge])
        (route,) = (await document(real, "/routez"))["routes"]
        assert route["import"] == {"allow": ["in.>", "probe.>"]}
        assert route["export"] == {"allow": ["out.>", "probe.>"]}
        for subject in ("out.a", "late.a"):
            await at_midge.publish(subject, b"narrow")
        await at_real.publish("in.a", b"narrow")
        await settle([at_real, at_midge])
        await asyncio.to_thread(midge.signal, "SIGHUP", wide)
        await until(lambda: midge.log.count("Reloaded server configuration") == 2)
        await settle([at_real, at_midge])
        await at_midge.publish("late.a", b"wide")
        await settle([at_real, at_midge])
        assert {name: inbox.data for name, inbox in inboxes.items()} == {
            "in.a": [b"narrow"],
            "out.a": [b"narrow"],
            "late.a": [b"wide"],
        }
        (after,) = (await document(real, "/routez"))["routes"]
        assert after["rid"] == before["rid"], "the route has stayed up"
