"""Scripts made at random: the same seed and number give the same script, and the same servers.

Each kind draws what its users get wrong from small alphabets, so that subjects meet. What both
servers are free to choose is left out: queue groups have one member, and what one message brings to
several subscriptions is compared without its order.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from random import Random

from .script import (
    Await,
    HalfClose,
    Open,
    Script,
    ServerConfig,
    Step,
    connect,
    hpub,
    on,
    pub,
    sub,
    unsynced,
)
from .websocket import BINARY, CLOSE, FINAL, PING, TEXT, deflated, frame, upgrade

SCRIPTS_PER_CONFIG = 25
"""Scripts that share a configuration made at random: starting two servers takes 0.5 s."""

TOKENS = (b"a", b"b", b"c")
WILD = (*TOKENS, b"*", b">")
ODD_SUBJECTS = (
    b"", b".", b"a..b", b".a", b"a.", b"a.>.b", b"a*", b">a", b"$SYS.x", b"_INBOX.a", b"\xff",
)  # fmt: skip
HEADER = b"NATS/1.0\r\nA: b\r\n\r\n"
ODD_HEADERS = (
    b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nA:b\r\nA: c\r\n\r\n", b"NATS/1.0 503\r\n\r\n", b"X",
)  # fmt: skip
_LAST_LINE = b"-ERR 'x'"
"""Ends a connection; nats-server still handles later commands of the same read."""

ODD_LINES = (
    b"PING", b"ping  ", b"PONG", b"+OK", b"SUB", b"SUB a", b"SUB a b c d", b"UNSUB", b"UNSUB 1 x",
    b"UNSUB 99", b"PUB", b"PUB a x\r\nhello", b"PUB a -1", b"PUB a 1 2 3", b"HPUB a 1",
    b"HPUB a 9 2\r\n12", b"MSG a 1 0\r\n", b"INFO {}", b"CONNECT {", b"CONNECT {}", b"CONNECT []",
    _LAST_LINE, b"WHAT a", b"P", b"PUB a 99999999999", b"SUB\ta\t1", b"PUB\ta\t0\r\n",
    b"PUB  a   0 \r\n",
)  # fmt: skip


def subject(random: Random, alphabet: tuple[bytes, ...] = TOKENS, odd: float = 0.0) -> bytes:
    """Return a subject of one to three tokens; an odd one as often as `odd` says."""
    if random.random() < odd:
        return random.choice(ODD_SUBJECTS)
    tokens = [random.choice(alphabet) for _ in range(random.randint(1, 3))]
    if b">" in tokens:
        tokens = tokens[: tokens.index(b">") + 1]
    return b".".join(tokens)


def options(random: Random) -> dict[str, object]:
    """Return what a CONNECT may say, beside credentials."""
    drawn: dict[str, object] = {"protocol": random.randint(0, 1)}
    for name in ("verbose", "pedantic", "echo", "headers"):
        if random.random() < 0.4:
            drawn[name] = random.random() < 0.5
    if drawn.get("headers") and random.random() < 0.4:
        drawn["no_responders"] = True
    return drawn


def command(random: Random, sid: bytes, odd: float) -> bytes:
    """Return one command in good form; its subject may be odd."""
    kind = random.random()
    if kind < 0.35:
        queue = b"q%d" % random.getrandbits(30) if random.random() < 0.2 else b""
        return sub(subject(random, WILD, odd), sid, queue)
    if kind < 0.45:
        most = b" %d" % random.randint(0, 3) if random.random() < 0.5 else b""
        return b"UNSUB %d%b\r\n" % (random.randint(1, 4), most)
    reply = subject(random, TOKENS, odd / 2) if random.random() < 0.2 else b""
    payload = b"x" * random.choice((0, 1, 2, 40))
    if kind < 0.85:
        return pub(subject(random, TOKENS, odd), payload, reply)
    headers = random.choice(ODD_HEADERS) if random.random() < odd else HEADER
    return hpub(subject(random, TOKENS, odd), headers, payload, reply)


def commands(random: Random, odd: float = 0.1) -> bytes:
    """Return a handful of commands."""
    return b"".join(
        command(random, b"%d" % random.randint(1, 4), odd) for _ in range(random.randint(1, 6))
    )


def talk(random: Random, logins: list[dict[str, object]], odd: float = 0.1) -> list[Step]:
    """Draw one to three clients, each with one of the `logins`, that send alternately."""
    names = "abc"[: random.randint(1, 3)]
    steps: list[Step] = [
        on(name, connect(**{**options(random), **random.choice(logins)})) for name in names
    ]
    for _ in range(random.randint(2, 6)):
        steps.append(on(random.choice(names), commands(random, odd)))
    return steps


def _script(name: str, steps: list[Step], config: ServerConfig) -> Script:
    return Script(name, "random", tuple(steps), config, unordered=True)


# Kinds.

ENDS = (
    b"", frame(b"", CLOSE), frame(b"\x03\xe8bye", CLOSE), frame(b"x", 3), frame(b"x", 11),
    frame(b"x", masked=False), deflated(b"PING\r\n"), frame(b"p" * 126, PING),
    frame(b"PI", flags=0) + frame(b"NG", BINARY), frame(b"x", 0), frame(b"", PING, flags=0),
)  # fmt: skip
"""What a WebSocket client says in the end; most of it is against the standard."""

PLAIN = ServerConfig("random-plain")
WEBSOCKET = ServerConfig(
    "random-websocket", "websocket { listen: '127.0.0.1:-1', no_tls: true, compression: true }\n"
)


def wire(name: str, random: Random, _: Random) -> Script:
    """Draw commands, of which the last client's may be in bad form."""
    steps = talk(random, [{}], odd=0.2)
    if random.random() < 0.6:
        odd = random.choices(ODD_LINES, k=random.randint(1, 3))
        if _LAST_LINE in odd:
            del odd[odd.index(_LAST_LINE) + 1 :]
        lines = b"\r\n".join(odd) + b"\r\n"
        steps.append(unsynced("z", connect(**options(random)) + commands(random) + lines))
        steps.append(HalfClose("z"))
    return _script(name, steps, PLAIN)


def permissions(name: str, random: Random, shared: Random) -> Script:
    """Draw users with rules, and what they do."""

    def listed(alphabet: tuple[bytes, ...]) -> list[str]:
        return [subject(shared, alphabet).decode() for _ in range(shared.randint(0, 3))]

    users, logins = [], []
    for number in range(4):
        rules: dict[str, object] = {}
        for side in ("publish", "subscribe"):
            if shared.random() < 0.7:
                # midge is stricter: what may be subscribed to must lie within one allowance.
                allowed = WILD if side == "publish" else (*TOKENS, b">")
                kinds = {"allow": listed(allowed), "deny": listed(WILD)}
                rules[side] = {kind: found for kind, found in kinds.items() if found} or "a"
        if shared.random() < 0.3:
            rules["allow_responses"] = shared.choice([True, {"max": 2}])
        users.append({"user": f"u{number}", "password": "p", "permissions": rules})
        logins.append({"user": f"u{number}", "pass": "p"})
    config = ServerConfig("random-permissions", json.dumps({"authorization": {"users": users}}))
    return _script(name, talk(random, logins), config)


def accounts(name: str, random: Random, shared: Random) -> Script:
    """Draw three accounts that exchange streams and services, and their clients."""
    tables: dict[str, dict[str, list[object]]] = {}
    logins: list[dict[str, object]] = []
    offered: list[tuple[str, str, str]] = []
    for account in "XYZ":
        kinds = [shared.choice(("stream", "service")) for _ in range(shared.randint(0, 3))]
        patterns = {subject(shared, (*TOKENS, b"*")).decode(): kind for kind in kinds}
        offered += [(account, kind, pattern) for pattern, kind in patterns.items()]
        tables[account] = {
            "users": [{"user": account, "password": "p"}],
            "exports": [{kind: pattern} for pattern, kind in patterns.items()],
            "imports": [],
        }
        logins.append({"user": account, "pass": "p"})
    for account, kind, pattern in offered:
        importer = shared.choice([one for one in "XYZ" if one != account])
        entry: dict[str, object] = {kind: {"account": account, "subject": pattern}}
        if shared.random() < 0.5:
            entry["to" if kind == "service" or "*" not in pattern else "prefix"] = (
                f"to.{pattern}" if kind == "service" or "*" not in pattern else "from"
            )
        tables[importer]["imports"].append(entry)
    config = ServerConfig("random-accounts", json.dumps({"accounts": tables}))
    return _script(name, talk(random, logins, odd=0.02), config)


def websocket(name: str, random: Random, _: Random) -> Script:
    """Draw frames of every kind around commands, whole, cut, masked and deflated."""
    compresses = random.random() < 0.5
    # Nothing fatal: nats-server may lose what it had to say before, in frames.
    data = connect(**{**options(random), "headers": True}) + commands(random, 0) + b"PING\r\n"
    frames = b""
    while data:
        size = random.randint(1, len(data))
        piece, data = data[:size], data[size:]
        draw = random.random()
        if compresses and draw < 0.25:
            frames += deflated(piece)
        elif draw < 0.5 and len(piece) > 1:
            cut = random.randint(1, len(piece) - 1)
            frames += frame(piece[:cut], BINARY, flags=0) + frame(piece[cut:], 0, flags=FINAL)
        else:
            frames += frame(piece, random.choice((BINARY, TEXT)))
        if random.random() < 0.15:
            frames += frame(b"p" * random.choice((0, 5, 125)), PING)
    extra = b"Sec-WebSocket-Extensions: permessage-deflate\r\n" if compresses else b""
    steps: list[Step] = [
        Open("a", "websocket"),
        unsynced("a", upgrade(extra=extra)),
        Await("a", b"\r\n\r\n"),
        unsynced("a", frames),
    ]
    if not compresses:  # else PONG could not be seen, and nats-server drops a read with a bad frame
        steps += [Await("a", b"PONG\r\n"), unsynced("a", random.choice(ENDS))]
    return dataclasses.replace(_script(name, steps, WEBSOCKET), racy_end=True, final_ping=False)


KINDS: dict[str, Callable[[str, Random, Random], Script]] = {
    "wire": wire,
    "permissions": permissions,
    "accounts": accounts,
    "websocket": websocket,
}


def make(kind: str, seed: int, number: int) -> Script:
    """Return the script of that number; a run of them shares its configuration."""
    shared = Random(f"{kind} {seed} {number // SCRIPTS_PER_CONFIG}")
    own = Random(f"{kind} {seed} {number}")
    return KINDS[kind](f"{kind}/{seed}/{number}", own, shared)
