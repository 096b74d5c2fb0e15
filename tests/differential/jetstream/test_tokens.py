"""What an account's token says of JetStream holds on both servers alike: limits, and tiers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import nats

from midge.server.auth.nkeys import KeyKind
from tests.support.keys import UNLIMITED_ACCOUNT, KeyPair, make_token
from tests.support.processes import Server, midge_command, nats_server_command

OPERATOR, SYSTEM, USER = (
    KeyPair(KeyKind.OPERATOR),
    KeyPair(KeyKind.ACCOUNT),
    KeyPair(KeyKind.USER),
)
MIB = 1 << 20
LIMITED = {
    "mem_storage": MIB, "disk_storage": 4 * MIB, "streams": 2, "consumer": 1,
    "max_ack_pending": 5, "disk_max_stream_bytes": 2 * MIB, "max_bytes_required": True,
}  # fmt: skip
ACCOUNTS: dict[str, dict[str, Any]] = {
    "none": {},
    "limited": LIMITED,
    "unlimited": {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1},
    "only memory": {"mem_storage": MIB, "streams": -1, "consumer": -1},
    "tiers": {"tiered_limits": {"R1": LIMITED, "R3": {"disk_storage": -1, "streams": 1}}},
    "another tier": {"tiered_limits": {"R3": {"disk_storage": -1, "streams": 1}}},
    "empty tiers": {"tiered_limits": {"R1": {"streams": 1}}},
    "both": {**LIMITED, "tiered_limits": {"R1": {"disk_storage": -1}}},
}
KEYS = {name: KeyPair(KeyKind.ACCOUNT) for name in ACCOUNTS}

STREAMS: list[dict[str, Any]] = [
    {"storage": "memory"},
    {"storage": "memory", "max_bytes": 2 * MIB},
    {"max_bytes": 3 * MIB},
    {"max_bytes": 2 * MIB},
    {"max_bytes": MIB, "num_replicas": 3},
    {"max_bytes": MIB, "max_consumers": 5},
    {"max_bytes": 100},
    {"max_bytes": 100},
]


def config() -> str:
    tokens = [f"{SYSTEM.public}: {make_token(OPERATOR, SYSTEM.public, 'account')}"]
    for name, limits in ACCOUNTS.items():
        claims = {"limits": {**UNLIMITED_ACCOUNT, **limits}}
        token = make_token(OPERATOR, KEYS[name].public, "account", nats=claims)
        tokens.append(f"{KEYS[name].public}: {token}")
    preload = "\n".join(tokens)
    return (
        f"operator: {make_token(OPERATOR, OPERATOR.public, 'operator')}\n"
        f"system_account: {SYSTEM.public}\nresolver: MEMORY\nresolver_preload: {{\n{preload}\n}}\n"
        'jetstream { store_dir: "@directory@/store" }\n'
    )


async def connected(server: Server, account: KeyPair) -> Any:
    unlimited = {"subs": -1, "data": -1, "payload": -1}
    token = make_token(account, USER.public, "user", nats=unlimited)
    return await nats.connect(
        server.url,
        user_jwt_cb=token.encode,
        signature_cb=lambda nonce: USER.signature(nonce.encode()).encode(),
    )


async def asked(client: Any, subject: str, body: dict[str, Any] | None = None) -> Any:
    data = b"" if body is None else json.dumps(body).encode()
    answer = json.loads((await client.request("$JS.API." + subject, data, timeout=30)).data)
    if "error" in answer:
        return answer["error"]
    kept = ("limits", "tiers", "streams", "consumers", "storage", "memory", "did_create", "name")
    return {key: answer[key] for key in kept if key in answer}


async def answers_of(server: Server, account: KeyPair) -> list[Any]:
    client = await connected(server, account)
    found = [await asked(client, "INFO")]
    for number, keys in enumerate(STREAMS):
        name = f"S{number}"
        body = {"name": name, "subjects": [name], **keys}
        found.append(await asked(client, f"STREAM.CREATE.{name}", body))
        for consumer in ("a", "b"):
            wanted = {"durable_name": consumer, "ack_policy": "explicit", "max_ack_pending": 6}
            wanted["max_ack_pending"] = 6 if consumer == "a" else 5
            request = {"stream_name": name, "config": wanted}
            found.append(await asked(client, f"CONSUMER.CREATE.{name}.{consumer}", request))
    found.append(await asked(client, "INFO"))
    await client.close()
    return found


async def on(command: list[str]) -> dict[str, list[Any]]:
    with Server(command, config()) as server:
        await asyncio.to_thread(server.wait_ready)
        return {name: await answers_of(server, key) for name, key in KEYS.items()}


async def test_limits_and_tiers_of_tokens() -> None:
    real, found = await asyncio.gather(on(nats_server_command()), on(midge_command()))
    assert found == real
