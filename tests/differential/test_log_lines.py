"""Both servers write the same lines about clients that they refuse, and about plain passwords."""

from __future__ import annotations

import re

import pytest

from midge.server.auth.nkeys import KeyKind
from tests.support.keys import KeyPair
from tests.support.processes import Server, midge_command, nats_server_command
from tests.support.raw import Raw

KEY = KeyPair(KeyKind.USER).public
HASH = "$2a$04$ZlgW.jTJlsyDxfKRzsT.GOvDxTtNF7dlEBYhqSXJGYNmhpAcv5YbO"
OFFERS: tuple[dict[str, str], ...] = (
    {"user": "a", "pass": "wrong"},
    {"user": 'a"\n\x01é', "pass": "wrong"},
    {"auth_token": "wrong"},
    {"nkey": KEY, "sig": "wrong"},
    {"nkey": "junk"},
    {"jwt": "wrong"},
    {"user": "a", "auth_token": "wrong", "nkey": "n"},
    {},
)
LINE = re.compile(r"\[(?P<level>WRN|ERR)\] (?:\S+ - cid:\d+ - )?(?P<text>.*)")


def complaints(log: str) -> list[tuple[str, str]]:
    """Return level and text of each warning and error, without the client that it names.

    That midge runs interpreted is no complaint about a client.
    """
    found = [(line["level"], line["text"]) for line in LINE.finditer(log)]
    return [one for one in found if not one[1].startswith("running interpreted")]


async def lines_of(command: list[str], config: str) -> list[tuple[str, str]]:
    with Server(command, config) as server:
        for offer in OFFERS:
            raw = await Raw.open(server.url)
            assert await raw.connect(**offer) == b"-ERR 'Authorization Violation'\r\n"
            await raw.close()
        raw = await Raw.open(server.url)
        assert await raw.ask(b"SUB a 1") == b"-ERR 'Authorization Violation'\r\n"
        await raw.close()
        return complaints(server.log)


@pytest.mark.parametrize(
    "config",
    [
        "authorization { user: a, password: b }",
        f'authorization {{ user: a, password: "{HASH}" }}',
        f'authorization {{ users = [ {{user: a, password: b}}, {{user: c, password: "{HASH}"}} ]}}',
        f"authorization {{ users = [ {{nkey: {KEY}}} ] }}",
        "authorization { token: t }",
        "accounts { A: { users = [ {user: a, password: b} ] } }",
    ],
    ids=["password", "hash", "users", "nkey", "token", "account"],
)
async def test_refused_clients_and_plain_passwords(config: str) -> None:
    expected = await lines_of(nats_server_command(), config)
    assert any(' - User "a"' in text for _, text in expected)
    assert await lines_of(midge_command(), config) == expected
