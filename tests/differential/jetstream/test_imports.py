"""JetStream of another account, imported under a prefix: both servers answer alike."""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any

import nats

from tests.support.processes import Server, midge_command, nats_server_command

CONFIG = """
jetstream { store_dir: "@directory@/store" }
no_auth_user: app
accounts {
    JS {
        jetstream: enabled
        users: [ { user: js, password: js } ]
        exports: [
            { service: "$JS.API.>", response: stream }
            { stream: "deliver.>" }
            { service: "$JS.ACK.>" }
            { service: "$JS.FC.>" }
            { service: "orders.>" }
        ]
    }
    APP {
        users: [ { user: app, password: app } ]
        imports: [
            { service: { account: JS, subject: "$JS.API.>" }, to: "from.js.>" }
            { stream: { account: JS, subject: "deliver.>" } }
            { service: { account: JS, subject: "$JS.ACK.>" } }
            { service: { account: JS, subject: "$JS.FC.>" } }
            { service: { account: JS, subject: "orders.>" } }
        ]
    }
}
"""

_WAIT_S = 10.0  # for answers that come

_MASKED = (
    (re.compile(r"20\d\d-\d\d-\d\dT[\d:.]+Z"), "T"),
    (re.compile(r"(\$JS\.ACK(?:\.\w+){2}\.\d+\.\d+\.\d+)\.\d{19}"), r"\1.T"),
    (re.compile(r"_INBOX\.[\w.]+"), "INBOX"),
    (re.compile(r'"leader":"[^"]*"'), '"leader":""'),
)


def masked(text: str) -> str:
    for pattern, shown in _MASKED:
        text = pattern.sub(shown, text)
    return text


def shown(message: Any) -> list[Any]:
    status = (message.headers or {}).get("Status"), (message.headers or {}).get("Description")
    return [masked(message.subject), masked(message.reply), message.data.decode(), *status]


class Client:
    """A client of the importing account."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.found: list[Any] = []

    async def ask(self, subject: str, body: Any = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body else b""
        try:
            answer = await self.client.request(subject, data, timeout=_WAIT_S)
        except Exception as error:  # noqa: BLE001 - what it is, is compared
            self.found.append([masked(subject), type(error).__name__])
        else:
            text = masked(answer.data.decode())
            status = (answer.headers or {}).get("Status")
            self.found.append([masked(subject), text, status])

    async def ask_until(self, subject: str, settled: str) -> None:
        """Ask until the answer holds `settled`, and note that one; after 5 s, the last one.

        nats-server counts messages, and notices missing listeners, a little later.
        """
        before = len(self.found)
        end = time.monotonic() + 5
        await self.ask(subject)
        while settled not in self.found[-1][1] and time.monotonic() < end:
            del self.found[before:]
            await asyncio.sleep(0.01)
            await self.ask(subject)

    async def pull(self, consumer: str, body: dict[str, Any], count: int) -> Any:
        """Send a pull request; record the `count` messages that come."""
        inbox = self.client.new_inbox()
        subscription = await self.client.subscribe(inbox)
        subject = f"from.js.CONSUMER.MSG.NEXT.ORDERS.{consumer}"
        await self.client.publish(subject, json.dumps(body).encode(), reply=inbox)
        got = [await subscription.next_msg(timeout=_WAIT_S) for _ in range(count)]
        await subscription.unsubscribe()
        self.found.append([consumer, [shown(message) for message in got]])
        return got

    async def pull_with_heartbeats(self, consumer: str) -> None:
        """Send a pull request that gets heartbeats and no message; record all, and its end.

        How many heartbeats come until it expires depends on the load: they are recorded once.
        """
        inbox = self.client.new_inbox()
        subscription = await self.client.subscribe(inbox)
        request = {"batch": 1, "expires": 1_250_000_000, "idle_heartbeat": 150_000_000}
        subject = f"from.js.CONSUMER.MSG.NEXT.ORDERS.{consumer}"
        await self.client.publish(subject, json.dumps(request).encode(), reply=inbox)
        got: list[Any] = []
        while not got or got[-1][3] == "100":
            found = shown(await subscription.next_msg(timeout=_WAIT_S))
            if found not in got:
                got.append(found)
        await subscription.unsubscribe()
        self.found.append([consumer, got])


async def program(url: str) -> list[Any]:
    app = Client(await nats.connect(url))
    ask, pull = app.ask, app.pull
    await ask("from.js.INFO")
    await ask("$JS.API.INFO")
    await ask("from.js.STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders.>"]})
    for number in range(6):
        await ask(f"orders.{number}", b"order %d" % number)
    await ask("from.js.STREAM.INFO.ORDERS")
    await ask("from.js.STREAM.NAMES")
    consumer = {"durable_name": "c", "ack_policy": "explicit"}
    request = {"stream_name": "ORDERS", "config": consumer}
    await ask("from.js.CONSUMER.CREATE.ORDERS.c", request)
    two = await pull("c", {"batch": 2}, 2)
    await ask(two[0].reply, b"+ACK")
    await ask(two[1].reply, b"-NAK")
    await pull("c", {"batch": 1}, 1)
    await pull("c", {"batch": 10, "no_wait": True}, 5)
    await pull("c", {"batch": 10, "expires": 500_000_000}, 1)
    await app.pull_with_heartbeats("c")
    await pull("nobody", {"batch": 1}, 1)
    await ask("from.js.DIRECT.GET.ORDERS", {"last_by_subj": "orders.1"})
    await ask("from.js.STREAM.MSG.GET.ORDERS", {"seq": 3})
    delivered = await app.client.subscribe("deliver.here")
    pushed = {"durable_name": "p", "ack_policy": "explicit", "deliver_subject": "deliver.here"}
    await ask("from.js.CONSUMER.CREATE.ORDERS.p", {"stream_name": "ORDERS", "config": pushed})
    for _ in range(6):
        message = await delivered.next_msg(timeout=_WAIT_S)
        app.found.append(shown(message))
        await ask(message.reply, b"+ACK")
    await ask("from.js.CONSUMER.INFO.ORDERS.p")
    await delivered.unsubscribe()
    await ask("orders.6", b"while nobody listens")
    await app.ask_until("from.js.CONSUMER.INFO.ORDERS.p", '"num_pending":1,"ts"')
    delivered = await app.client.subscribe("deliver.here")
    app.found.append(shown(await delivered.next_msg(timeout=_WAIT_S)))
    # A requester that has gone does not consume a message.
    inbox = app.client.new_inbox()
    gone = await app.client.subscribe(inbox)
    subject = "from.js.CONSUMER.MSG.NEXT.ORDERS.c"
    await pull("c", {"batch": 1, "no_wait": True}, 1)
    await app.client.publish(subject, b'{"batch": 1, "expires": 5000000000}', reply=inbox)
    await app.client.flush()
    await gone.unsubscribe()
    await app.client.flush()
    await app.ask_until("from.js.CONSUMER.INFO.ORDERS.c", '"num_waiting":0')
    await ask("orders.7", b"for the next one")
    await pull("c", {"batch": 1}, 1)
    await ask("from.js.CONSUMER.DELETE.ORDERS.c")
    await ask("from.js.STREAM.PURGE.ORDERS")
    await ask("from.js.STREAM.DELETE.ORDERS")
    await app.client.close()
    return app.found


async def on(command: list[str]) -> list[Any]:
    with Server(command, CONFIG) as server:
        await asyncio.to_thread(server.wait_ready)
        return await program(server.url)


async def test_jetstream_of_another_account() -> None:
    real, found = await asyncio.gather(on(nats_server_command()), on(midge_command()))
    assert found == real
