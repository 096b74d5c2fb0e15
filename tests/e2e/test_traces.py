"""`-DV` and `-DVV` as a process writes them: the lines harnesses look for, and never a secret."""

from __future__ import annotations

import json

import pytest

from midge.server.auth.nkeys import KeyKind
from tests.support.keys import KeyPair
from tests.support.processes import Server, midge_command
from tests.support.raw import Raw

SECRET = "s3cret-Xk29"
CONNECTS = (
    {"user": "u", "pass": SECRET},
    {"auth_token": SECRET},
    {"jwt": SECRET, "sig": SECRET, "proxy_sig": SECRET},
    {"PASS": SECRET, "Auth_Token": SECRET, "JWT": SECRET},
    {"user": "u", "pass": [SECRET, {"pass": SECRET}]},
)
BROKEN = (
    b'CONNECT {"pass":"%b"' % SECRET.encode(),
    b'CONNECT {"p\\u0061ss":"%b"} x' % SECRET.encode(),
    b'CONNECT ["%b"]' % SECRET.encode(),
    b'CONNECT {"verbose":"%b"}' % SECRET.encode(),
    b"-ERR 'x'",
)


@pytest.mark.parametrize("flag", ["-DV", "-DVV"])
async def test_no_secret_is_ever_logged(flag: str) -> None:
    config = f"authorization {{ user: u, password: {SECRET} }}\n"
    with Server(midge_command(), config, (flag,)) as server:
        for options in CONNECTS:
            raw = await Raw.open(server.url)
            raw.send(b"CONNECT " + json.dumps(options).encode(), b"PING")
            await (raw.until_pong() if options == CONNECTS[0] else raw.until_end())
            await raw.close()
        for line in BROKEN:
            raw = await Raw.open(server.url)
            raw.send(line)
            await raw.until_end()
            await raw.close()
        log = server.log
    assert "<<- [CONNECT {" in log
    assert log.count("[REDACTED]") >= len(CONNECTS)
    assert SECRET not in log


async def test_a_signature_is_no_secret_of_the_log_either() -> None:
    user = KeyPair(KeyKind.USER)
    config = f"authorization {{ users: [ {{nkey: {user.public}}} ] }}\n"
    with Server(midge_command(), config, ("-DV",)) as server:
        raw = await Raw.open(server.url)
        signature = user.signature(raw.info["nonce"].encode())
        assert await raw.connect(nkey=user.public, sig=signature) == b""
        await raw.close()
        assert signature not in server.log
        assert f'"nkey":"{user.public}"' in server.log


async def test_lines_have_nats_servers_form() -> None:
    with Server(midge_command(), flags=("-DV",)) as server:
        raw = await Raw.open(server.url)
        await raw.connect(name="shop")
        await raw.ask(b"SUB a 1", b"PUB a 2", b"hi", b"UNSUB 1")
        await raw.close()
        traced = [line.partition(" - ")[2] for line in server.log.splitlines() if " [TRC] " in line]
    said = [line.partition('"')[2].partition('" - ')[2] or line for line in traced]
    for expected in (
        "<<- [SUB a 1]",
        "<<- [PUB a 2]",
        '<<- MSG_PAYLOAD: ["hi"]',
        "->> [MSG a 1 2]",
        "<<- [UNSUB 1]",
        "<-> [DELSUB 1]",
    ):
        assert any(line.endswith(expected) for line in said), (expected, traced)
