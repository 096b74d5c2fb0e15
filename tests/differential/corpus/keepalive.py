"""The server's own PINGs, and the end of clients that do not answer."""

from tests.differential.script import (
    Await,
    AwaitClose,
    Open,
    Quiet,
    ServerConfig,
    connect,
    group,
    pub,
    script,
    sub,
)

OFTEN = ServerConfig("ping-often", "ping_interval: '300ms'\nping_max: 2\n", early_ping=True)
ONCE = ServerConfig("ping-once", "ping_interval: '300ms'\nping_max: 1\n", early_ping=True)
ACTIVE = ServerConfig("ping-active", "ping_interval: '600ms'\nping_max: 1\n")
SELDOM = ServerConfig("ping-seldom", "ping_interval: '1m'\n", early_ping=True)

_PING = b"PING\r\n"

SCRIPTS = (
    *group(
        "keepalive",
        script("stale", "two PINGs without answer, then the text", connect(), AwaitClose("a")),
        script("stale-without-connect", "without CONNECT too", Open("a"), AwaitClose("a")),
        script(
            "pong-resets",
            "a PONG starts the count anew",
            connect(),
            Await("a", _PING, 1),
            Await("a", _PING, 2),
            b"PONG\r\n",
            Await("a", _PING, 4),
            AwaitClose("a"),
        ),
        script(
            "one-pong-is-enough",
            "whatever is outstanding",
            connect(),
            Await("a", _PING, 2),
            b"PONG\r\n",
            AwaitClose("a"),
        ),
        config=OFTEN,
    ),
    *group(
        "keepalive/once",
        script("stale", "one PING, then the text", connect(), AwaitClose("a")),
        config=ONCE,
    ),
    *group(
        "keepalive/active",
        script(
            "never-answers",
            "who goes on publishing is not stale, though it answers nothing",
            connect(),
            *(step for _ in range(12) for step in (Quiet("a", 0.15), pub(b"k.b"))),
        ),
        config=ACTIVE,
    ),
    *group(
        "keepalive/early",
        script(
            "after-connect",
            "the first PING comes about two seconds after CONNECT",
            connect(),
            Await("a", _PING),
            b"PONG\r\n" + sub(b"k.a") + pub(b"k.a", b"x"),
        ),
        config=SELDOM,
    ),
)
