"""Hints: a request for a feature that is switched off is logged, once per account."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from midge.server.config.options import (
    Account,
    Export,
    Import,
    ImportSource,
    Listen,
    Options,
    User,
)
from midge.server.server import Server
from tests.support.raw import Raw

REQUEST = b"PUB $JS.API.INFO _INBOX.1 0\r\n"
ACCOUNTS = (
    Account(name="A", users=(User(user="a", password="p"),)),
    Account(name="B", users=(User(user="b", password="p"),)),
    Account(
        name="OWNER",
        users=(User(user="owner", password="p"),),
        exports=(Export(service="$JS.API.>"),),
    ),
    Account(
        name="IMPORTER",
        users=(User(user="importer", password="p"),),
        imports=(Import(service=ImportSource(account="OWNER", subject="$JS.API.>")),),
    ),
)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server(Options(listen=Listen(port=-1), accounts=ACCOUNTS))
    await made.start()
    yield made
    await made.stop()


async def publish(server: Server, user: str, *lines: bytes, no_responders: bool = True) -> None:
    raw = await Raw.open(server.urls()["nats"][0])
    await raw.connect(user=user, no_responders=no_responders, **{"pass": "p"})
    await raw.ask(*lines)
    await raw.close()


def missed(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if "jetstream_missed" in line]


@pytest.mark.parametrize("no_responders", [True, False])
async def test_the_first_request_of_each_account_is_logged(
    server: Server, caplog: pytest.LogCaptureFixture, *, no_responders: bool
) -> None:
    for user in ("a", "a", "b"):
        await publish(server, user, REQUEST, REQUEST, no_responders=no_responders)
    lines = missed(caplog)
    assert ["account='A'" in line for line in lines] == [True, False], lines
    assert "$JS.API.INFO" in lines[0]
    assert "-js" in lines[0]


async def test_what_is_no_request_to_nobody_is_not(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    await publish(server, "a", b"PUB $JS.API.INFO 0\r\n", b"PUB $JS.APIS.INFO _INBOX.1 0\r\n")
    await publish(server, "a", b"SUB $JS.API.* 1", REQUEST)
    assert missed(caplog) == []


async def test_an_imported_api_is_not_missed(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    await publish(server, "importer", REQUEST)
    assert missed(caplog) == []
