"""Every request to JetStream's API where JetStream is off, and in the system account.

Requests are sent together, and an answered one last, so that silence needs no time-out.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pytest

from midge.testing import SettlingClient
from tests.support.processes import Server, midge_command, nats_server_command

STREAMS = (
    *("CREATE", "UPDATE", "INFO", "DELETE", "PURGE", "MSG.DELETE", "MSG.GET", "SNAPSHOT"),
    *("RESTORE", "PEER.REMOVE", "LEADER.STEPDOWN", "NOPE"),
)
CONSUMERS = (
    *("CREATE", "DURABLE.CREATE", "INFO", "DELETE", "PAUSE", "RESET", "LEADER.STEPDOWN"),
    *("MSG.NEXT", "UNPIN", "NOPE"),
)
REQUESTS = (
    *("STREAM.NAMES", "STREAM.LIST", "CONSUMER.NAMES.S", "CONSUMER.LIST.S", "CONSUMER.CREATE.S"),
    *(f"STREAM.{kind}.S" for kind in STREAMS),
    *(f"CONSUMER.{kind}.S.C" for kind in CONSUMERS),
    *("CONSUMER.CREATE.S.C.f", "DIRECT.GET.S", "DIRECT.GET.S.x", "STREAM.INFO", "NOPE", "INFO"),
    *("META.LEADER.STEPDOWN", "SERVER.REMOVE", "SERVER.STREAM.MOVE.A.S", "ACCOUNT.NOPE.A"),
    *("ACCOUNT.STREAM.MOVE.A.S", "ACCOUNT.PURGE.N", "ACCOUNT.PURGE.A.B", "STREAM.TEMPLATES"),
)
BODIES: tuple[tuple[bytes, dict[str, str]], ...] = (
    *((body, {}) for body in (b"", b"{}", b"x", b"[1]", b'{"group":"a b"}')),
    (b'{"stream_name":"S","config":{"num_replicas":3}}', {}),
)
NEWER = (b"", {"Nats-Required-Api-Level": "99"})
ACCOUNTS = """
server_name: one
accounts {
  A { users: [{user: a, password: p}] }, B { users: [{user: b, password: p}], %s }
  SYS { users: [{user: sys, password: p}] }
}
system_account: SYS
"""
STORE = 'jetstream { store_dir: "@directory@", max_mem: 1G, max_file: 1G, domain: hub }\n'
OFF, ON = ACCOUNTS % "", STORE + ACCOUNTS % "jetstream: enabled"


class Play(NamedTuple):
    """A configuration, a user, and the prefix of the requests."""

    config: str
    user: str
    prefix: str = "$JS.API"


PLAYS = {
    "server without JetStream": Play(OFF, "a"),
    "system account of a server without JetStream": Play(OFF, "sys"),
    "account without JetStream": Play(ON, "a"),
    "account without JetStream, by domain": Play(ON, "a", "$JS.hub.API"),
    "system account": Play(ON, "sys"),
    "system account, by domain": Play(ON, "sys", "$JS.hub.API"),
    "system account, by an unknown domain": Play(ON, "sys", "$JS.other.API"),
}


class Asker:
    """A client that sends requests; `answers` has the messages for each, by its number."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._inbox = client.new_inbox()
        self.answers: defaultdict[int, list[str]] = defaultdict(list)
        self._seen = asyncio.Condition()

    @classmethod
    async def connected(cls, server: Server, user: str) -> Asker:
        """Connect as `user`."""
        asker = cls(await SettlingClient.connected(server.url, user=user, password="p"))
        await asker._client.subscribe(f"{asker._inbox}.*", cb=asker._take)
        return asker

    async def _take(self, message: Any) -> None:
        status = (message.headers or {}).get("Status", "")
        async with self._seen:
            self.answers[int(message.subject.rpartition(".")[2])].append(
                status or message.data.decode()
            )
            self._seen.notify_all()

    async def ask(
        self,
        requests: Iterable[tuple[str, bytes, dict[str, str]]],
        last: str,
        body: bytes = b"",
        counts: Sequence[int] = (),
    ) -> dict[str, list[Any]]:
        """Send all `requests`, and `last`, which is answered; return the answers to each.

        nats-server may answer `last` before others. So this waits for `counts` answers to each, if
        they come within half a minute.
        """
        self.answers.clear()
        asked = [*requests, (last, body, {})]
        for number, (subject, body, headers) in enumerate(asked):
            await self._client.publish(
                subject, body, reply=f"{self._inbox}.{number}", headers=headers or None
            )
        await self._client.flush()
        async with self._seen, asyncio.timeout(60):
            await self._seen.wait_for(lambda: self.answers[len(asked) - 1])
        with contextlib.suppress(TimeoutError):
            async with self._seen, asyncio.timeout(30):
                await self._seen.wait_for(
                    lambda: all(
                        len(self.answers[number]) >= count for number, count in enumerate(counts)
                    )
                )
        await self._client.flush()
        return {
            f"{subject} {body!r} {headers}": [
                json.loads(one) if one[:1] == "{" else one for one in self.answers[number]
            ]
            for number, (subject, body, headers) in enumerate(asked)
        }

    async def answer(self, subject: str, body: bytes = b"") -> Any:
        """Return the answer to one request."""
        ((answer,),) = (await self.ask([], subject, body)).values()
        return answer

    async def close(self) -> None:
        """Disconnect."""
        await self._client.close()


async def answers(
    command: list[str], play: Play, counts: Sequence[int] = ()
) -> dict[str, list[Any]]:
    """Return the answers of the server of `command` to all requests; wait for `counts` of them."""
    # nats-server answers no request with a header in its system account.
    bodies = BODIES if play.user == "sys" else (*BODIES, NEWER)
    with Server(command, play.config) as server:
        asker = await Asker.connected(server, play.user)
        asked = [
            (f"{play.prefix}.{name}", body, headers)
            for name in REQUESTS
            for body, headers in bodies
        ]
        found = await asker.ask(asked, "$JS.API.INFO", counts=counts)
        await asker.close()
    return found


@pytest.mark.parametrize("name", PLAYS)
async def test_every_request_is_answered_alike(name: str) -> None:
    own = await answers(midge_command(), PLAYS[name])
    counts = [len(ones) for ones in own.values()]
    theirs = await answers(nats_server_command(), PLAYS[name], counts)
    assert len(theirs) > len(REQUESTS)
    different = {
        asked: (theirs[asked], own[asked]) for asked in theirs if theirs[asked] != own[asked]
    }
    assert not different


async def test_refused_requests_are_not_counted() -> None:
    for command in (nats_server_command(), midge_command()):
        with Server(command, ON) as server:
            refused, system = [await Asker.connected(server, user) for user in ("a", "sys")]
            await refused.ask([("$JS.API.STREAM.NAMES", b"", {})], "$JS.API.INFO")
            counts = (await system.answer("$SYS.REQ.SERVER.PING.JSZ"))["data"]["api"]
            assert counts["total"] == counts["errors"] == 0
            await refused.close()
            await system.close()


@pytest.mark.parametrize("prefix", ["$JS.API", "$JS.hub.API"])
@pytest.mark.parametrize("is_removed", [False, True])
async def test_an_operator_purges_an_account(prefix: str, is_removed: bool) -> None:
    """All its streams are deleted, even if a reload has removed the account.

    nats-server deletes the files of a removed account, but serves its streams once it is back.
    """
    commands = [midge_command()] if is_removed else [nats_server_command(), midge_command()]
    for command in commands:
        with Server(command, ON) as server:
            user, system = [await Asker.connected(server, user) for user in ("b", "sys")]
            for name, storage in (("F", "file"), ("M", "memory")):
                config = json.dumps({"name": name, "subjects": [name], "storage": storage})
                await user.answer(f"$JS.API.STREAM.CREATE.{name}", config.encode())
            assert (await user.answer("$JS.API.STREAM.NAMES"))["streams"] == ["F", "M"]
            text = server.config_path.read_text()
            if is_removed:
                await user.close()
                renamed = text.replace("B {", "C {").replace("user: b", "user: c")
                await asyncio.to_thread(server.reload, renamed)
            assert await system.answer(f"{prefix}.ACCOUNT.PURGE.B") == {
                "type": "io.nats.jetstream.api.v1.account_purge_response",
                "initiated": True,
            }
            if is_removed:
                await asyncio.to_thread(server.reload, text)
                user = await Asker.connected(server, "b")
            assert not (await user.answer("$JS.API.STREAM.NAMES"))["streams"]
            await user.close()
            await system.close()
